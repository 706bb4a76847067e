// Package daemon is what serves: it wires store, event log, edge, host and
// engine, starts and stops them in order, and runs what people ask for.
//
//	House          the wiring, on one state directory: Open to Close
//	Serve          the daemon: a House with its site's file, control socket,
//	               notifier and the removal of what is old
//	Runner         calls, runs and sessions on an engine: the muru that the
//	               control API serves, or that is used in this process
//	Recipe, Check  a file to run; RunRecipe runs it here
//
// Of the daemon, site.go runs the site's file, control.go opens the socket,
// notify.go posts warnings and keep.go removes what is old. Of a runner,
// recipe.go is what a run is, runs.go those that nobody needs to watch and
// output.go what they said; session.go a REPL's names; talk.go how builtins
// speak to whoever listens; follow.go events and logs that go on; secret.go
// where secrets are.
//
// A House owns what it opened and closes it in the opposite order, each step
// with a deadline. A Runner owns its runs and sessions and none of the
// rollouts they started: those are the engine's. No flag, no environment but
// $MURU_CONTROL and $CREDENTIALS_DIRECTORY, no signal and no exit is known
// here. Start reading at house.go, then serve.go and runner.go.
package daemon
