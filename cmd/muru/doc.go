// Command muru deploys web applications and lets real traffic decide whether
// a new release deserves all of it.
//
// This package is the command line: verbs, flags, and what ends the process
// with which status. Each verb is one file; those that stand for one call of a
// builtin are made from its Spec, in the files that begin with verbs. Start
// reading at root.go. What a verb does is in the folders below, which know
// nothing of flags:
//
//	daemon       what serves: the wiring of store, log, edge, host and engine,
//	             the order of start and stop, runs, calls and sessions on them
//	repl         the session with a person
//	person       streams, signals, what is shown, and what Ctrl-C means
//	visitortest  visitors, waiting and short paths, for the tests here and in daemon
//
// daemon and repl do not know each other: a session talks to a muru through
// an interface of its own, and repl.go here decides whether that is the client
// of a daemon or a runner in this process.
//
// The tests here are those of the binary: scripts, processes, terminals.
package main
