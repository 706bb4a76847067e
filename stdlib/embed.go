// Package stdlib holds the Starlark modules shipped in the binary, which
// recipes load as "@std//name.star". Their functions are documented by their
// docstrings; they use nothing but builtins any recipe can call.
package stdlib

import "embed"

// FS holds the modules by name, such as "notify.star".
//
//go:embed *.star
var FS embed.FS
