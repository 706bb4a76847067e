package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muru"
)

// rewrite writes the golden files of the present form. Those of older forms
// stay as they are for ever.
var rewrite = flag.Bool("rewrite", false, "write testdata/v1 anew")

var at = time.Date(2026, 11, 7, 18, 20, 7, 123456789, time.UTC)

// Every field of every record is set, so that none can be lost.
func wholeApp() *actor {
	a := newActor(nil, muru.Route{
		App: "shop", Hosts: []string{"shop.example", "*.shop.example"}, Path: "/shop", Headers: map[string]string{"X-Tenant": "a"},
		Methods: []string{"GET", "POST"}, Key: muru.Key{Kind: muru.KeyCookie, Name: "sid"}, Sticky: 10 * time.Minute,
		PreviewOff: true, PreviewKey: "s3cret", Health: "/healthz", Redirects: map[string]string{"/old": "/new"},
		Compress: true, MaxBody: 1 << 20, Maintenance: "back at noon",
	})
	a.split, _ = muru.NewSplit("rollout 4", rel(5), muru.SplitArm{Release: rel(6), Share: 1000})
	a.splitRun, a.off, a.generation, a.last = 7, true, 42, 8
	a.history, a.regretted = []int{1, 3, 5}, map[int]bool{4: true, 2: true}
	a.reverted = reverted{at, 3, "ana"}
	a.honoured = map[int]time.Time{3: at, 1: at.Add(time.Minute)}
	return a
}

func wholeRelease() *release {
	return &release{
		Release: muru.Release{
			ID: rel(6), State: muru.Held, Created: at, By: "run 7", Message: "rollout 4: by ana",
			ReleasePlan: muru.ReleasePlan{
				Kind: muru.Command, Source: "/srv/shop/v6", Digest: "h1:abc", Entry: "app:application",
				Command: []string{"/bin/sh", "-c", "serve"}, Upstream: "10.0.0.5:9000", Workers: 2, Threads: 4,
				Env: map[string]string{"DEBUG": "1"}, Ready: "/ready", Stacks: "SIGQUIT", Limits: muru.Limits{Queue: 1000},
				Timeouts: muru.Timeouts{
					Ready: 30 * time.Second, Queue: 10 * time.Second, Hard: 3 * time.Second, Soft: time.Second,
					Drain: 30 * time.Second, Stream: time.Minute, WebSocket: 2 * time.Minute,
				},
			},
		},
		hold: true, caller: Caller{Run: 7, Key: "7/0/1", By: "run 7"},
	}
}

func wholeRollout(state muru.RolloutState) *live {
	l := &live{
		Rollout: muru.Rollout{
			Number: 4, Candidate: rel(6), Baseline: rel(5), State: state, Share: 1000, Message: "lunch",
			Steps: []muru.Step{{Number: 1, Of: 2, Share: 1000, Shadow: true, Hold: 30 * time.Second}, {Number: 2, Of: 2, Share: 5000, Hold: time.Minute}},
			Gates: []muru.Gate{
				{Name: muru.Gate5xx, Max: muru.PercentOf(1), Ratio: 1.5},
				{Name: muru.GateP95, Ratio: 1},
				{Name: muru.GateProbe, Ratio: 1, Paths: []string{"/healthz"}, Body: "^ok$", Within: time.Second, Every: 5 * time.Second, Failures: 3},
				{Name: "carts", Kind: muru.GateCheck, Ratio: 1},
				{Name: "carts lost", Kind: muru.GateHeader, Ratio: 1, Header: "X-Cart-Lost", Max: muru.PercentOf(0.1)},
				{Name: "load", Kind: muru.GateQuery, Ratio: 1, URL: "http://store:9090", Query: "up", Max: muru.NumberOf(0.5), Within: time.Second, Every: 5 * time.Second},
			},
			Verdicts: []muru.Verdict{{
				Gate: muru.Gate5xx, Result: muru.Fail, Candidate: muru.PercentOf(22), Baseline: muru.PercentOf(0.5), Limit: muru.PercentOf(1),
				Count: 22, Requests: 100, BaselineCount: 5, BaselineRequests: 1000, Clients: 20, BaselineClients: 4,
				Evidence: 12.5, Needed: 4.6, Message: "5xx rate 22.00% over the limit of 1.00% (baseline 0.50%)", At: at,
			}, {Gate: muru.GateP95, Candidate: muru.TimeOf(250 * time.Millisecond), At: at}},
			Started: at, By: "run 7", Run: 7,
		},
		caller: Caller{Run: 7, Key: "7/0/2", By: "run 7"}, bad: map[string]bool{}, bothBad: map[string]bool{},
	}
	l.plan = CanaryRequest{
		Caller: l.caller, Release: rel(6), Approve: muru.ApproveEachStep, OnNoData: muru.NoDataRollback, Judge: "sequential",
		Alpha: 0.5, OnFail: OnFailFreeze, Until: UntilConfident, Shield: true, FromStep: 1, MinRequests: 100, Deadline: 10 * time.Minute, Gates: l.Gates,
	}
	for _, s := range l.Steps {
		l.plan.Steps = append(l.plan.Steps, muru.Step{Share: s.Share, Shadow: s.Shadow, Hold: s.Hold})
	}
	l.witness = witness{step: 1, window: 40 * time.Second, candidate: 81, all: 800, paired: true, least: 1}
	l.memory = []memory{{
		gate: muru.Gate5xx, tallies: []tally{{1000, 3, 1}, {5000, 0, 2}}, peak: 4.25, total: total{22, 100, 5, 1000},
		clients: (&eventClients{seen: map[uint32]struct{}{7: {}, 9: {}}}).digest(),
	}, {gate: muru.GateP95}}
	if l.Live() {
		l.frozen = true
		l.failures, l.shielded, l.bothBad[muru.Gate5xx] = 22, 20, true
		l.held, l.spent, l.unproven, l.noData, l.awaitNext, l.owed = 12*time.Second, 15*time.Second, true, true, "promotion", true
		l.Step = &muru.Step{Number: 1, Of: 2, Share: 1000, Shadow: true, Hold: 30 * time.Second, Elapsed: 12 * time.Second, Requests: 80}
	} else {
		l.Ended = at.Add(time.Minute)
	}
	return l
}

