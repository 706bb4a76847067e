// Package repl is muru's session with a person: it reads calls, has a muru
// evaluate them, and shows what they say and return. The muru is that of a
// daemon or one in this process; which, and where it is, is cmd/muru's to
// find.
//
//	Run, Muru      a session from its beginning to its end, and what it needs
//	loop.go        the loop with a person: news, prompt, block, evaluation
//	piped.go       the loop without one
//	input.go       where lines come from: the line editor, a plain terminal, a pipe
//	editor.go      the line editor; keys.go, lines.go: what it is told, and how it has a block
//	history.go     the file that sessions share
//	interrupt.go   Ctrl-C and Ctrl-D
//	news.go        what others did, before the next prompt
//	commands.go    the % commands; edit.go, repeat.go and save.go are the long ones
//
// One goroutine owns a session and everything in it, but for the completion
// and the notice of a call, which come from others and say so. Names and
// their values are the muru's: of a session only what was typed is here.
//
// What is here is tested without a terminal; the tests that type at one are
// cmd/muru's, which has the binary. Start reading at loop.go.
package repl
