package builtins

import (
	"fmt"
	"strings"

	"muru"
)

// ReferenceCommand rewrites docs/BUILTINS.md.
const ReferenceCommand = "go test ./builtins -run TestReference -update"

// Reference returns docs/BUILTINS.md: every builtin, every value and every
// kind of error, from the specs and nothing else.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Builtins\n\n")
	fmt.Fprintf(&b, "What a recipe can call, and what comes back. Written by `%s` from the source.\n\n", ReferenceCommand)
	b.WriteString(conventions)
	specs := Specs()
	b.WriteString("\n## All calls\n")
	for _, group := range groups {
		var names []string
		for _, s := range specs {
			if s.Group == group {
				names = append(names, fmt.Sprintf("[%s](#%s)", s.Name, s.Name))
			}
		}
		fmt.Fprintf(&b, "\n%s: %s\n", group, strings.Join(names, ", "))
	}
	for _, group := range groups {
		fmt.Fprintf(&b, "\n## %s\n", group)
		for _, s := range specs {
			if s.Group == group {
				s.reference(&b)
			}
		}
	}
	b.WriteString("\n" + modules)
	b.WriteString("\n## Values\n\n")
	b.WriteString("Values are snapshots: ask again for news. In a method, everything after the first argument is given by name.\n")
	for _, k := range kinds {
		k.reference(&b)
	}
	fmt.Fprintf(&b, "\n### Duration\n\n%s\n", prose(helpDuration))
	fmt.Fprintf(&b, "\n### Time\n\n%s\n", prose(helpTime))
	b.WriteString("\n## Kinds of errors\n\n")
	b.WriteString("`err.kind` of an error that `attempt()` caught is one of:\n\n")
	for kind := muru.KindFailed; kind <= muru.KindHTTPFailed; kind++ {
		fmt.Fprintf(&b, "- `%s`\n", kind)
	}
	b.WriteString("\nThe kinds `canceled` and `budget` end the run and cannot be caught.\n")
	return b.String()
}

// reference writes a builtin as a section.
func (s *Spec) reference(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n```python\n%s\n```\n\n", s.Name, wrapSignature(s))
	fmt.Fprintf(b, "%s. Effect: %s.\n", capital(s.Summary), s.Effect)
	if s.Doc != "" {
		b.WriteString("\n" + s.Doc + "\n")
	}
	if len(s.Params) > 0 {
		b.WriteString("\n| parameter | type | default | |\n|---|---|---|---|\n")
		for _, p := range s.Params {
			value := "required"
			switch {
			case p.Pass == Variadic:
				value = "any number"
			case !p.Required():
				value = "`" + p.Default.String() + "`"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, cellText(p.Type.String()), value, cellText(p.Doc))
		}
	}
	if len(s.Errors) > 0 {
		b.WriteString("\nRaises:\n\n")
		for _, e := range s.Errors {
			b.WriteString("- " + e + "\n")
		}
	}
	fmt.Fprintf(b, "\n```python\n%s\n```\n", s.Example)
}

// reference writes a kind of value as a section.
func (k *kind) reference(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s.", k.name, capital(k.doc))
	switch {
	case k.columns != nil:
		fmt.Fprintf(b, " Columns: `%s`.", strings.Join(k.columns, " "))
	case k.lines:
		b.WriteString(" Prints as text.")
	}
	b.WriteString("\n\n| attribute | type | |\n|---|---|---|\n")
	for _, a := range k.attrs {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", a.name, cellText(a.typ), cellText(a.doc))
	}
	for _, m := range k.methods {
		fmt.Fprintf(b, "\n```python\n%s\n```\n\n%s.", m.Signature(), capital(m.Summary))
		for _, p := range m.Params {
			fmt.Fprintf(b, " `%s`: %s.", p.Name, p.Doc)
		}
		for _, e := range m.Errors {
			fmt.Fprintf(b, " Raises %s.", e)
		}
		b.WriteString("\n")
	}
}

// wrapSignature breaks a signature that is too long for a line.
func wrapSignature(s *Spec) string {
	text := s.Signature()
	if len(text) <= 100 {
		return text
	}
	open := strings.Index(text, "(")
	params, returns := text[open+1:strings.LastIndex(text, ") -> ")], text[strings.LastIndex(text, ") -> "):]
	var lines []string
	line := "   "
	for _, p := range splitParams(params) {
		if len(line)+len(p) > 98 {
			lines = append(lines, line)
			line = "   "
		}
		line += " " + p + ","
	}
	lines = append(lines, line)
	return text[:open+1] + "\n" + strings.Join(lines, "\n") + "\n" + returns
}

// splitParams splits at the commas that are outside of brackets.
func splitParams(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i, r := range text {
		switch r {
		case '[', '{', '(':
			depth++
		case ']', '}', ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

func capital(text string) string {
	if text == "" || strings.HasPrefix(text, "(") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func cellText(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// prose joins the lines of a help text.
func prose(text string) string {
	_, body, _ := strings.Cut(text, "\n")
	return strings.Join(strings.Fields(body), " ")
}

const conventions = `**Arguments.** The one or two nouns a call is about come first and may be given by position or by
name; everything after them is given by name. A duration is a text with a unit ("250ms", "1m30s", "2h",
"1d") or a Duration. A percentage is 10, 2.5 or "0.5%"; a number between 0 and 1 is refused, because
0.1 may mean 0.1% or 10%. Shares have at most two decimals. Sizes are bytes or "512MiB", rates "20/s".
A point in time is a Time, RFC 3339, or a duration meaning that long ago. None means "not set".

**Nouns.** An app is an App or "shop". A release is a Release or "shop@r6", and just "r6" where the call
names the app. A rollout is a Rollout, its number, or an app for its live one (else its latest).

**Blocking.** Every call returns when the thing is done and raises when it ended otherwise. Only canary
and traffic take wait = False. A run that fails or is cancelled leaves nothing behind: its live rollouts
are aborted, its split shares are put back and its traffic ends.

**Effects.** pure, observe, wait, change, sh, http and secret. Only pure calls are allowed at the top level of a
loaded module and in a gate's function.

**Paths** are relative to the directory of whoever started the run; here("x") is beside the file.

**Files.** A recipe runs from top to bottom, then its main(). load("x.star", "name") takes names from a
file beside it, load("@std//gates.star", "no_worse") from a module that muru brings; see below.
`

const modules = `## Modules and struct

` + "`json`" + ` (encode, decode, indent) and ` + "`math`" + ` are those of Starlark, as is ` + "`struct(a = 1)`" + `, a value with the given attributes.
Values encode as JSON with durations in seconds, percentages as numbers and times in RFC 3339; a record
inside a record that has a name (App, Release, Rollout) is encoded as that name.

` + "`@std//gates.star`" + ` has the gates ` + "`no_worse`, `at_least` and `no_slower`" + `, which compare with the baseline alone;
` + "`@std//notify.star`" + ` has ` + "`slack` and `webhook`" + `. help() explains a function that was loaded.
`
