package starlark

import "go.starlark.net/syntax"

// Dialect returns the options every recipe and module is parsed with: sets,
// and neither while, recursion, top-level for and if, nor the reassignment
// of a global.
func Dialect() *syntax.FileOptions {
	return &syntax.FileOptions{Set: true}
}

// SessionDialect returns the options of an interactive session: [Dialect]
// with for and if at top level, reassignable globals, and loads that bind
// globally so that the next input sees them.
func SessionDialect() *syntax.FileOptions {
	return &syntax.FileOptions{
		Set:               true,
		TopLevelControl:   true,
		GlobalReassign:    true,
		LoadBindsGlobally: true,
	}
}
