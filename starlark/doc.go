// Package starlark runs recipes: it holds the dialect, the threads and their
// limits, load() and the errors people see. Import it as script; the bare
// word starlark always means go.starlark.net/starlark.
//
// It knows no builtin of muru. What a recipe can call is handed in as
// [Options].Predeclared, and what a builtin needs from its thread is asked
// for here.
//
// # Map
//
//   - [Runtime] is the configuration of a place where recipes run; [File] is
//     a recipe that was read, checked and linked with all it loads, and has
//     not been executed. [File.Run] executes it, [File.Usage] is its help.
//   - [Session] runs one input after the other with names that persist;
//     [Incomplete] says whether an input goes on. input.go says how inputs
//     are compiled.
//   - [Limits] bound a run: steps, wall time, memory.
//   - [Call] calls a Starlark function from Go on a thread of its own: gate
//     functions, branches of parallel, polls. [Freeze] comes first.
//   - For builtins: [ContextOf], [Where], [FileOf], [DirOf], [AtModuleTop],
//     [CheckEffect], [Waiting], [Catch] and [Recover].
//   - [Error] is every failure that comes out of here, with its position,
//     its stack and the one rendering people see, [Error.Text].
//
// # Ownership
//
// A run owns every thread made in it. All of them are made by newThread, so
// none misses its context, its limits, Print, Load or the caller's Setup. A
// thread is used by one goroutine; the only thing that reaches it from
// outside is its context, whose end stops the interpreter before its next
// step. Values that another thread will see are frozen first. A session owns
// its variables; each of its inputs is a run.
//
// # What cannot be stopped
//
// One primitive operation is not interrupted: sorting a huge list, repeating
// a list a million times, formatting a large value. Such an operation is
// bounded by the memory it may take in one go: sequences over
// [MaxElements] are refused by the functions that would copy them, and
// ranges end early when their run is stopped, but "x" * 1000000000 takes its
// gigabyte, and [0] * 1000000000 its sixteen, before the watchdog sees it. A
// value nested millions deep can
// overflow the Go stack when it is printed or frozen, and that ends the
// process.
//
// Start reading at [File.Run] in run.go, then thread.go.
package starlark
