package builtins

import (
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"muru"
)

var secretSpec = (&Spec{
	Name:    "secret",
	Group:   GroupWorld,
	Summary: "reads a secret, which is passed on and never shown",
	Doc: `It is the file of that name in the directory $CREDENTIALS_DIRECTORY, as systemd provides it, else in
secrets below muru's state directory; a line end at its end does not count. It is taken by env,
headers, url and preview, and by nothing else: it prints as secret(NAME), and cannot be joined,
compared or written.`,
	Params:  []Param{{Name: "name", Type: secretName, Pass: Positional, Doc: "its name: letters, digits, _ . and -"}},
	Returns: "Secret",
	Errors:  []string{"not_found: there is no such secret"},
	Example: `http("http://example.test/hook", method = "POST", headers = {"Authorization": secret("HOOK_TOKEN")})`,
	Effect:  Secrets,
	Fn: func(c *Call) (starlark.Value, error) {
		name := arg[string](c, "name")
		if c.set.env.Secret == nil {
			return nil, muru.Errorf(muru.KindNotFound, "there is no secret %s: this muru keeps none", name)
		}
		value, err := c.set.env.Secret(name)
		if err != nil {
			return nil, err
		}
		return Secret{name, strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")}, nil
	},
}).check()

// A Secret is a text that is passed on and never shown. It prints as
// secret(NAME), also as JSON, and has no operations.
type Secret struct{ name, value string }

var _ starlark.Comparable = Secret{}

func (s Secret) String() string       { return "secret(" + s.name + ")" }
func (s Secret) Type() string         { return "Secret" }
func (s Secret) Freeze()              {}
func (s Secret) Truth() starlark.Bool { return true }

// Name returns the name it was read by.
func (s Secret) Name() string { return s.name }

// Hash refuses: a hash would tell equal secrets.
func (s Secret) Hash() (uint32, error) { return 0, usagef("unhashable type: Secret") }

// CompareSameType refuses: whoever can compare can guess.
func (s Secret) CompareSameType(syntax.Token, starlark.Value, int) (bool, error) {
	return false, usagef("a Secret cannot be compared")
}

// secretName takes what can name a file of its own.
var secretName = checkedText("name of a secret", func(name string) string {
	if len(name) > 200 || strings.Trim(name, "._-") == "" || name[0] == '.' || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '.' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return `write it like "SLACK_URL"`
	}
	return ""
})

// textOrSecret takes a text, or the value of a Secret: a string.
var textOrSecret Type = typeOf{"text or Secret", func(c *Call, v starlark.Value) (any, error) {
	if s, ok := v.(Secret); ok {
		return s.value, nil
	}
	return textType.Convert(c, v)
}}
