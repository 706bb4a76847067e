package main

import (
	"regexp"
	"strings"

	"muru/builtins"
	"muru/control"
)

// hinted is the error of a verb's call. What it advises is written for
// recipes, and said here as it is typed: --to for to=.
type hinted struct {
	flags []builtins.Param
	err   error
}

func (e *hinted) Error() string { return e.err.Error() }

// Text is [control.ErrorText] of it.
func (e *hinted) Text() string { return asTyped(e.flags, control.ErrorText(e.err)) }

func (e *hinted) Unwrap() error { return e.err }

var (
	keyword   = regexp.MustCompile(`\b([a-z_]+)(?:=| = (True|False|"[^"]*"))`)
	routeCall = regexp.MustCompile(`\bapp\("([^"]+)", hosts = \["([^"]+)"\]\)`)
)

// asTyped says keywords as flags where an error says what to do: in its hint,
// and behind "with".
func asTyped(flags []builtins.Param, text string) string {
	before, advice, ok := strings.Cut(text, "\nhint: ")
	if ok {
		before += "\nhint: "
	} else if before, advice, ok = strings.Cut(text, ": name the release with "); ok {
		before += ": name the release with "
	} else {
		return text
	}
	advice = routeCall.ReplaceAllString(advice, "muru app $1 --hosts $2")
	return before + keyword.ReplaceAllStringFunc(advice, func(said string) string {
		m := keyword.FindStringSubmatch(said)
		for _, p := range flags {
			switch {
			case p.Name != m[1]:
			case m[2] == "False":
				return "--no-" + flagName(p)
			case m[2] == "True" || m[2] == "":
				return "--" + flagName(p)
			default:
				return "--" + flagName(p) + " " + strings.Trim(m[2], `"`)
			}
		}
		return said
	})
}
