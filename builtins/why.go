package builtins

import (
	"strings"

	"go.starlark.net/starlark"

	"muru/rollout"
)

var whySpec = (&Spec{
	Name:    "why",
	Group:   GroupLooking,
	Summary: "explains a rollout: what its gates said, from which numbers, and whether that holds",
	Doc: `It prints the rollout, the verdict of each gate with the counts of both releases, its limit and the
evidence, whether the split gave the candidate its share of new clients, and whether the verdicts
follow from what was recorded: they are worked out again for it.`,
	Params:  []Param{rolloutParam},
	Returns: "Why",
	Errors:  []string{"not_found: there is no such rollout"},
	Example: `print(why("shop"))`,
	Effect:  Observe,
	Fn: func(c *Call) (starlark.Value, error) {
		number, err := c.rolloutNumber("rollout")
		if err != nil {
			return nil, err
		}
		w, err := c.engine().Why(c.ctx, number)
		if err != nil {
			return nil, err
		}
		return c.set.why(w), nil
	},
}).check()

var retrySpec = (&Spec{
	Name:    "retry",
	Group:   GroupRollouts,
	Summary: "starts the plan of a rollout that has ended once more, on the same warm candidate",
	Doc: `It is a new rollout, with the gates and limits of the earlier one. Returns and raises as canary
does; with wait = False it returns the running rollout.`,
	Params: []Param{
		rolloutParam,
		{Name: "from_step", Type: intType(1), Default: starlark.MakeInt(1), Doc: "number of the step to begin with"},
		{Name: "wait", Type: boolType, Default: starlark.True, Doc: "wait for the end"},
	},
	Returns: "Rollout",
	Errors: []string{
		"refused: it has not ended, its candidate serves or has stopped, or a gate was a function of a recipe that muru has not run",
		"rolled_back, aborted, superseded: as canary",
	},
	Example: `retry("shop", from_step = 2)`,
	Effect:  Change,
	Fn: func(c *Call) (starlark.Value, error) {
		number, err := c.rolloutNumber("rollout")
		if err != nil {
			return nil, err
		}
		r, report, err := c.engine().Retry(c.ctx, rollout.RetryRequest{
			Caller: c.caller(), Rollout: number, FromStep: arg[int](c, "from_step"),
		})
		return c.started(r, report, err)
	},
}).check()

var whyKind = &kind{
	name: "Why",
	doc:  "why a rollout is where it is",
	attrs: []attr{
		{"rollout", "Rollout", "the rollout"},
		{"verdicts", "list of Verdict", "the latest of each gate"},
		{"decided", "Verdict or None", "the one that failed"},
		{"share", "float", "percent of the traffic the candidate was to have"},
		{"clients", "int", "new clients in the window; one that came back is not counted"},
		{"candidate_clients", "int", "those of them that the candidate was given"},
		{"balance_p", "float", "how likely a split of that share does so; below 0.0001 it is off"},
		{"reproduced", "bool", "the verdicts follow from what was recorded"},
	},
	lines: true,
}

// why makes a Why.
func (s *Set) why(w rollout.Why) *Record {
	var rows [][]string
	for _, v := range w.Verdicts {
		rows = append(rows, verdictRecord(v).rows...)
	}
	text := []string{w.Head()}
	if len(rows) > 0 {
		text = append(text, table(verdictKind.columns, rows))
	}
	decided := starlark.Value(starlark.None)
	if w.Decided != nil {
		decided = verdictRecord(*w.Decided)
	}
	return whyKind.record(w, strings.Join(append(text, w.Foot()), "\n"), nil,
		s.rollout(w.Rollout), listOf(w.Verdicts, verdictRecord), decided, starlark.Float(w.Share.Percent()),
		starlark.MakeInt(w.Clients), starlark.MakeInt(w.CandidateClients), starlark.Float(w.BalanceP), starlark.Bool(w.Reproduced()))
}
