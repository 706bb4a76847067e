package main

import (
	"testing"

	"muru/builtins"
)

func TestAdviceIsSaidAsItIsTyped(t *testing.T) {
	for _, c := range []struct{ verb, said, want string }{
		{"rollback", "shop was rolled back to r1 12 s ago by ana: name the release with to=", "shop was rolled back to r1 12 s ago by ana: name the release with --to"},
		{"rollback", "shop has no earlier release to go back to\nhint: name one with to=", "shop has no earlier release to go back to\nhint: name one with --to"},
		{"probe", "500\n  check = False\nhint: check = False returns the response instead", "500\n  check = False\nhint: --no-check returns the response instead"},
		{"deploy", "there is no app.py\nhint: entry = \"MODULE:ATTR\" names the application, command = \"...\" runs anything else", "there is no app.py\nhint: --entry MODULE:ATTR names the application, --command ... runs anything else"},
		{"deploy", "files at */ overlaps blog at */\nhint: give files hosts or a path of its own: app(\"files\", hosts = [\"files.example\"])", "files at */ overlaps blog at */\nhint: give files hosts or a path of its own: muru app files --hosts files.example"},
		{"deploy", "a\nhint: write it like \"/search?q=tea\"", "a\nhint: write it like \"/search?q=tea\""},
		{"deploy", "no hint, to=", "no hint, to="},
	} {
		if got := asTyped(builtins.SpecNamed(c.verb).Params, c.said); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
