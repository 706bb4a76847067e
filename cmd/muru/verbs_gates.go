package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"muru"
)

// gateFlags are the flags that stand for the gates of a canary or observe:
// a command line has no functions to make gates of.
type gateFlags struct {
	limits map[string]string // gate: its max as source
	probes []string          // paths
}

// limitFlags are the gates with a limit, in the order in which the call
// lists them.
var limitFlags = []struct {
	gate, typ, doc string
	convert        literal
}{
	{muru.Gate5xx, "PERCENTAGE", "5xx answers it may have, such as 1%", numberOrText},
	{muru.GateCrashes, "INT", "crashes and kills of workers it may have", numberLiteral},
	{muru.GateP95, "DURATION", "time within which 95% of its answers must come", durationLiteral},
	{muru.GateP99, "DURATION", "time within which 99% of its answers must come", durationLiteral},
	{muru.GateQueueWait, "DURATION", "time within which 95% of its requests must reach a worker", durationLiteral},
}

func (g *gateFlags) addTo(cmd *cobra.Command) {
	g.limits = make(map[string]string)
	for _, f := range limitFlags {
		set := func(word string) error {
			source, err := f.convert(word)
			g.limits[f.gate] = source
			return err
		}
		cmd.Flags().Var(&wordFlag{set: set, typ: f.typ}, "max-"+strings.ReplaceAll(f.gate, "_", "-"), f.doc)
	}
	probe := func(word string) error {
		if !strings.HasPrefix(word, "/") {
			return muru.Errorf(muru.KindUsage, "%q is not a path", word).WithHint(`write it like "/healthz"`)
		}
		g.probes = append(g.probes, word)
		return nil
	}
	cmd.Flags().Var(&wordFlag{set: probe, typ: "PATH"}, "probe", "path that is requested from both releases; repeatable")
}

// text returns the gates as source, empty if no flag was given.
func (g *gateFlags) text() string {
	var gates []string
	for _, f := range limitFlags {
		if limit, ok := g.limits[f.gate]; ok {
			gates = append(gates, fmt.Sprintf("gate(%s, max = %s)", quote(f.gate), limit))
		}
	}
	if len(g.probes) > 0 {
		gates = append(gates, fmt.Sprintf("gate(%s, paths = %s)", quote(muru.GateProbe), textList(g.probes)))
	}
	if len(gates) == 0 {
		return ""
	}
	return listLiteral(gates)
}

// approveFlags are the short forms of --approve.
type approveFlags struct{ eachStep, promotion bool }

func (a *approveFlags) addTo(cmd *cobra.Command) {
	addBare(cmd.Flags(), "approve-each-step", "a person approves each step after the first", func(on bool) { a.eachStep = on })
	addBare(cmd.Flags(), "approve-promotion", "a person approves all traffic", func(on bool) { a.promotion = on })
}

// text returns what approve is, empty if no flag was given.
func (a *approveFlags) text() string {
	switch {
	case a.eachStep && a.promotion:
		return quote("all")
	case a.eachStep:
		return quote("each-step")
	case a.promotion:
		return quote("promotion")
	}
	return ""
}
