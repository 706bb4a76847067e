package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"muru"
	"muru/control"
	"muru/rollout"
)

// addRetentionFlags defines the flags that change p.
func addRetentionFlags(cmd *cobra.Command, p *rollout.Policy) {
	count := func(n *int) func(string) error {
		return func(word string) error {
			value, err := strconv.Atoi(word)
			if err != nil || value < 0 {
				return muru.Errorf(muru.KindUsage, "%q is not a number of things to keep", word).WithHint("write 1000, or 0 to keep all")
			}
			*n = value
			return nil
		}
	}
	age := func(word string) (err error) {
		if word == "0" {
			word = "0s" // as in the flags beside it
		}
		p.EventAge, err = muru.ParseDuration(word)
		return err
	}
	flags := cmd.Flags()
	flags.Var(&wordFlag{set: count(&p.Events), typ: "N"}, "keep-events", fmt.Sprintf("newest events that are kept, 0: all (default %d)", p.Events))
	flags.Var(&wordFlag{set: age, typ: "DURATION"}, "keep-age", "age after which events are removed, 0: never (default 90d)")
	flags.Var(&wordFlag{set: count(&p.Releases), typ: "N"}, "keep-releases",
		fmt.Sprintf("newest stopped and failed releases of each app that are kept, with their logs, 0: all (default %d)", p.Releases))
	flags.Var(&wordFlag{set: count(&p.Rollouts), typ: "N"}, "keep-rollouts", fmt.Sprintf("newest ended rollouts that are kept, 0: all (default %d)", p.Rollouts))
}

// newGCCommand is `muru gc`.
func newGCCommand(c *cli) *cobra.Command {
	var state string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "removes what is past its retention now, and says what that was",
		Long: `Removes events, stopped and failed releases with their logs, and ended
rollouts that are past the retention muru serve was started with. It does so by
itself every hour. What serves, is held, kept warm or live is never touched.`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := c.connect(state)
			if err != nil {
				return err
			}
			report, err := m.GC(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.Stdout, report)
			}
			_, err = fmt.Fprintln(c.Stdout, "muru: "+removedText(report))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	addStateFlag(cmd, &state)
	return cmd
}

// removedText says what is gone.
func removedText(r control.GCReport) string {
	var parts []string
	if n := len(r.Releases); n > 0 {
		parts = append(parts, fmt.Sprintf("%d releases (%s)", n, strings.Join(r.Releases, ", ")))
	}
	if n := len(r.Rollouts); n > 0 {
		parts = append(parts, fmt.Sprintf("%d rollouts", n))
	}
	if r.Events > 0 {
		parts = append(parts, fmt.Sprintf("%d events", r.Events))
	}
	if parts == nil {
		return "nothing is past its retention"
	}
	return "removed " + strings.Join(parts, ", ")
}
