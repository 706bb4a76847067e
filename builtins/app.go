package builtins

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

var appSpec = (&Spec{
	Name:    "app",
	Group:   GroupTraffic,
	Summary: "declares an app and its route, or changes the keywords given",
	Doc: `Keywords that are not given keep what they have, and None resets one to its default. An app that
is only deployed needs no app(): it gets the default route, which is every host and path.

A request is the app's if its host is one of hosts, its path begins with path (which is not
stripped), and it has the headers and one of the methods, where those are given.`,
	Params: []Param{
		{Name: "name", Type: textType, Pass: Positional, Doc: "name of the app, such as shop"},
		{Name: "hosts", Type: nullable(listType[string](hostType)), Default: list("*"), Doc: `host names without port; "*.example.com" is every name below, "*" every host`},
		{Name: "path", Type: nullable(pathType), Default: starlark.String("/"), Doc: "path prefix"},
		{Name: "key", Type: nullable(keyType), Default: starlark.String("muru_id"), Doc: `what tells clients apart: "muru_id" (a cookie of muru's own), "cookie:NAME", "header:NAME" or "address"`},
		{Name: "sticky", Type: nullable(durationType), Default: starlark.None, Doc: "clients keep the release they were given until this long after it left the route; None: they move at once"},
		{Name: "preview", Type: nullable(previewType), Default: starlark.String("open"), Doc: `whether "Muru-Preview: r6" reaches a release that is held or tried; a Secret must stand behind the name`},
		{Name: "health", Type: nullable(pathType), Default: starlark.None, Doc: "a path the edge answers 200 itself"},
		{Name: "headers", Type: nullable(dictType[string](textType)), Default: emptyDict(), Doc: "request headers that must be as given"},
		{Name: "methods", Type: nullable(listType[string](methodType)), Default: list(), Doc: "methods; empty: all"},
		{Name: "redirects", Type: nullable(dictType[string](textType)), Default: emptyDict(), Doc: "path: where the edge sends it, with 308"},
		{Name: "max_body", Type: nullable(sizeType), Default: starlark.None, Doc: `largest request body, such as "10MiB"; None: unbounded`},
		{Name: "maintenance", Type: nullable(textType), Default: starlark.None, Doc: "when set, visitors get 503 and this text; previews go on"},
	},
	Returns: "App",
	Errors:  []string{"refused: the route overlaps that of another app"},
	Example: `app("shop", hosts = ["shop.example.test"], sticky = "10m", health = "/healthz")`,
	Effect:  Change,
	Fn:      declareApp,
}).check()

func declareApp(c *Call) (starlark.Value, error) {
	name := arg[string](c, "name")
	if err := muru.CheckName(name); err != nil {
		return nil, at("name", err)
	}
	var change []rollout.RouteChange
	for i, p := range c.spec.Params {
		if i == 0 || c.given[i] == nil {
			continue
		}
		set, ok := routeKeywords[p.Name]
		if !ok {
			panic("BUG: app has no way to set " + p.Name)
		}
		value := c.args[i]
		change = append(change, rollout.RouteChange{
			Keyword: p.Name,
			Apply:   func(r *muru.Route) { set.apply(r, value) },
			Print:   set.print,
		})
	}
	a, report, err := c.engine().App(c.ctx, rollout.AppRequest{Caller: c.caller(), Name: name, Change: change})
	c.say(report)
	if err != nil {
		return nil, err
	}
	return c.set.app(a), nil
}

// A routeKeyword sets a field of a route to a converted argument, the default
// for nil, and prints it.
type routeKeyword struct {
	apply func(*muru.Route, any)
	print func(muru.Route) string
}

// field sets a field to the value, or to its zero value.
func field[T any](of func(*muru.Route) *T, print func(T) string) routeKeyword {
	return routeKeyword{
		apply: func(r *muru.Route, value any) {
			t, _ := value.(T) // nil: reset
			*of(r) = t
		},
		print: func(r muru.Route) string { return print(*of(&r)) },
	}
}

