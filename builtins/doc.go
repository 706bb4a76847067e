// Package builtins is what a recipe can call: the verbs of muru over the
// engine, and the values they return.
//
// # Map
//
//   - [Spec] is the only description of a builtin. From it come the unpacking
//     of arguments, help(), the signature and docs/BUILTINS.md.
//   - [Env] is what a set of builtins acts on, [New] makes the set for a run:
//     [Set.Predeclared] for the runtime, [Set.Close] for what the run left.
//   - [Type] converts and checks one argument; types.go and nouns.go have
//     them all.
//   - call.go is the one wrapper every call goes through.
//   - Values are [*Record], [Duration] and [Time]: frozen snapshots. Each kind
//     of record is declared once in values_*.go, with its attributes, methods
//     and table columns. [Format] is how every value prints.
//   - [JSON] is how every value is written for programs, [Complete] completes
//     a line from the specs, the values and the names there are, [Recorder]
//     writes what a session did as a recipe.
//   - Each family of builtins has a file: deploy.go, canary.go, look.go,
//     traffic.go, http.go, sh.go, files.go, language.go and so on.
//
// # Ownership
//
// The package owns nothing that lasts: apps, releases and rollouts belong to
// the engine. What a run started here and nobody else would end (load from
// traffic()) belongs to its [Set], whose Close ends it and waits.
//
// # Errors
//
// A builtin's own failures are [muru.Error] whose message begins with the
// builtin's name and, for an argument, the parameter's: "canary: steps[1]: 10%
// is not above 50%". Failures of functions a recipe handed in pass through
// unchanged.
//
// Start reading at [Spec], then call.go.
package builtins
