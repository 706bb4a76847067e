package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muru"
	"muru/builtins"
)

// A verb is a builtin on the command line. Everything about its parameters
// comes from the builtin's Spec.
type verb struct {
	name    string // as it is typed
	builtin string
	follow  bool // --follow prints what comes later, too
}

// verbs are the verbs of muru itself, in the order of the reference.
var verbs = []verb{
	{name: "app", builtin: "app"},
	{name: "deploy", builtin: "deploy"},
	{name: "split", builtin: "split"},
	{name: "promote", builtin: "promote"},
	{name: "rollback", builtin: "rollback"},
	{name: "stop", builtin: "stop"},
	{name: "observe", builtin: "observe"},
	{name: "status", builtin: "status"},
	{name: "releases", builtin: "releases"},
	{name: "why", builtin: "why"},
	{name: "events", builtin: "events", follow: true},
	{name: "logs", builtin: "logs", follow: true},
	{name: "stacks", builtin: "stacks"},
	{name: "workers", builtin: "workers"},
	{name: "probe", builtin: "probe"},
	{name: "traffic", builtin: "traffic"},
}

// rolloutVerbs are those below muru rollout.
var rolloutVerbs = []verb{
	{name: "canary", builtin: "canary"},
	{name: "status", builtin: "rollouts"},
	{name: "pause", builtin: "pause"},
	{name: "resume", builtin: "resume"},
	{name: "abort", builtin: "abort"},
	{name: "retry", builtin: "retry"},
}

// returnsHandle are the builtins that a verb calls with wait = False unless
// it is told --wait: what they start goes on without anybody waiting.
var returnsHandle = map[string]bool{"canary": true, "retry": true}

// newVerbs makes the commands of all verbs.
func newVerbs(c *cli) []*cobra.Command {
	var commands []*cobra.Command
	for _, v := range verbs {
		commands = append(commands, newVerb(c, v))
	}
	rollout := &cobra.Command{
		Use:   "rollout",
		Short: "try a release on real traffic, and decide",
		RunE:  needsVerb,
	}
	for _, v := range rolloutVerbs {
		rollout.AddCommand(newVerb(c, v))
	}
	return append(commands, rollout)
}

// A command is one verb while its command line is read and carried out.
type command struct {
	cli  *cli
	verb verb
	spec *builtins.Spec

	nouns     []*argument          // in their order
	arguments map[string]*argument // by parameter, nouns included
	gates     gateFlags
	approve   approveFlags
	words     []string // behind "--"

	printCall bool
	json      bool
	state     string
	wait      bool
	timeout   time.Duration // of wait; 0: none
	follow    bool
}

func newVerb(c *cli, v verb) *cobra.Command {
	spec := builtins.SpecNamed(v.builtin)
	if spec == nil {
		panic("BUG: the verb " + v.name + " is no builtin: " + v.builtin)
	}
	line := &command{cli: c, verb: v, spec: spec, arguments: make(map[string]*argument)}
	cmd := &cobra.Command{
		Short: spec.Summary,
		Long:  capital(spec.Summary) + ".\n\n" + spec.Doc,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := line.read(cmd, args); err != nil {
				return err
			}
			return line.carryOut(cmd.Context())
		},
	}
	cmd.Long = strings.TrimSpace(cmd.Long)
	line.addParams(cmd)
	cmd.Use = line.usage()
	line.addCommonFlags(cmd)
	line.addCompletion(cmd)
	return cmd
}

// addParams makes arguments and flags of the parameters.
func (v *command) addParams(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, p := range v.spec.Params {
		a := newArgument(p)
		switch {
		case p.Pass == builtins.Positional:
			v.nouns = append(v.nouns, a)
			if p.Required() && shapeOf(p) == manyPairs {
				addBare(cmd.Flags(), "no-"+p.Name, "none: as if there had never been any", func(on bool) { a.null = on })
			}
		case p.Name == "gates":
			v.gates.addTo(cmd)
			continue
		case p.Name == "wait" || p.Name == "follow":
			continue // flags of every verb that has them; see addCommonFlags
		default:
			a.addFlags(cmd)
			if p.Name == "approve" {
				v.approve.addTo(cmd)
			}
		}
		v.arguments[p.Name] = a
	}
}

func (v *command) addCommonFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	if v.waits() {
		flags.BoolVar(&v.wait, "wait", false, "wait for the end of the rollout, and say how it goes")
		limit := func(word string) (err error) {
			if v.timeout, err = muru.ParseDuration(word); err == nil && v.timeout == 0 {
				err = muru.Errorf(muru.KindUsage, "0s is not a time to wait")
			}
			return err
		}
		flags.Var(&wordFlag{set: limit, typ: "DURATION"}, "timeout", "with --wait: stop waiting then, with status 124")
	}
	if v.verb.follow {
		flags.BoolVarP(&v.follow, "follow", "f", false, "go on with what comes, until Ctrl-C")
	}
	flags.BoolVar(&v.json, "json", false, "print the value as JSON")
	flags.BoolVar(&v.printCall, "print-call", false, "print the call of a recipe that does the same, and do nothing")
	addStateFlag(cmd, &v.state)
}

