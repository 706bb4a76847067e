package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"muru/builtins"
)

// newHelpCommand is `muru help [BUILTIN]`: the same text as help(BUILTIN) in a
// recipe, or all that muru and its recipes can do.
func newHelpCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "help [BUILTIN|VERB]",
		Short: "describe a builtin of recipes, or a verb",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if err := cmd.Root().Help(); err != nil {
					return err
				}
				fmt.Fprintf(stdout, "\nWhat recipes can call, by topic:\n\n%s\n\nUse \"muru help NAME\" for more about one, as in muru help deploy.\n", builtins.HelpAll())
				return nil
			}
			for _, verb := range cmd.Root().Commands() {
				if verb.Name() == args[0] {
					return verb.Help()
				}
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
