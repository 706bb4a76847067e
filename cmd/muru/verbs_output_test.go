package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

// answering is a muru whose every call says messages and ends with err.
func answering(err error, messages ...control.Message) *controltest.Muru {
	return &controltest.Muru{OnCall: func(_ context.Context, _ control.Call, out func(control.Message)) error {
		for _, m := range messages {
			out(m)
		}
		return err
	}}
}

func said(text string) control.Message { return control.Message{Kind: control.KindSay, Text: text} }

func value(text, json string) control.Message {
	return control.Message{Kind: control.KindValue, Text: text, Value: []byte(json)}
}

func progress(rollout int, text string) control.Message {
	return control.Message{Kind: control.KindProgress, Rollout: rollout, Text: text}
}

func begin(call string) control.Message {
	return control.Message{Kind: control.KindBegin, Text: call}
}

func kind(k muru.ErrorKind, message string) error { return muru.Errorf(k, "%s", message) }

func TestEveryVerbPrintsResultsOnStdoutErrorsOnStderrAndEndsWithItsStatus(t *testing.T) {
	held := said("release shop@r6 is ready and held: not serving")
	rolledBack := said("rollout 1 rolled_back: gate failed at 10%: 5xx rate 21.95% over the limit of 1.00% (baseline 0.00%)")
	running := said("rollout 1 running step 1 of 2: 10% for 30s")
	noDaemon := &muru.Error{
		Kind: muru.KindRefused, Message: "no muru serves at /x/muru.sock", Hint: "start one: muru serve", Err: control.ErrNoDaemon,
	}
	for _, c := range []struct {
		line           string
		m              *controltest.Muru
		stdout, stderr string
		status         int
	}{
		{"deploy shop releases/v6 --hold", answering(nil, begin(`deploy("shop")`), held, value("RELEASE STATE\nshop@r6 held", `{"name":"r6"}`)),
			"muru: release shop@r6 is ready and held: not serving\n", "", 0},
		{"deploy shop releases/v6 --json", answering(nil, held, value("", `{"name":"r6"}`)),
			"{\"name\":\"r6\"}\n", "muru: release shop@r6 is ready and held: not serving\n", 0},
		{"deploy shop v9", answering(kind(muru.KindNotReady, "deploy: release shop@r9 failed to start: exit status 1; r8 keeps serving")),
			"", "muru: release shop@r9 failed to start: exit status 1; r8 keeps serving\n", 1},
		{"deploy shop nowhere", answering(kind(muru.KindNotFound, "deploy: there is no directory nowhere")),
			"", "muru: deploy: there is no directory nowhere\n", 3},
		{"deploy shop . --entry x", answering(kind(muru.KindUsage, "deploy: entry: want MODULE:ATTR")),
			"", "muru: deploy: entry: want MODULE:ATTR\n", 2},
		{"rollout canary shop@r6", answering(nil, said("rollout 1 of shop@r6 started against r5: step 1 of 2: 10% for 30s"), value("T", `{"number":1}`)),
			"muru: rollout 1 of shop@r6 started against r5: step 1 of 2: 10% for 30s\n", "", 0},
		{"rollout canary shop@r6", answering(muru.Errorf(muru.KindRefused, "shop has rollout 1 live (r6 at 10%%): refused").WithHint("muru rollout abort shop")),
			"", "muru: shop has rollout 1 live (r6 at 10%): refused\nhint: muru rollout abort shop\n", 3},
		{"rollout canary shop@r6 --wait", answering(kind(muru.KindRolledBack, "canary: rollout 1 of shop@r6 rolled_back: …"), running, progress(1, "…"), rolledBack, progress(1, "")),
			"muru: " + running.Text + "\nmuru: " + rolledBack.Text + "\n", "", 1},
		{"rollout status shop --wait", answering(kind(muru.KindRolledBack, "wait: rollout 1 of shop@r6 rolled_back: …"), rolledBack),
			"muru: " + rolledBack.Text + "\n", "", 1},
		{"rollout status shop --wait", answering(nil, running, said("rollout 1 promoted: every step passed its gates"), value("T", `{}`)),
			"muru: " + running.Text + "\nmuru: rollout 1 promoted: every step passed its gates\n", "", 0},
		{"rollout status shop --wait --timeout 1s", answering(kind(muru.KindTimeout, "wait: rollout 1 did not end within 1s"), running),
			"muru: " + running.Text + "\n", "muru: wait: rollout 1 did not end within 1s\n", 124},
		{"rollout status shop", answering(nil, value("APP  ROLLOUT\nshop 1", `[{}]`)), "APP  ROLLOUT\nshop 1\n", "", 0},
		{"rollout status", answering(nil, value("[]", `[]`)), "", "muru: no rollouts\n", 0},
		{"rollout resume shop", answering(kind(muru.KindGateFailed, "resume: gate failed")), "", "muru: resume: gate failed\n", 1},
		{"rollout abort shop", answering(nil, said("rollout 1 aborted: by ana at 10%"), value("T", `{}`)), "muru: rollout 1 aborted: by ana at 10%\n", "", 0},
		{"rollback shop", answering(kind(muru.KindNotReady, "rollback: release shop@r5 failed to start: exit status 1; r6 keeps serving")),
			"", "muru: release shop@r5 failed to start: exit status 1; r6 keeps serving\n", 1},
		{"promote shop@r9", answering(kind(muru.KindDenied, "promote: not yours")), "", "muru: promote: not yours\n", 3},
		{"status", answering(nil, value("[]", `[]`)), nothingDeployed + "\n", "", 0},
		{"status --json", answering(nil, value("[]", `[]`)), "[]\n", "", 0},
		{"status", answering(nil, value("APP\nshop", `[{"name":"shop"}]`)), "APP\nshop\n", "", 0},
		{"status shop --json", answering(nil, value("APP\nshop", `{"name":"shop"}`)), "{\"name\":\"shop\"}\n", "", 0},
		{"events", answering(nil, value("1 10:00:00 notice …", `[{}]`)), "1 10:00:00 notice …\n", "", 0},
		{"logs shop@r6", answering(nil, value("a\nb", `["a","b"]`)), "a\nb\n", "", 0},
		{"workers", answering(nil, value("[]", `[]`)), "", "muru: no workers\n", 0},
		{"stacks shop@r1", answering(nil, value("[]", `[]`)), "", "muru: no stacks\nhint: those of a worker that was replaced are in its log: muru logs RELEASE\n", 0},
		{"observe shop@r6", answering(kind(muru.KindNoData, "observe: no data on shop@r6")), "", "muru: observe: no data on shop@r6\n", 1},
		{"probe shop@r6 /", answering(nil, value("200 OK in 4.1 ms from shop@r6", `{"code":200}`)), "200 OK in 4.1 ms from shop@r6\n", "", 0},
		{"probe shop@r6 /", answering(kind(muru.KindHTTPFailed, "probe: shop@r6 answered 500")), "", "muru: probe: shop@r6 answered 500\n", 1},
		{"traffic shop", answering(kind(muru.KindHTTPFailed, "traffic: nothing answered")), "", "muru: traffic: nothing answered\n", 1},
		{"stop shop", answering(noDaemon), "", "muru: no muru serves at /x/muru.sock\nhint: start one: muru serve\n", 4},
		{"stop shop --json", answering(nil), "null\n", "", 0},
		{"runs", &controltest.Muru{OnRuns: func(context.Context) ([]control.RunInfo, error) { return nil, noDaemon }},
			"", "muru: no muru serves at /x/muru.sock\nhint: start one: muru serve\n", 4},
		{"runs", &controltest.Muru{OnRuns: func(context.Context) ([]control.RunInfo, error) { return nil, nil }}, "", "muru: no runs\n", 0},
		{"runs --json", &controltest.Muru{OnRuns: func(context.Context) ([]control.RunInfo, error) { return nil, nil }}, "[]\n", "", 0},
		{"cancel 3", &controltest.Muru{OnCancelRun: func(_ context.Context, n int) error { return nil }}, "muru: run 3 cancelled\n", "", 0},
		{"cancel 3", &controltest.Muru{OnCancelRun: func(context.Context, int) error { return kind(muru.KindRefused, "run 3 has ended") }},
			"", "muru: run 3 has ended\n", 3},
		{"attach 3", runEnding(control.RunFinished, nil, said("x"), control.Message{Kind: control.KindPrint, Text: "hello"}), "muru: x\nhello\n", "", 0},
		{"attach 3", runEnding(control.RunFailed, kind(muru.KindRefused, "a.star:1:1: promote: r9 is not ready")),
			"", "muru: a.star:1:1: promote: r9 is not ready\n", 1},
		{"attach 3", runEnding(control.RunCancelled, kind(muru.KindFailed, "cancelled by bo")), "", "muru: cancelled by bo\n", 130},
		{"attach 4", runEnding(control.RunFinished, kind(muru.KindNotFound, "there is no run 4")), "", "muru: there is no run 4\n", 3},
	} {
		out, errs, status := typed(t, c.m, strings.Fields(c.line)...)
		if out != c.stdout || errs != c.stderr || status != c.status {
			t.Errorf("muru %s\n got stdout %q stderr %q status %d\nwant stdout %q stderr %q status %d",
				c.line, out, errs, status, c.stdout, c.stderr, c.status)
		}
	}
}

