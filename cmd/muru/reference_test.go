package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muru/control/controltest"
)

var update = flag.Bool("update", false, "rewrite docs/CLI.md")

func TestReferenceIsWhatTheCommandsSay(t *testing.T) {
	const path = "../../docs/CLI.md"
	want := reference(newRoot(&cli{}))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the commands say; rewrite it with %s\n%s", path, referenceCommand, diff)
	}
}

func TestEveryVerbHasHelpThatIsFoundByItsName(t *testing.T) {
	for _, c := range below(newRoot(&cli{})) {
		args := append([]string{"help"}, strings.Fields(c.CommandPath())[1:]...)
		out, errs, status := typed(t, &controltest.Muru{}, args...)
		if status != 0 || out == "" || errs != "" {
			t.Errorf("%q: status %d %s%s", args, status, out, errs)
		}
	}
}

// referenceCommand rewrites docs/CLI.md.
const referenceCommand = "go test ./cmd/muru -run TestReference -update"

// reference returns docs/CLI.md: every command below root, its usage, and
// its flags, from the commands and nothing else.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line\n\n")
	fmt.Fprintf(&b, "Written by `%s` from the source.\n\n", referenceCommand)
	b.WriteString(referenceConventions)
	b.WriteString("\n## All verbs\n\n")
	commands := below(root)
	for _, c := range commands {
		name := strings.TrimPrefix(c.CommandPath(), "muru ")
		fmt.Fprintf(&b, "- [`%s`](#muru-%s) %s\n", name, strings.ReplaceAll(name, " ", "-"), c.Short)
	}
	for _, c := range commands {
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n\n", c.CommandPath(), strings.TrimSuffix(c.UseLine(), " [flags]"))
		text := c.Long
		if text == "" {
			text = capital(c.Short) + "."
		}
		b.WriteString(text + "\n")
		writeFlags(&b, c)
	}
	return b.String()
}

// below returns the commands below cmd that do something, in their order.
func below(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range cmd.Commands() {
		switch {
		case c.Hidden:
		case c.HasSubCommands():
			all = append(all, below(c)...)
		default:
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *cobra.Command) int { return strings.Compare(a.CommandPath(), b.CommandPath()) })
	return all
}

func writeFlags(b *strings.Builder, c *cobra.Command) {
	var rows []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if typ := f.Value.Type(); typ != "bool" {
			if typ == "string" {
				typ = "TEXT"
			}
			name += " " + typ
		}
		usage := f.Usage
		if f.DefValue != "" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", strings.ReplaceAll(name, "|", `\|`), strings.ReplaceAll(usage, "|", `\|`)))
	})
	if len(rows) > 0 {
		b.WriteString("\n| flag | |\n|---|---|\n" + strings.Join(rows, "\n") + "\n")
	}
}

const referenceConventions = `A verb is a builtin of recipes: its words are the call's nouns in their order, a keyword some_name is
--some-name, True is the bare flag and False --no-some-name. Lists are split at commas. Dicts take the
flag in the singular, repeated: --timeout hard=3s --timeout soft=off. What can be None is reset by
--no-some-name. Words behind -- are a command. --print-call prints the call and does nothing.

    $ muru deploy shop releases/v6 --hold --timeout hard=3s --print-call
    deploy("shop", "releases/v6", hold = True, timeouts = {"hard": "3s"})

The verbs ask the muru that serves (muru serve); muru run works without one. Results are on stdout,
errors and progress on stderr. With --json stdout has the value alone: durations in seconds, percents as
numbers, times in RFC 3339; with --follow, a line for each event or line of a log.

Ctrl-C on a terminal stops the watching of a rollout or a run, and asks what becomes of it. Elsewhere
SIGINT and SIGTERM cancel it, and SIGHUP leaves it running. What moves no traffic is cancelled.

| status | |
|---|---|
| 0 | done, or started where the verb does not wait |
| 1 | it failed, was rolled back, or the recipe failed |
| 2 | the command line or the recipe does not check: nothing was started |
| 3 | refused, denied, or there is no such thing |
| 4 | no muru serves, the port is taken, or the state directory is in use |
| 124 | --timeout passed before the end that --wait waits for |
| 130 | interrupted, or the run was cancelled |
`
