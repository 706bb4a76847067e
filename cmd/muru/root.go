package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muru"
	"muru/cmd/muru/person"
	"muru/control"
)

// version is set when a release of muru is built.
var version = "devel"

// A cli is one command line while it is carried out: the person who typed it,
// and the way to the muru they mean.
type cli struct {
	person.Person

	// connect returns the muru whose state directory is named, "" for the
	// person's own. That nobody answers is an error of its methods.
	connect func(stateDir string) (control.Muru, error)
}

// commands are muru's verbs. Each constructor gets the cli and starts
// nothing.
func (c *cli) commands() []*cobra.Command {
	commands := []*cobra.Command{
		newServeCommand(c),
		newRunCommand(c),
		newAttachCommand(c),
		newRunsCommand(c),
		newCancelCommand(c),
		newGCCommand(c),
		newBackupCommand(c),
		newCompletionCommand(c),
		newReplCommand(c),
	}
	return append(commands, newVerbs(c)...)
}

// execute runs the command line args and returns the exit status. It returns
// only when everything it started has ended.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, signals, stop := person.UntilSignal(context.Background())
	defer stop()
	c := &cli{
		Person:  person.Person{Stdin: stdin, Stdout: stdout, Stderr: stderr, Signals: signals},
		connect: connect,
	}
	return c.execute(ctx, args)
}

func (c *cli) execute(ctx context.Context, args []string) int {
	root := newRoot(c)
	root.SetArgs(args)
	return report(c.Stderr, root.ExecuteContext(ctx))
}

// newRoot makes the whole tree of commands.
func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:           "muru",
		Short:         "deploy web applications and let real traffic decide",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // unknownVerb words what is none
		RunE:          needsVerb,
	}
	root.CompletionOptions.DisableDefaultCmd = true // ours is newCompletionCommand
	root.SetIn(c.Stdin)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(c.commands()...)
	root.SetHelpCommand(newHelpCommand(c.Stdout))
	return root
}

// nearVerb returns the verb below cmd that word is, is meant for, or is the
// beginning of; empty if there is none, or more than one that it begins.
func nearVerb(cmd *cobra.Command, word string) string {
	var names, begun []string
	for _, sub := range cmd.Commands() {
		if sub.Hidden {
			continue
		}
		names = append(names, sub.Name())
		if strings.HasPrefix(sub.Name(), word) {
			begun = append(begun, sub.Name())
		}
	}
	if near := muru.Suggest(word, names); near != "" || len(begun) != 1 {
		return near
	}
	return begun[0]
}

// unknownVerb is the error for a word that is no verb below cmd.
func unknownVerb(cmd *cobra.Command, word string) error {
	verb := strings.TrimPrefix(cmd.CommandPath()+" "+word, "muru ")
	err := muru.Errorf(muru.KindUsage, "there is no verb %q", verb)
	for _, above := range append([]*cobra.Command{cmd}, cmd.Commands()...) { // muru canary is muru rollout canary
		if near := nearVerb(above, word); near != "" {
			return err.WithHint("did you mean %s %s?", above.CommandPath(), near)
		}
	}
	return err.WithHint("%s lists the verbs", strings.Replace(cmd.CommandPath(), "muru", "muru help", 1))
}

// flagError words what pflag says of a flag. Where the verb is none, its flags
// are not known either, and the verb is what is wrong.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownVerb(cmd, words[0])
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		cause := bad.Unwrap()
		return muru.Errorf(muru.KindUsage, "--%s: %w", bad.GetFlag().Name, cause).WithHint("%s", hintOf(cause))
	}
	m := &muru.Error{Kind: muru.KindUsage, Message: err.Error(), Err: err}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name, _, _ := strings.Cut(unknown.GetSpecifiedName(), "=")
		if near := muru.Suggest(name, names); near != "" {
			return m.WithHint("did you mean --%s?", near)
		}
	}
	return m.WithHint("%s --help lists the flags", cmd.CommandPath())
}

// wantArgs checks how many words a command got; names are those it needs.
func wantArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return muru.Errorf(muru.KindUsage, "%s: %s is missing", cmd.Name(), names[len(args)]).WithHint("%s", cmd.UseLine())
		case len(args) > len(names):
			return muru.Errorf(muru.KindUsage, "%s: %q is one word too many", cmd.Name(), args[len(names)]).WithHint("%s", cmd.UseLine())
		}
		return nil
	}
}

// workingDir is where relative paths of the person start.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", muru.Errorf(muru.KindFailed, "find the working directory: %w", err)
	}
	return dir, nil
}
