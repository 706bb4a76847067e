package builtins

import (
	"slices"
	"strings"

	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
)

// A cursor is the place in a line that is completed, as far as the text in
// front of it tells. It is made by lookAt, which reads tokens, not syntax: the
// line is not finished.
type cursor struct {
	prefix  string // of what is completed
	comment bool
	text    bool // inside of a text
	dotted  bool // behind a dot
	chain   []link
	open    []bracket // innermost last
}

// A link is one part of a chain such as status("shop").rollout.steps[0].
type link struct {
	name      string
	called    bool
	arguments bool // of the call
	indexed   bool
}

// A bracket is an open bracket and what was read in it on its own level.
type bracket struct {
	kind    byte // ( [ {
	callee  string
	spec    *Spec
	commas  int
	keyword string // of the argument that is being written
	started bool   // that argument has a token
	names   []string
}

func (b bracket) given(name string) bool {
	return slices.Contains(b.names, name) || b.positional(name)
}

// positional reports whether a noun was given by its position.
func (b bracket) positional(name string) bool {
	for i, p := range b.spec.Params {
		if p.Name == name {
			return p.Pass == Positional && i < b.commas && !slices.Contains(b.names, name)
		}
	}
	return false
}

// A callPlace is where in the arguments of a call the cursor is.
type callPlace struct {
	bracket
	startsArgument bool
}

// call returns the innermost call that the cursor is in; one with a nil spec
// if that is none of ours.
func (at cursor) call() callPlace {
	for i := len(at.open) - 1; i >= 0; i-- {
		if b := at.open[i]; b.callee != "" {
			inner := i == len(at.open)-1
			return callPlace{b, inner && !b.started}
		}
	}
	return callPlace{}
}

// param is the parameter that the argument at the cursor is for, nil if it is
// for none.
func (p callPlace) param() *Param {
	if p.keyword != "" {
		return p.spec.param(p.keyword)
	}
	if p.commas < len(p.spec.Params) && p.spec.Params[p.commas].Pass == Positional {
		return &p.spec.Params[p.commas]
	}
	return nil
}

// reader makes a cursor of the text in front of it.
type reader struct {
	text string
	i    int
	at   cursor

	chains [][]link // in front of each open bracket: it may go on behind it
}

func lookAt(text string) cursor {
	r := &reader{text: text}
	for r.i < len(r.text) {
		r.token()
	}
	return r.at
}

// token reads one token. What it leaves in prefix, chain and dotted is of the
// last one.
func (r *reader) token() {
	c := r.text[r.i]
	at := &r.at
	switch {
	case isWordByte(c):
		r.word()
		return
	case c == '"' || c == '\'':
		r.quoted()
		return
	case c == '#':
		end := strings.IndexByte(r.text[r.i:], '\n')
		if end < 0 {
			at.comment, r.i = true, len(r.text)
			return
		}
		r.i += end
		return
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		if !at.dotted {
			at.prefix = ""
		}
	case c == '.' && len(at.chain) > 0:
		at.dotted, at.prefix = true, ""
	case c == '(' || c == '[' || c == '{':
		r.openBracket(c)
	case c == ')' || c == ']' || c == '}':
		r.closeBracket()
	default:
		r.operator(c)
	}
	r.i++
}

func (r *reader) word() {
	from := r.i
	for r.i < len(r.text) && isWordByte(r.text[r.i]) {
		r.i++
	}
	word := r.text[from:r.i]
	at := &r.at
	if !at.dotted {
		at.chain = nil
	}
	if r.i < len(r.text) {
		at.chain = append(at.chain, link{name: word})
		at.dotted, at.prefix = false, ""
		r.startArgument()
		return
	}
	at.prefix = word
}

// startArgument notes that the argument has begun.
func (r *reader) startArgument() {
	if n := len(r.at.open); n > 0 {
		r.at.open[n-1].started = true
	}
}

// quoted reads a text; one that is not closed holds the cursor.
func (r *reader) quoted() {
	quote := r.text[r.i : r.i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(r.text[r.i:], triple) {
		quote = triple
	}
	from := r.i + len(quote)
	r.at.chain, r.at.dotted, r.at.prefix = nil, false, ""
	for i := from; i < len(r.text); i++ {
		switch {
		case r.text[i] == '\\':
			i++
		case strings.HasPrefix(r.text[i:], quote):
			r.i = i + len(quote)
			r.startArgument()
			return
		}
	}
	r.at.text, r.at.prefix, r.i = true, r.text[from:], len(r.text)
}

func (r *reader) openBracket(c byte) {
	at := &r.at
	b := bracket{kind: c}
	if c == '(' && len(at.chain) > 0 {
		b.callee = at.chain[len(at.chain)-1].name
		if len(at.chain) == 1 {
			b.spec = SpecNamed(b.callee)
		}
	}
	r.startArgument()
	at.open = append(at.open, b)
	r.chains = append(r.chains, at.chain)
	at.chain, at.dotted, at.prefix = nil, false, ""
}

func (r *reader) closeBracket() {
	at := &r.at
	at.chain, at.dotted, at.prefix = nil, false, ""
	n := len(at.open)
	if n == 0 {
		return
	}
	b := at.open[n-1]
	at.open = at.open[:n-1]
	chain := r.chains[n-1]
	r.chains = r.chains[:n-1]
	if len(chain) == 0 {
		return
	}
	last := &chain[len(chain)-1]
	switch b.kind {
	case '(':
		last.called, last.arguments = true, b.started || b.commas > 0
	case '[':
		last.indexed = true
	default:
		return
	}
	at.chain = chain
}

// operator reads any other byte.
func (r *reader) operator(c byte) {
	at := &r.at
	n := len(at.open)
	next := byte(0)
	if r.i+1 < len(r.text) {
		next = r.text[r.i+1]
	}
	switch {
	case n == 0:
	case c == ',':
		b := &at.open[n-1]
		b.commas, b.keyword, b.started = b.commas+1, "", false
	case c == '=' && next != '=' && at.open[n-1].callee != "" && len(at.chain) == 1 && at.open[n-1].keyword == "" && !strings.HasSuffix(r.text[:r.i], "="):
		b := &at.open[n-1]
		b.keyword = at.chain[0].name
		b.names = append(b.names, b.keyword)
	default:
		r.startArgument()
	}
	at.chain, at.dotted, at.prefix = nil, false, ""
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// moduleNamed returns json or math.
func moduleNamed(name string) starlark.Value {
	if name == "json" {
		return jsonModule
	}
	return math.Module
}
