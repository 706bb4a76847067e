package control_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muru"
	"muru/control"
)

func TestStateIsNamesAndNumbersForPrograms(t *testing.T) {
	at := time.Date(2026, 11, 7, 7, 20, 7, 0, time.FixedZone("CET", 3600))
	r5, r6 := muru.ReleaseID{App: "shop", Number: 5}, muru.ReleaseID{App: "shop", Number: 6}
	split, err := muru.NewSplit("7", r5, muru.SplitArm{Release: r6, Share: 1050})
	if err != nil {
		t.Fatal(err)
	}
	rollout := muru.Rollout{
		Number: 7, Candidate: r6, Baseline: r5, State: muru.Running, Share: 1050, Started: at, By: "ana", Run: 3,
		Step:  &muru.Step{Number: 1, Of: 2, Share: 1050, Hold: 30 * time.Second},
		Gates: []muru.Gate{{}}, // whatever it holds, it does not cross
	}
	ended := rollout
	ended.State, ended.Ended, ended.Step = muru.RolledBack, at, nil
	for want, v := range map[string]any{
		`{"name":"shop","url":"http://x/","baseline":"r5","candidate":"r6","split":{"r5":89.5,"r6":10.5},"warm":["r4"],"rollout":7}`: control.AppInfoOf(
			muru.App{Name: "shop", URL: "http://x/", Baseline: 5, Candidate: 6, Split: split, Warm: []int{4}, Rollout: 7}),
		`{"app":"shop","name":"r6","state":"serving","share":10.5,"kind":"external","source":"10.0.0.5:9000","created":"2026-11-07T06:20:07Z","by":"ana"}`: control.ReleaseInfoOf(
			muru.Release{ID: r6, State: muru.Serving, Share: 1050, Created: at, By: "ana", ReleasePlan: muru.ReleasePlan{Kind: muru.External, Upstream: "10.0.0.5:9000"}}),
		`{"number":7,"app":"shop","candidate":"r6","baseline":"r5","state":"running","live":true,"share":10.5,"step":"step 1 of 2: 10.5% for 30s","started":"2026-11-07T06:20:07Z","by":"ana","run":3}`: control.RolloutInfoOf(rollout),
		`{"number":7,"app":"shop","candidate":"r6","baseline":"r5","state":"rolled_back","live":false,"share":10.5,"started":"2026-11-07T06:20:07Z","ended":"2026-11-07T06:20:07Z","by":"ana","run":3}`: control.RolloutInfoOf(ended),
	} {
		got, err := json.Marshal(v)
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
}

func TestMessageIsTheSameAfterItsJSON(t *testing.T) {
	e := event(45)
	for _, m := range []control.Message{
		{Kind: control.KindSay, Text: "x"},
		{Kind: control.KindEvent, Event: &e},
		{Kind: control.KindProgress, Rollout: 7},
		{Kind: control.KindValue, Value: json.RawMessage(`{"a":1}`)},
	} {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got control.Message
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
