package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"muru"
	"muru/builtins"
)

// newHelpCommand is `muru help [BUILTIN]`: the same text as help(BUILTIN) in a
// recipe, or all that muru and its recipes can do.
func newHelpCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "help [BUILTIN|VERB]",
		Short: "describes a builtin of recipes, or a verb",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if err := cmd.Root().Help(); err != nil {
					return err
				}
				fmt.Fprintf(stdout, "\nWhat recipes can call, by topic:\n\n%s\n\nUse \"muru help NAME\" for more about one, as in muru help deploy.\n", builtins.HelpAll())
				return nil
			}
			verb, rest, err := cmd.Root().Find(args)
			if err == nil && verb != cmd.Root() && len(rest) == 0 {
				return verb.Help()
			}
			if len(args) > 1 {
				return muru.Errorf(muru.KindUsage, "help: there is no verb %s", strings.Join(args, " ")).
					WithHint("%s --help lists them", verb.CommandPath())
			}
			text, err := builtins.Help(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(stdout, text)
			return nil
		},
	}
}