func wholeEvent() muru.Event {
	return muru.Event{
		Seq: 45, Time: at, Level: muru.LevelWarning, Kind: muru.RolloutGateFailed, Subject: "shop@r6",
		Message: "step 1 at 10%: 5xx rate 22.00% over the limit of 1.00% (baseline 0.50%)", By: "muru",
		Data: map[string]any{"rollout": 4, "run": 7, "limit": "1.00%", "evidence": 12.5, "shielded": true},
	}
}

// goldens are the records as they are written, and what they must become when
// they are read, in a form that can be compared.
func goldens() map[string][]byte {
	return map[string][]byte{
		"app.json":     encode(wholeApp().record()),
		"release.json": encode(wholeRelease().record()),
		"live.json":    encode(wholeRollout(muru.Paused).record()),
		"ended.json":   encode(wholeRollout(muru.RolledBack).record()),
		"event.json":   encodeEvent(wholeEvent()),
		"counter.json": encodeCounter(109),
	}
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "v1", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRecordsAreWrittenInTheFormOfTheirVersion(t *testing.T) {
	for name, text := range goldens() {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, text, "", "  "); err != nil {
			t.Fatal(err)
		}
		pretty.WriteByte('\n')
		path := filepath.Join("testdata", "v1", name)
		if *rewrite {
			if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(golden(t, name)), pretty.String()); diff != "" {
			t.Errorf("%s: a changed form needs a version of its own:\n%s", name, diff)
		}
	}
}

