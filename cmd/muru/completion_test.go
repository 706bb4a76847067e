package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muru/control"
	"muru/control/controltest"
)

// tab returns what pressing Tab behind a line offers.
func tab(t *testing.T, m control.Muru, line string) []string {
	t.Helper()
	out, errs, status := typed(t, m, append([]string{"__completeNoDesc"}, strings.Split(line, " ")...)...)
	if status != 0 {
		t.Errorf("muru %s: status %d: %s", line, status, errs)
	}
	words := strings.Split(strings.TrimSpace(out), "\n")
	return words[:len(words)-1] // the last is a number for the shell
}

func TestTabCompletesVerbsFlagsAndLiveNames(t *testing.T) {
	m := &controltest.Muru{
		OnState: func(context.Context) (control.State, error) {
			return control.State{
				Apps: []control.AppInfo{{Name: "blog"}, {Name: "shop"}},
				Releases: []control.ReleaseInfo{
					{App: "blog", Name: "r3", State: "serving"}, {App: "shop", Name: "r4", State: "stopped"},
					{App: "shop", Name: "r5", State: "serving"}, {App: "shop", Name: "r6", State: "held"},
				},
				Rollouts: []control.RolloutInfo{{Number: 6}, {Number: 7, Live: true}},
			}, nil
		},
		OnRuns: func(context.Context) ([]control.RunInfo, error) {
			return []control.RunInfo{{Number: 1, State: control.RunFinished}, {Number: 2, State: control.RunRunning}}, nil
		},
	}
	for _, c := range []struct {
		line string
		want []string
	}{
		{"rollo", []string{"rollout"}},
		{"rollout re", []string{"resume", "retry"}},
		{"rollout canary shop@", []string{"shop@r5", "shop@r6"}},
		{"rollout resume ", []string{"blog", "shop", "7"}},
		{"rollout canary shop@r6 --approve ", []string{"each-step", "promotion", "all"}},
		{"rollout canary shop@r6 --max-p", []string{"--max-p95", "--max-p99"}},
		{"status ", []string{"blog", "shop"}},
		{"status shop ", nil},
		{"logs shop@r", []string{"shop@r4", "shop@r5", "shop@r6"}},
		{"rollback s", []string{"shop", "shop@r5", "shop@r6"}},
		{"rollback shop --to ", []string{"r5", "r6"}},
		{"split shop ", []string{"r5=", "r6="}},
		{"events --level w", []string{"warning"}},
		{"attach ", []string{"1", "2"}},
		{"cancel ", []string{"2"}},
		{"completion z", []string{"zsh"}},
	} {
		got := tab(t, m, c.line)
		if !slices.Equal(got, c.want) {
			t.Errorf("muru %s<Tab> offers %q, want %q", c.line, got, c.want)
		}
	}
}

func TestTabIsQuickAndSilentWhenNobodyAnswers(t *testing.T) {
	for name, m := range map[string]control.Muru{
		"no daemon": &controltest.Muru{OnState: func(context.Context) (control.State, error) {
			return control.State{}, control.ErrNoDaemon
		}},
		"one that hangs": &controltest.Muru{OnState: func(context.Context) (control.State, error) {
			time.Sleep(time.Second)
			return control.State{}, errors.New("too late")
		}},
	} {
		began := time.Now()
		out, errs, status := typed(t, m, "__completeNoDesc", "rollout", "canary", "shop@")
		if took := time.Since(began); took > completeWithin+300*time.Millisecond {
			t.Errorf("%s: took %s", name, took)
		}
		if out != ":4\n" || status != 0 || strings.Contains(errs, "muru:") {
			t.Errorf("%s: stdout %q stderr %q status %d", name, out, errs, status)
		}
	}
}

func TestEveryShellGetsAScript(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "COMP_WORDBREAKS=${COMP_WORDBREAKS//@/}", "zsh": "#compdef muru", "fish": "complete -c muru",
	} {
		out, _, status := typed(t, &controltest.Muru{}, "completion", shell)
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, no %q", shell, status, want)
		}
	}
}