// addStateFlag defines --state of a command that asks a daemon.
func addStateFlag(cmd *cobra.Command, state *string) {
	cmd.Flags().StringVar(state, "state", "", "state directory of the muru to ask (default: $MURU_CONTROL, or that of your muru)")
}

// waits reports whether the verb may wait for a rollout.
func (v *command) waits() bool {
	return returnsHandle[v.spec.Name] || v.spec.Name == "rollouts"
}

// usage is the line of the verb: its nouns and what follows them.
func (v *command) usage() string {
	words := []string{v.verb.name}
	for _, n := range v.nouns {
		word := strings.ToUpper(n.param.Name)
		if shapeOf(n.param) == manyPairs {
			word = "KEY=VALUE..."
			if n.param.Name == "shares" {
				word = "RELEASE=SHARE..."
			}
		}
		if !n.param.Required() {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	if _, ok := v.arguments["command"]; ok {
		words = append(words, "[-- COMMAND...]")
	}
	return strings.Join(words, " ")
}

// read takes the words of the command line that are no flags.
func (v *command) read(cmd *cobra.Command, args []string) error {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args, v.words = args[:dash], args[dash:]
		if err := v.takeCommand(); err != nil {
			return err
		}
	}
	for _, n := range v.nouns {
		if len(args) == 0 {
			break
		}
		take := args[:1]
		if shapeOf(n.param) == manyPairs {
			take = args
		}
		for _, word := range take {
			if err := n.set(word); err != nil {
				return v.usagef("%s: %s", n.param.Name, err).WithHint("%s", hintOf(err))
			}
		}
		args = args[len(take):]
	}
	if len(args) > 0 {
		return v.usagef("%q is one word too many", args[0]).WithHint("%s", cmd.UseLine())
	}
	return v.check(cmd)
}

// check refuses what does not go together.
func (v *command) check(cmd *cobra.Command) error {
	for _, n := range v.nouns {
		if n.param.Required() && n.text() == "" {
			return v.usagef("%s is missing", n.param.Name).WithHint("%s", cmd.UseLine())
		}
	}
	switch {
	case v.timeout != 0 && !v.wait:
		return v.usagef("--timeout is how long to --wait")
	case v.wait && v.spec.Name == "rollouts" && v.nouns[0].text() == "":
		return v.usagef("--wait needs an app, or the number of a rollout").WithHint("%s", cmd.UseLine())
	case v.approve.text() != "" && v.arguments["approve"].text() != "":
		return v.usagef("--approve is given twice").WithHint("--approve-each-step is --approve each-step")
	}
	return nil
}

// takeCommand makes the words behind "--" the command.
func (v *command) takeCommand() error {
	c, ok := v.arguments["command"]
	switch {
	case !ok:
		return v.usagef("the words behind -- are a command, and %s takes none", v.verb.name)
	case c.text() != "":
		return v.usagef("--command and the words behind -- are both given")
	case len(v.words) == 0:
		return v.usagef("there is no command behind --")
	}
	c.source = textList(v.words)
	return nil
}

func (v *command) usagef(format string, args ...any) *muru.Error {
	err := muru.Errorf(muru.KindUsage, format, args...)
	err.Message = v.verb.name + ": " + err.Message
	return err
}

// source is the call of the verb.
func (v *command) source() string {
	name := v.spec.Name
	if v.wait && name == "rollouts" {
		call := "wait(" + v.waitNoun()
		if v.timeout > 0 {
			call += fmt.Sprintf(", timeout = %s", quote(muru.FormatDuration(v.timeout)))
		}
		return call + ")"
	}
	parts := v.nounTexts()
	for _, p := range v.spec.Params {
		if p.Pass == builtins.Positional {
			continue
		}
		if text := v.text(p.Name); text != "" {
			parts = append(parts, p.Name+" = "+text)
		}
	}
	if v.follow {
		parts = append(parts, "follow = True")
	}
	return name + "(" + strings.Join(parts, ", ") + ")"
}

// waitNoun is what status --wait waits for: an app, or a rollout by number.
func (v *command) waitNoun() string {
	text := v.nouns[0].text()
	if word := strings.Trim(text, `"`); wholeNumber.MatchString(word) {
		return word
	}
	return text
}

// brief is the call with its nouns alone.
func (v *command) brief() string {
	if v.wait && v.spec.Name == "rollouts" {
		return "wait(" + v.waitNoun() + ")"
	}
	return v.spec.Name + "(" + strings.Join(v.nounTexts(), ", ") + ")"
}

func (v *command) nounTexts() []string {
	var texts []string
	for _, n := range v.nouns {
		if text := n.text(); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// text returns the keyword argument called name as source.
func (v *command) text(name string) string {
	switch name {
	case "gates":
		return v.gates.text()
	case "wait":
		if returnsHandle[v.spec.Name] && !v.wait {
			return "False"
		}
		return ""
	case "approve":
		if text := v.approve.text(); text != "" {
			return text
		}
	}
	if a, ok := v.arguments[name]; ok {
		return a.text()
	}
	return ""
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// needsVerb is what a command does that only has verbs below it.
func needsVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownVerb(cmd, args[0])
}