var routeKeywords = map[string]routeKeyword{
	"hosts":       field(func(r *muru.Route) *[]string { return &r.Hosts }, orElse("*", joined)),
	"path":        field(func(r *muru.Route) *string { return &r.Path }, orElse("/", plain)),
	"key":         field(func(r *muru.Route) *muru.Key { return &r.Key }, muru.Key.String),
	"sticky":      field(func(r *muru.Route) *time.Duration { return &r.Sticky }, formatOff),
	"health":      field(func(r *muru.Route) *string { return &r.Health }, orElse("off", plain)),
	"headers":     field(func(r *muru.Route) *map[string]string { return &r.Headers }, orElse("none", pairs(": "))),
	"methods":     field(func(r *muru.Route) *[]string { return &r.Methods }, orElse("all", joined)),
	"redirects":   field(func(r *muru.Route) *map[string]string { return &r.Redirects }, orElse("none", pairs(" to "))),
	"max_body":    field(func(r *muru.Route) *int64 { return &r.MaxBody }, func(n int64) string { return orElse("unbounded", formatBytes)(n) }),
	"maintenance": field(func(r *muru.Route) *string { return &r.Maintenance }, orElse("off", quoted)),
	"preview": {
		apply: func(r *muru.Route, value any) {
			secret, _ := value.(Secret)
			r.PreviewOff, r.PreviewKey = value == "off", secret.value
		},
		print: previewText,
	},
}

// previewText says who may see previews, but not the secret.
func previewText(r muru.Route) string {
	switch {
	case r.PreviewOff:
		return "off"
	case r.PreviewKey != "":
		return "secret"
	}
	return "open"
}

// previewType takes "open", "off" or a Secret: a string or a Secret.
var previewType Type = typeOf{`"open", "off" or Secret`, func(c *Call, v starlark.Value) (any, error) {
	if secret, ok := v.(Secret); ok {
		return secret, nil
	}
	return enumType("open", "off").Convert(c, v)
}}

// orElse prints empty where print prints nothing.
func orElse[T any](empty string, print func(T) string) func(T) string {
	return func(v T) string {
		if text := print(v); text != "" {
			return text
		}
		return empty
	}
}

func plain(text string) string    { return text }
func joined(list []string) string { return strings.Join(list, ",") }

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%q", text)
}

func formatOff(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return muru.FormatDuration(d)
}

func formatBytes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes", n)
}

func pairs(between string) func(map[string]string) string {
	return func(m map[string]string) string {
		var out []string
		for _, key := range slices.Sorted(maps.Keys(m)) {
			out = append(out, key+between+m[key])
		}
		return strings.Join(out, ", ")
	}
}

// nullable takes None, which resets, beside t; its value is nil then.
func nullable(t Type) Type {
	return typeOf{t.String() + " or None", func(c *Call, v starlark.Value) (any, error) {
		if v == starlark.None {
			return nil, nil
		}
		return t.Convert(c, v)
	}}
}

var (
	hostType = checkedText("host", func(host string) string {
		name := strings.TrimPrefix(host, "*.")
		switch {
		case host == "*":
			return ""
		case name == "" || strings.ContainsAny(name, "*/ @?#"):
			return `write it like "shop.example.com" or "*.example.com"`
		case strings.Contains(name, ":") && !strings.HasPrefix(name, "["):
			return "without a port: it is the listener's"
		}
		return ""
	})
	pathType = checkedText("path", func(path string) string {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?# \t\n") {
			return `write it like "/shop"`
		}
		return ""
	})
	methodType = checkedText("method", func(method string) string {
		if method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return `write it like "GET"`
		}
		return ""
	})
	keyType Type = typeOf{"key", func(_ *Call, v starlark.Value) (any, error) {
		s, ok := v.(starlark.String)
		if !ok {
			return nil, wanted("a key", v)
		}
		return muru.ParseKey(string(s))
	}}
)

// checkedText is a text for which wrong returns no hint.
func checkedText(name string, wrong func(string) string) Type {
	return typeOf{name, func(_ *Call, v starlark.Value) (any, error) {
		s, ok := v.(starlark.String)
		if !ok {
			return nil, wanted(article(name), v)
		}
		if hint := wrong(string(s)); hint != "" {
			return nil, usagef("%s is not %s", v, article(name)).WithHint("%s", hint)
		}
		return string(s), nil
	}}
}

func article(name string) string {
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// list and emptyDict make frozen defaults.
func list(texts ...string) *starlark.List {
	l := textList(texts)
	l.Freeze()
	return l
}

func ints(numbers ...int) *starlark.List {
	values := make([]starlark.Value, len(numbers))
	for i, n := range numbers {
		values[i] = starlark.MakeInt(n)
	}
	l := starlark.NewList(values)
	l.Freeze()
	return l
}

func emptyDict() *starlark.Dict {
	d := new(starlark.Dict)
	d.Freeze()
	return d
}
