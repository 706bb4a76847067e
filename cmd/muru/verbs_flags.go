package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.starlark.net/starlark"

	"muru"
	"muru/builtins"
)

// The shapes a parameter has on the command line.
type shape uint8

const (
	oneValue  shape = iota // --name VALUE
	onOff                  // --name, --no-name
	manyWords              // --name A,B; repeated, it grows
	manyPairs              // --name K=V, repeated, under the singular of its name
)

func shapeOf(p builtins.Param) shape {
	typ := p.Type.String()
	switch {
	case typ == "bool":
		return onOff
	case strings.HasPrefix(typ, "list of "):
		return manyWords
	case strings.HasPrefix(typ, "dict of "):
		return manyPairs
	}
	return oneValue
}

// nullable reports whether None may be given for p where it is not the
// default's own meaning: --no-name gives it.
func nullable(p builtins.Param) bool {
	typ := p.Type.String()
	return strings.HasSuffix(typ, " or None") && typ != "dict of duration or None"
}

// flagName is the flag of p: some_name is --some-name, and a dict's flag,
// which is repeated, is in the singular.
func flagName(p builtins.Param) string {
	name := strings.ReplaceAll(p.Name, "_", "-")
	if shapeOf(p) == manyPairs {
		name = strings.TrimSuffix(name, "s")
	}
	return name
}

// An argument is what the command line says of one parameter.
type argument struct {
	param    builtins.Param
	convert  literal
	elements []string // of a list or dict
	source   string   // else; empty: not given
	word     string   // the last one, as it was typed
	null     bool     // --no-name of a nullable one
}

func newArgument(p builtins.Param) *argument {
	a := &argument{param: p, convert: literalFor(p.Type.String())}
	if shapeOf(p) == manyPairs {
		a.convert = elementFor(p.Type.String())
	}
	return a
}

// text returns the argument as Starlark source, empty if it was not given.
func (a *argument) text() string {
	switch {
	case a.null && shapeOf(a.param) == manyPairs && !nullable(a.param):
		return "{}"
	case a.null:
		return "None"
	case len(a.elements) == 0:
		return a.source
	case shapeOf(a.param) == manyPairs:
		return "{" + strings.Join(a.elements, ", ") + "}"
	}
	return listLiteral(a.elements)
}

// set takes one word, of a flag or a noun.
func (a *argument) set(word string) error {
	a.word = word
	switch shapeOf(a.param) {
	case manyWords:
		for element := range strings.SplitSeq(word, ",") {
			source, err := a.convert(element)
			if err != nil {
				return err
			}
			a.elements = append(a.elements, source)
		}
		return nil
	case manyPairs:
		pair, err := pairLiteral(word, a.convert)
		a.elements = append(a.elements, pair)
		return err
	case oneValue, onOff:
	}
	source, err := a.convert(word)
	a.source = source
	return err
}

// addFlags defines the flags of one parameter.
func (a *argument) addFlags(cmd *cobra.Command) {
	name, doc := flagName(a.param), wordsOfDoc(a.param)
	if shapeOf(a.param) == onOff {
		a.addSwitch(cmd)
		return
	}
	value := &wordFlag{set: a.set, typ: placeholder(a.param)}
	if words := defaultOf(a.param); words != "" {
		doc += " (default " + words + ")"
	}
	cmd.Flags().Var(value, name, doc)
	if nullable(a.param) {
		addBare(cmd.Flags(), "no-"+flagName(a.param), "reset "+name, func(on bool) { a.null = on })
	}
}

// addSwitch defines --name and --no-name; the help shows the one that
// changes something.
func (a *argument) addSwitch(cmd *cobra.Command) {
	name, doc := flagName(a.param), a.param.Doc
	set := func(value string) func(bool) {
		return func(on bool) {
			a.source = value
			if !on {
				a.source = map[string]string{"True": "False", "False": "True"}[value]
			}
		}
	}
	addBare(cmd.Flags(), name, doc, set("True"))
	addBare(cmd.Flags(), "no-"+name, "do not "+doc, set("False"))
	hidden := "no-" + name
	if a.param.Default == starlark.True {
		hidden = name
	}
	cmd.Flags().Lookup(hidden).Hidden = true
}

