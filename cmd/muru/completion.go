package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muru"
	"muru/cmd/muru/person"
	"muru/control"
)

// completeWithin bounds what a press of Tab may ask of the daemon. Nothing
// that goes wrong is ever printed: the shell would show it in the middle of
// the line.
const completeWithin = 200 * time.Millisecond

// newCompletionCommand is `muru completion SHELL`.
func newCompletionCommand(c *cli) *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "prints what makes a shell complete verbs, flags and live names",
		Long: `Prints a script for a shell. Verbs and flags complete, and so do the apps,
releases, rollouts and runs of the muru that serves.

  bash   muru completion bash > /etc/bash_completion.d/muru
  zsh    muru completion zsh > "${fpath[1]}/_muru"
  fish   muru completion fish > ~/.config/fish/completions/muru.fish`,
		Args:      wantArgs("bash, zsh or fish"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return bashCompletion(c, root)
			case "zsh":
				return root.GenZshCompletion(c.Stdout)
			case "fish":
				return root.GenFishCompletion(c.Stdout, true)
			}
			return muru.Errorf(muru.KindUsage, "completion: there is none for %q", args[0]).
				WithHint("%s", strings.Join(shells, ", "))
		},
	}
}

// bashExtra follows cobra's script. Bash breaks words at "@", so that
// "shop@r6" would be three: "@" is taken out of the breaks. And what the
// package bash-completion would bring along is there when it is not.
const bashExtra = `
COMP_WORDBREAKS=${COMP_WORDBREAKS//@/}
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref() {
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    }
fi
`

// bashCompletion prints the script for bash.
func bashCompletion(c *cli, root *cobra.Command) error {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	_, err := io.WriteString(c.Stdout, script.String()+bashExtra)
	return err
}

// addCompletion completes nouns and the values of flags.
func (v *command) addCompletion(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		i := min(len(args), len(v.nouns)-1)
		if i < 0 || len(args) > i && shapeOf(v.nouns[i].param) != manyPairs {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		typ := v.nouns[i].param.Type.String()
		if v.nouns[i].param.Name == "source" {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		if typ == "dict of share by release" {
			return v.releasesOf(args[0], word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return v.names(typ, v.nouns[i].param.Name, word), cobra.ShellCompDirectiveNoFileComp
	}
	for _, a := range v.arguments {
		if cmd.Flags().Lookup(flagName(a.param)) == nil || shapeOf(a.param) == onOff {
			continue
		}
		complete := func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if a.param.Type.String() == "release" && len(args) > 0 {
				return v.releasesOf(args[0], word), cobra.ShellCompDirectiveNoFileComp
			}
			return beginningWith(quotedWords(a.param.Type.String()), word), cobra.ShellCompDirectiveNoFileComp
		}
		if err := cmd.RegisterFlagCompletionFunc(flagName(a.param), complete); err != nil {
			panic("BUG: " + err.Error())
		}
	}
}

// names are the names of what there is that a parameter of this type takes.
func (v *command) names(typ, param, word string) []string {
	s, ok := v.cli.stateForCompletion(v.state)
	if !ok {
		return nil
	}
	var names []string
	if param == "name" || strings.Contains(typ, "app") || typ == "rollout" {
		for _, a := range s.Apps {
			names = append(names, a.Name)
		}
	}
	if strings.Contains(typ, "release") {
		for _, r := range s.Releases {
			if r.State != "stopped" || v.spec.Name == "logs" || v.spec.Name == "events" {
				names = append(names, r.App+"@"+r.Name)
			}
		}
	}
	if strings.Contains(typ, "rollout") {
		for _, r := range s.Rollouts {
			if r.Live || typ != "rollout" {
				names = append(names, strconv.Itoa(r.Number))
			}
		}
	}
	return beginningWith(names, word)
}

// releasesOf are the short names of the releases of the app that target is,
// or is of.
func (v *command) releasesOf(target, word string) []string {
	s, ok := v.cli.stateForCompletion(v.state)
	if !ok {
		return nil
	}
	app, _, _ := strings.Cut(target, "@")
	end := ""
	if v.spec.Name == "split" {
		end = "="
	}
	var names []string
	for _, r := range s.Releases {
		if r.App == app && r.State != "stopped" && r.State != "failed" {
			names = append(names, r.Name+end)
		}
	}
	return beginningWith(names, word)
}

// completeRuns completes the number of a run; all of them, or those that
// work.
func completeRuns(c *cli, state *string, all bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		m, err := c.connect(*state)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		runs, _ := person.AskWithin(completeWithin, m.Runs) // none if that fails
		var names []string
		for _, r := range runs {
			if all || r.State == control.RunRunning {
				names = append(names, strconv.Itoa(r.Number)+"\t"+r.File)
			}
		}
		return beginningWith(names, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// stateForCompletion asks what there is, quickly or not at all.
func (c *cli) stateForCompletion(stateDir string) (control.State, bool) {
	m, err := c.connect(stateDir)
	if err != nil {
		return control.State{}, false
	}
	s, err := person.AskWithin(completeWithin, m.State)
	return s, err == nil
}

// beginningWith keeps the words that begin with prefix.
func beginningWith(words []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, prefix) })
}
