// Command muru deploys web applications and lets real traffic decide whether
// a new release deserves all of it.
//
// This package is the only one that knows all the others: flags, the wiring
// of log, edge, host and engine, the order of shutdown, what a person sees on
// a terminal, and exit codes. Each verb is one file. Start reading at
// house.go, which builds everything, serve.go, the daemon with the order in
// which it starts and stops, runner.go, which runs recipes, calls and
// sessions in it, and run.go, the verb `muru run`.
package main