// addBare defines a flag without a value.
func addBare(flags *pflag.FlagSet, name, doc string, set func(on bool)) {
	flags.Var(&bareFlag{set}, name, doc)
	flags.Lookup(name).NoOptDefVal = "true"
}

// A wordFlag is a flag whose value is a word.
type wordFlag struct {
	set func(word string) error
	typ string
}

var _ pflag.Value = (*wordFlag)(nil)

func (f *wordFlag) String() string        { return "" }
func (f *wordFlag) Set(word string) error { return f.set(word) }
func (f *wordFlag) Type() string          { return f.typ }

// A bareFlag is a flag without a value, which true and false may follow
// after "=".
type bareFlag struct{ set func(on bool) }

var _ pflag.Value = (*bareFlag)(nil)

func (f *bareFlag) String() string { return "false" }
func (f *bareFlag) Type() string   { return "bool" }

func (f *bareFlag) Set(word string) error {
	switch word {
	case "true", "false":
		f.set(word == "true")
		return nil
	}
	return muru.Errorf(muru.KindUsage, "%q is not true or false", word)
}

// placeholder is what stands for the value of a flag in help.
func placeholder(p builtins.Param) string {
	typ := strings.TrimSuffix(p.Type.String(), " or None")
	switch shapeOf(p) {
	case manyPairs:
		return "KEY=VALUE"
	case manyWords:
		if p.Name == "steps" {
			return "SHARE[:HOLD],..."
		}
		return strings.ToUpper(strings.TrimPrefix(typ, "list of ")) + ",..."
	case oneValue, onOff:
	}
	if words := quotedWords(typ); len(words) > 0 {
		return strings.Join(words, "|")
	}
	switch typ {
	case "regular expression":
		return "REGEXP"
	case "point in time":
		return "TIME"
	case "text or list of text", "text, dict or list":
		return "TEXT"
	}
	return strings.ToUpper(typ)
}

// dictInDoc is a dict of one item as the doc of a parameter shows it.
var dictInDoc = regexp.MustCompile(`\{"([^"]+)": "?([^"}]+)"?\}`)

// wordsOfDoc is the doc of a parameter, with a dict in it as it is typed on
// the command line.
func wordsOfDoc(p builtins.Param) string {
	if shapeOf(p) != manyPairs {
		return p.Doc
	}
	doc := dictInDoc.ReplaceAllString(p.Doc, "$1=$2")
	return strings.ReplaceAll(doc, "None: off", "off switches it off")
}

// quotedWords returns the words of a type that takes only some: those in
// quotes.
func quotedWords(typ string) []string {
	var words []string
	for i, part := range strings.Split(typ, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		}
	}
	return words
}

// defaultOf returns what a parameter is when it is not given, as it is typed
// on the command line; empty if that is nothing.
func defaultOf(p builtins.Param) string {
	if p.Default == nil || p.Default == starlark.None || !bool(p.Default.Truth()) {
		return ""
	}
	return defaultWords(p.Default)
}

// defaultWords prints a default as it is typed on the command line.
func defaultWords(v starlark.Value) string {
	if s, ok := starlark.AsString(v); ok {
		return s
	}
	l, ok := v.(*starlark.List)
	if !ok {
		return v.String()
	}
	var words []string
	for x := range l.Elements() {
		words = append(words, defaultWords(x))
	}
	return strings.Join(words, ",")
}

// hintOf returns the way out that err knows.
func hintOf(err error) string {
	if e, ok := errors.AsType[*muru.Error](err); ok {
		return e.Hint
	}
	return ""
}
