// Package person is the side of the person who started this process: their
// streams and signals, what they see of a call or a run that works elsewhere,
// and what their Ctrl-C means.
//
//	Person       streams and signals
//	Signals      who gets a signal: the process, or whoever took them
//	Terminal     lines, and progress that is redrawn where it can be
//	Printer      the messages of a call on a Terminal, with a pause for questions
//	Watch        shows a call or a run until it ends or the person leaves it
//	AttachRun    a Watch of a run; PrintRuns, ParseRun: the list of them
//	ExitError    an end that has a status of its own
//
// It evaluates nothing and serves nothing: what is watched is reached through
// [Watched], which the client of a daemon and a muru in this process both
// are. Nothing here outlives the func that started it; [UntilSignal] runs
// until its stop.
//
// Start reading at watch.go, then ask.go.
package person
