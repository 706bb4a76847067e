package rollout

import (
	"testing"
	"time"

	"muru"
)

// TestTexts compares every text with the line of the documentation it is to
// be, filled in.
func TestTexts(t *testing.T) {
	r6, r5 := muru.ReleaseID{App: "shop", Number: 6}, muru.ReleaseID{App: "shop", Number: 5}
	none := muru.ReleaseID{}
	pct, dur, num := muru.PercentOf, muru.TimeOf, muru.CountOf
	step := muru.Step{Number: 2, Of: 2, Share: 5000, Hold: 20 * time.Second}
	r := muru.Rollout{Number: 2, Candidate: r6, Baseline: r5, State: muru.Running, Step: &step, Share: 1000,
		Steps: []muru.Step{{Number: 1, Of: 2, Share: 1000, Hold: 30 * time.Second}, {Number: 2, Of: 2, Share: 5000, Hold: 30 * time.Second}}}
	over := r
	over.State, over.Message = muru.RolledBack, "candidate not ready after 30 s"
	split, err := muru.NewSplit("", r5, muru.SplitArm{Release: r6, Share: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ got, want string }{
		{step.String(), "step 2 of 2: 50% for 20s"},
		{textRate("5xx", pct(21.951), pct(1), pct(0)), "5xx rate 21.95% over the limit of 1.00% (baseline 0.00%)"},
		{textRate("5xx", pct(0.001), pct(0), muru.Measure{}), "5xx rate <0.01% over the limit of 0.00% (baseline -)"},
		{textCrashes(num(2), num(0), num(0)), "2 worker crashes and timeout kills, over the limit of 0 (baseline 0)"},
		{textTime("p95", dur(312*time.Millisecond), dur(250*time.Millisecond), dur(400*time.Microsecond)), "p95 312 ms over the limit of 250 ms (baseline 0.4 ms)"},
		{textTime("queue_wait", dur(3800*time.Millisecond), dur(3*time.Second), dur(time.Millisecond)), "queue wait p95 3.8 s over the limit of 3 s (baseline 1 ms)"},
		{textProbe("/healthz", 2, "500 Internal Server Error", "200 OK"), "probe /healthz failed 2 times in a row: 500 Internal Server Error (baseline 200 OK)"},
		{textNoAnswer(5 * time.Second), "no answer in 5 s"},
		{textNoMatch, "body does not match"},
		{textCheck("orders", "fewer orders"), "orders: fewer orders"},
		{textCheck("orders", ""), "orders: returned False"},
		{string(reportHeld(r6)), "release shop@r6 is ready and held: not serving"},
		{string(reportServing(r6, r5)), "release shop@r6 is ready and serving: 100% of shop; r5 is kept warm"},
		{string(reportServing(r6, none)), "release shop@r6 is ready and serving: 100% of shop"},
		{textFailedToStart(r6, "exit status 1", r5), "release shop@r6 failed to start: exit status 1; r5 keeps serving"},
		{textFailedToStart(r6, "exit status 1", none), "release shop@r6 failed to start: exit status 1; nothing serves shop"},
		{string(reportStarted(r)), "rollout 2 of shop@r6 started against r5: step 2 of 2: 50% for 20s"},
		{textLive("shop", r), "shop has rollout 2 live (r6 at 10%): refused"},
		{hintLive("shop"), "muru rollout abort shop"},
		{hintConflict("shop"), "muru rollout abort shop, or --on-conflict supersede"},
		{string(reportState(r)), "rollout 2 running: step 2 of 2: 50% for 20s"},
		{string(reportState(over)), "rollout 2 rolled_back: candidate not ready after 30 s"},
		{messagePassed, "every step passed its gates"},
		{messagePromotedBy("ana", 1000, 1, 2, ""), "by ana at 10% in step 1 of 2"},
		{messagePromotedBy("ana", 1000, 1, 2, "hurry"), "by ana at 10% in step 1 of 2: hurry"},
		{messageGateFailed(1000, "x"), "gate failed at 10%: x"},
		{messageNoData(1000, missingVerdict(muru.Verdict{Gate: "carts", Result: muru.GateError, Message: "a.star:9:5: division by zero"}, time.Minute)),
			"no data at 10%: gate carts cannot judge after 1 min: a.star:9:5: division by zero"},
		{messageNoData(50, missingRequests(3, 100, 640*time.Second)), "no data at 0.5%: 3 of 100 requests after 10 min 40 s"},
		{messageNotReady(640 * time.Second), "candidate not ready after 10 min 40 s"},
		{messageBy("run 7", 1000, ""), "by run 7 at 10%"},
		{messageBy("ana", 1000, "r8 itself is bad"), "by ana at 10%: r8 itself is bad"},
		{messageAwaits(step.String(), "shop"), "step 2 of 2: 50% for 20s awaits approval: muru rollout resume shop"},
		{messageAwaits(promotion, "shop"), "promotion awaits approval: muru rollout resume shop"},
		{messageNoDataAwaits(messageNoData(1000, missingRequests(3, 100, time.Minute)), "shop"), "no data at 10%: 3 of 100 requests after 1 min: muru rollout resume shop"},
		{textEnded(over), "rollout 2 of shop@r6 rolled_back: candidate not ready after 30 s"},
		{textObserveFailed(r6, "x"), "gate failed on shop@r6: x"},
		{textObserveNoData(r6, 3, 100, time.Minute), "no data on shop@r6: 3 of 100 requests after 1 min"},
		{string(reportRolledBack(r6, r5)), "shop rolled back from r6 to r5: r5 serves 100%, r6 is kept for inspection"},
		{textRolledBackAlready("shop", 7, 12*time.Second, "ana"), "shop was rolled back to r7 12 s ago by ana: name the release with to="},
		{string(reportSplit("shop", split)), "shop split: r5 90%, r6 10%"},
		{string(reportPromoted(r6, r5)), "shop@r6 serves 100% of shop, r5 is kept warm"},
		{string(reportStopped("shop@r6")), "shop@r6 stopped"},

		{eventAppCreated(muru.Route{}), "*/"},
		{eventAppCreated(muru.Route{Hosts: []string{"a.example", "b.example"}, Path: "/shop"}), "a.example,b.example/shop"},
		{eventAppChanged("path", "/", "/shop", "ana"), "path: / to /shop by ana"},
		{eventAppStopped("ana", 3), "by ana: 3 releases"},
		{eventAppRolledBack(r6, r5, "ana", ""), "from r6 to r5 by ana"},
		{eventAppRolledBack(r6, r5, "ana", "slow"), "from r6 to r5 by ana: slow"},
		{eventSplitChanged(split, "ana"), "r5 90%, r6 10% by ana"},
		{eventStarting(muru.ReleasePlan{Source: "/srv/v6", Workers: 2, Threads: 4}), "python from /srv/v6: 2 workers x 4 threads"},
		{eventStarting(muru.ReleasePlan{Kind: muru.External, Upstream: "10.0.0.5:9000"}), "external from 10.0.0.5:9000: 0 workers x 0 threads"},
		{eventHeld, "ready and held: not serving"},
		{eventFailedToStart("exit status 1"), "failed to start: exit status 1"},
		{eventDraining(3, 2, 1), "3 requests, 2 streams, 1 websockets open"},
		{eventWarm(30*time.Second, muru.Drained{Requests: 3}), "drained in 30 s, cut 3 requests, 0 streams, 0 websockets"},
		{eventStopped("ana"), "by ana"},
		{eventPromoted(r6, r5, "ana", ""), "100% of shop by ana, r5 is kept warm"},
		{eventPromoted(r6, none, "ana", ""), "100% of shop by ana"},
		{eventPromoted(r6, r5, "ana", "hurry"), "100% of shop by ana, r5 is kept warm: hurry"},
		{eventRolloutStarted(r, 0), "rollout 2 against r5: 10% for 30s, 50% for 30s"},
		{eventRolloutStarted(r, 2), "rollout 2 against r5: 10% for 30s, 50% for 30s; at most 2% false alarms"},
		{textEvidence(muru.Verdict{Evidence: 144.3, Needed: 1 / 0.01, Clients: 3, Count: 3, Requests: 14, BaselineCount: 0, BaselineRequests: 120}),
			", evidence 144 of 100 from 3 clients (baseline 0) in 3 of 14 requests (baseline 0 of 120)"},
		{textEvidence(muru.Verdict{Evidence: 1e15, Needed: 100}), ", evidence 1000000 of 100 from 0 clients (baseline 0) in 0 of 0 requests (baseline 0 of 0)"},
		{textEvidence(muru.Verdict{}), ""},
		{eventSlow(2, 500, 16*time.Hour+40*time.Minute, 100), "at 2.0 requests/min a 5% step needs about 16 h for 100 requests: use probes, a higher step or traffic()"},
		{eventSlow(12.4, 500, 8*time.Minute, 100), "at 12 requests/min a 5% step needs about 8 min for 100 requests: use probes, a higher step or traffic()"},
		{eventAtStep(1, 1000, "x"), "step 1 at 10%: x"},
		{eventBothBad("5xx rate", pct(6.1), pct(5.92), pct(1)), "5xx rate 6.10% and baseline 5.92% are both over the limit of 1.00%: not the candidate's fault, not rolled back"},
		{eventNoData(missingRequests(3, 100, time.Minute), muru.NoDataApprove), "3 of 100 requests after 1 min: asking for approval"},
		{eventNoData(missingRequests(3, 100, time.Minute), muru.NoDataRollback), "3 of 100 requests after 1 min: rolling back"},
		{eventGateError("carts", "canary.star:9:5: division by zero"), "carts: canary.star:9:5: division by zero; asked again every second"},
		{eventRolledBack(1, "x"), "rollout 1: x; the candidate is kept for inspection"},
		{eventApproved(2, step.String(), "ana", muru.Pass), "rollout 2: step 2 of 2: 50% for 20s by ana; gates asked again: pass"},
		{eventApproved(2, promotion, "ana", muru.Pass), "rollout 2: promotion by ana; gates asked again: pass"},
		{eventPaused(2, "ana", 1000, ""), "rollout 2 by ana at 10%"},
		{eventPaused(2, "ana", 1000, "lunch"), "rollout 2 by ana at 10%: lunch"},
		{eventRunStarted("canary.star", "shop v6", "ana"), "canary.star shop v6 by ana"},
		{eventRunFinished(62 * time.Second), "in 1 min 2 s"},
		{eventRunEnded("canary.star:9:5: no\nmore", []string{releasedRollout(7), releasedSplit("shop")}), "canary.star:9:5: no; aborted rollout 7, shop split put back"},
	} {
		if tt.got != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
	}
}