// runEnding is a muru whose run 3 says messages and ends with err.
func runEnding(state string, err error, messages ...control.Message) *controltest.Muru {
	return &controltest.Muru{
		OnAttach: func(_ context.Context, _ int, out func(control.Message)) error {
			for _, m := range messages {
				out(m)
			}
			return err
		},
		OnRuns: func(context.Context) ([]control.RunInfo, error) {
			return []control.RunInfo{{Number: 3, State: state}}, nil
		},
	}
}

func TestCallsCarryTheDirectoryOfWhoTyped(t *testing.T) {
	var got control.Call
	m := &controltest.Muru{OnCall: func(_ context.Context, c control.Call, _ func(control.Message)) error {
		got = c
		return nil
	}}
	dir := t.TempDir()
	t.Chdir(dir)
	typed(t, m, "rollout", "canary", "shop@r6", "--wait")
	want := control.Call{Source: `canary("shop@r6")`, Dir: dir}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFollowGoesOnUntilInterruptedAndPrintsLinesOfJSON(t *testing.T) {
	event := muru.Event{Seq: 45, Time: time.Now(), Level: muru.LevelWarning, Kind: muru.RolloutGateFailed, Subject: "shop@r6", Message: "step 1"}
	var asked control.EventRequest
	m := &controltest.Muru{
		OnEvents: func(_ context.Context, q control.EventRequest, out func(muru.Event)) error {
			asked = q
			out(event)
			return nil
		},
		OnLogs: func(_ context.Context, q control.LogRequest, out func(string)) error {
			if q.Target != "shop@r6" || q.Lines != 5 || q.Worker == nil || *q.Worker != 0 || !q.Follow {
				t.Errorf("asked for logs %+v", q)
			}
			out(`a "line"`)
			return nil
		},
	}
	out, _, _ := typed(t, m, "events", "shop", "--follow", "--level", "warning", "--since", "10m")
	if want := event.Line(time.Now(), time.Local) + "\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	ago := time.Since(asked.Since)
	if asked.Target != "shop" || asked.Level != muru.LevelWarning || asked.Limit != 50 || !asked.Follow || ago < 9*time.Minute || ago > 11*time.Minute {
		t.Errorf("asked for events %+v", asked)
	}
	out, _, _ = typed(t, m, "events", "-f", "--json")
	var got control.EventJSON
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Seq != 45 || strings.Count(out, "\n") != 1 {
		t.Errorf("got %q: %v", out, err)
	}
	out, _, _ = typed(t, m, "logs", "shop@r6", "--follow", "--lines", "5", "--worker", "0")
	if out != "a \"line\"\n" {
		t.Errorf("got %q", out)
	}
	out, _, _ = typed(t, m, "logs", "shop@r6", "--follow", "--json", "--lines", "5", "--worker", "0")
	if out != "\"a \\\"line\\\"\"\n" {
		t.Errorf("got %q", out)
	}
}

func TestRunsAreATable(t *testing.T) {
	started := time.Date(2026, 11, 7, 10, 0, 0, 0, time.Local)
	ended := started.Add(3800 * time.Millisecond)
	m := &controltest.Muru{OnRuns: func(context.Context) ([]control.RunInfo, error) {
		return []control.RunInfo{{
			Number: 7, File: "canary.star", Args: []string{"shop", "v6"}, By: "ana", State: control.RunFailed,
			Started: started, Ended: &ended, Error: "it broke",
		}}, nil
	}}
	out, _, _ := typed(t, m, "runs")
	want := "RUN STATE  STARTED             TOOK  BY  RECIPE              MESSAGE\n" +
		"7   failed 2026-11-07 10:00:00 3.8 s ana canary.star shop v6 it broke\n"
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}