// TestRecordsOfVersion1AreRead decodes what an older muru has written. The
// files of a version are never changed once it is out.
func TestRecordsOfVersion1AreRead(t *testing.T) {
	same := func(name string, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	a, err := decodeApp(nil, "shop", golden(t, "app.json"))
	if err != nil {
		t.Fatal(err)
	}
	same("app.json", a.record(), wholeApp().record(), nil)
	same("app.json's route", a.route, wholeApp().route, nil)
	r, err := decodeRelease(rel(6), golden(t, "release.json"))
	if err != nil {
		t.Fatal(err)
	}
	same("release.json", r.Release, wholeRelease().Release, nil)
	same("release.json's caller", r.caller, wholeRelease().caller, nil)
	for name, state := range map[string]muru.RolloutState{"live.json": muru.Paused, "ended.json": muru.RolledBack} {
		l, err := decodeRollout(4, golden(t, name))
		if err != nil {
			t.Fatal(err)
		}
		want := wholeRollout(state)
		same(name, l.Rollout, want.Rollout, nil)
		same(name+"'s plan", l.plan, want.plan, nil)
		same(name+"'s record", l.record(), want.record(), nil)
	}
	e, err := decodeEvent(45, golden(t, "event.json"))
	same("event.json", e, wholeEvent(), err)
	n, err := decodeCounter(golden(t, "counter.json"))
	same("counter.json", n, 109, err)
}

func TestRecordsThatMuruDoesNotWriteAreRefused(t *testing.T) {
	release := string(encode(wholeRelease().record()))
	rollout := string(encode(wholeRollout(muru.Paused).record()))
	app := string(encode(wholeApp().record()))
	for _, tt := range []struct{ what, record, old, new, want string }{
		{"nothing", "release", release, "", "unexpected end of JSON input"},
		{"a newer form", "release", `"v":1`, `"v":2`, "its form is 2, and this muru knows forms up to 1"},
		{"no form", "release", `"v":1`, `"v":0`, "its form is 0, which there is not"},
		{"an unknown field", "release", `"hold":true`, `"hold":true,"more":1`, `unknown field "more"`},
		{"more behind its end", "release", release, release + "{}", "there is more behind its end"},
		{"an unknown state", "release", `"held"`, `"asleep"`, `state: "asleep" is not a muru.ReleaseState`},
		{"a negative time", "release", `"hard":"3s"`, `"hard":"-3s"`, "-3s is below 0"},
		{"shares that are too few", "app", `"share":9000`, `"share":900`, "do not sum to 100%"},
		{"a negative share", "app", `"share":1000`, `"share":-1`, "a share cannot be negative"},
		{"a release twice", "app", `"release":5,"share":9000`, `"release":6,"share":9000`, "shop@r6 is in it twice"},
		{"a key that is none", "app", `"cookie:sid"`, `"cake"`, `"cake" is not a key`},
		{"a step that is not there", "rollout", `"step":1`, `"step":3`, "a rollout that is paused has a step"},
		{"steps that go down", "rollout", `"share":1000,"shadow":true,"hold"`, `"share":6000,"hold"`, "steps[1]: 50% is not above 60%"},
		{"events under a share that says nothing", "rollout", `{"share":1000,"candidate":3`, `{"share":10000,"candidate":3`, "memory of \"5xx\": 3 and 1 events under a share of 10000"},
		{"fewer events than none", "rollout", `"candidate":3,"baseline":1`, `"candidate":-3,"baseline":1`, "memory of \"5xx\": -3 and 1 events under a share of 1000"},
		{"evidence below nothing", "rollout", `"peak":4.25`, `"peak":-4.25`, "memory of \"5xx\": a peak of -4.25"},
		{"fewer failures than none", "rollout", `"failures":22,"shielded"`, `"failures":-22,"shielded"`, "progress: 80 requests, -22 failures, 20 shielded"},
		{"a gate that is none bad on both", "rollout", `"both_bad":["5xx"]`, `"both_bad":["p42"]`, `progress: both_bad: there is no gate "p42"`},
		{"clients that are none", "rollout", `"clients":"AAAAAAcAAAAJ"`, `"clients":"AAAAAAcAAAA"`, "memory of \"5xx\": clients: "},
		{"a policy that is none", "rollout", `"on_fail":"freeze"`, `"on_fail":"burn"`, `on_fail: "burn" is not a rollout.OnFail`},
		{"more clients than all", "rollout", `"candidate_clients":81`, `"candidate_clients":810`, "witness: step 1, 810 of 800 clients"},
		{"a gate that is none", "rollout", `"name":"p95"`, `"name":"p42"`, `muru measures no "p42"`},
		{"a gate twice", "rollout", `"name":"p95"`, `"name":"5xx"`, `gates[1]: "5xx" is named twice`},
		{"a name that is none", "rollout", `"app":"shop"`, `"app":"../x"`, `"../x" is not an app name`},
	} {
		text := map[string]string{"release": release, "rollout": rollout, "app": app}[tt.record]
		changed := strings.Replace(text, tt.old, tt.new, 1)
		if changed == text {
			t.Fatalf("%s: %s is not in it", tt.what, tt.old)
		}
		var err error
		switch tt.record {
		case "release":
			_, err = decodeRelease(rel(6), []byte(changed))
		case "rollout":
			_, err = decodeRollout(4, []byte(changed))
		case "app":
			_, err = decodeApp(nil, "shop", []byte(changed))
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.what, err, tt.want)
		}
		if (tt.what == "a newer form") != errors.Is(err, errNewer) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}

// FuzzRecords: whatever is in the store, it is refused or read, and what is
// read is written so that it reads the same.
func FuzzRecords(f *testing.F) {
	for _, text := range goldens() {
		f.Add(text)
	}
	f.Add([]byte(`{"v":1,"state":"held","plan":{"kind":"python","timeouts":{}},"created":"2026-11-07T18:20:07Z"}`))
	f.Add([]byte(`{"v":1,"app":"a","candidate":2,"baseline":1,"state":"running","progress":{"step":9}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, err := decodeApp(nil, "shop", text); err == nil {
			again, err := decodeApp(nil, "shop", encode(a.record()))
			if err != nil || !cmp.Equal(a.record(), again.record()) {
				t.Errorf("app: %v\n%+v", err, a.record())
			}
		}
		if r, err := decodeRelease(rel(6), text); err == nil {
			again, err := decodeRelease(rel(6), encode(r.record()))
			if err != nil || !cmp.Equal(r.record(), again.record()) {
				t.Errorf("release: %v\n%+v", err, r.record())
			}
		}
		if l, err := decodeRollout(4, text); err == nil {
			again, err := decodeRollout(4, encode(l.record()))
			if err != nil || !cmp.Equal(l.record(), again.record()) {
				t.Errorf("rollout: %v\n%+v", err, l.record())
			}
		}
		if e, err := decodeEvent(1, text); err == nil {
			if again, err := decodeEvent(1, encodeEvent(e)); err != nil || len(text) < 1000 && !again.Time.Equal(e.Time) {
				t.Errorf("event: %v\n%+v", err, e)
			}
		}
		if n, err := decodeCounter(text); err == nil {
			if again, err := decodeCounter(encodeCounter(n)); err != nil || again != n {
				t.Errorf("counter: %v", err)
			}
		}
	})
}
