package daemon

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"syscall"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/visitortest"
	"muru/rollout"
)

var r1, r2 = muru.ReleaseID{App: "shop", Number: 1}, muru.ReleaseID{App: "shop", Number: 2}

// candidate starts a rollout of shop@r2 with one long step of half the
// traffic; change may alter it.
func (s *stage) candidate(change func(*rollout.CanaryRequest)) muru.Rollout {
	s.t.Helper()
	req := rollout.NewCanary(r2)
	req.By = "ana"
	req.Steps = []muru.Step{{Share: 5000, Hold: time.Hour}}
	if change != nil {
		change(&req)
	}
	r, _, err := s.engine.Canary(s.t.Context(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// crashesAlone leaves no other gate the data to fail first.
func crashesAlone(req *rollout.CanaryRequest) { req.MinRequests = 1_000_000 }

// ends waits until a rollout has ended in a state with a message.
func (s *stage) ends(r muru.Rollout, state muru.RolloutState, message string) {
	s.t.Helper()
	ended := visitortest.Within(10*time.Second, func() bool {
		var err error
		if r, err = s.engine.Rollout(r.Number); err != nil {
			s.t.Fatal(err)
		}
		return !r.Live()
	})
	if !ended || r.State != state || !regexp.MustCompile(`^`+message+`$`).MatchString(r.Message) {
		s.t.Errorf("%s is %s: %s; want %s: %s", r, r.State, r.Message, state, message)
	}
}

func TestNoUserSeesTheWorkerOfACandidateKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, hold = True)`)
	r := s.candidate(crashesAlone)
	v := s.come(16, "/slow", 0, 10*time.Second)
	if !visitortest.Within(10*time.Second, func() bool { return v.Seen("200 hello from shop@r2\n") > 20 }) {
		t.Fatal("the candidate gets no traffic")
	}
	for _, pid := range s.pids("shop@r2") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	s.ends(r, muru.RolledBack, `gate failed at 50%: \d worker crashes and timeout kills, over the limit of 0 \(baseline 0\)`)
	v.WantOnlyGreetings(t)
	if c := s.edge.Counts(r2); c.ServerErrors == 0 {
		t.Errorf("nothing is counted against the candidate: %+v", c)
	}
	if c := s.edge.Counts(r1); c.ServerErrors != 0 {
		t.Errorf("the baseline is blamed: %+v", c)
	}
}

// Behind requests that hang there is a queue. Whoever stands in it when the
// candidate is found out is answered by the baseline, and does not hang in its
// next worker.
func TestWhoWaitsForAStuckCandidateIsAnsweredByTheBaseline(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, hold = True, env = {"STUCK": "yes"}, workers = 1, threads = 2, timeouts = {"hard": "1s", "queue": "30s"})`)
	r := s.candidate(crashesAlone)
	v := s.come(24, "/", 0, 30*time.Second)
	s.ends(r, muru.RolledBack, `gate failed at 50%: \d worker crashes and timeout kills, over the limit of 0 \(baseline 0\)`)
	v.Leave()
	// Those on the two threads have failed or were cut; nobody after them.
	if c := s.edge.Counts(r2); c.ServerErrors == 0 || c.ServerErrors > 2 {
		t.Errorf("%d visitors were failed", c.ServerErrors)
	}
	for _, pid := range s.pids("shop@r2") { // or the shutdown would wait for it
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Nobody waits for an answer, none ever comes, and there is no hard timeout.
func TestCandidateThatNeverAnswersIsRolledBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, hold = True, env = {"STUCK": "yes"}, workers = 1)`)
	r := s.candidate(func(req *rollout.CanaryRequest) {
		req.MinRequests = 10
		req.Gates = []muru.Gate{{Name: muru.GateP99, Max: muru.TimeOf(time.Second), Ratio: 1}}
	})
	v := s.come(4, "/", 10*time.Millisecond, 100*time.Millisecond)
	s.ends(r, muru.RolledBack, `gate failed at 50%: p99 1(\.\d)? s over the limit of 1 s \(baseline .*\)`)
	v.Leave()
	if n := v.Seen("200 hello from shop@r2\n"); n > 0 {
		t.Errorf("the candidate has answered %d times", n)
	}
	s.serves("shop@r1")
	for _, pid := range s.pids("shop@r2") { // or the shutdown would wait for it
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestHardTimeoutEndsOneRequestAndItsProcess(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, workers = 1, threads = 8, timeouts = {"hard": "700ms", "drain": "1s"})`)
	pid := s.pids("shop@r2")[0]
	others := s.come(7, "/slow?0.2", 0, 10*time.Second)
	began := time.Now()
	a := s.get("/never")
	if took := time.Since(began); a.Code != 504 || took > 1500*time.Millisecond ||
		!regexp.MustCompile(`^504 Gateway Timeout\nreason: hard_timeout\nrequest id: \w{26}\nThe request ran past its time limit.\n$`).MatchString(a.Body) {
		t.Errorf("answered after %v: %+v", took, a)
	}
	s.waitEvent("worker.timeout_killed", `^shop@r2 worker 0 \(pid \d+\) replaced by pid \d+: a request has run for ([7-9]\d\d ms|1(\.\d+)? s), past the hard timeout of 700 ms; at app\.py line \d+ in never, called from app\.py line \d+ in application`)
	if !visitortest.Within(3*time.Second, func() bool { return syscall.Kill(pid, 0) != nil }) {
		t.Error("its process lives on")
	}
	others.WantOnlyGreetings(t)
}

func TestRegularsNeverFlipWhileTheShareGrows(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, hold = True)`)
	r := s.candidate(func(req *rollout.CanaryRequest) {
		req.Steps = []muru.Step{{Share: 1000, Hold: time.Millisecond}, {Share: 5000, Hold: time.Millisecond}}
		req.MinRequests, req.Approve = 1, muru.ApproveAll
	})
	s.come(2, "/", time.Millisecond, 10*time.Second) // so that the steps end
	all := s.regulars(20)
	pages := []string{"/", "/orders/1", "/static/app.css", "/api/cart?x=1", "/"}
	visits := func() []string {
		releases := make([]string, len(all))
		for i, someone := range all {
			releases[i] = someone.release(pages[0])
			for _, page := range pages[1:] {
				if release := someone.release(page); release != releases[i] {
					t.Errorf("regular %d flips from %s to %s", i, releases[i], release)
				}
			}
		}
		return releases
	}
	awaits := func(message string) {
		t.Helper()
		if !visitortest.Within(10*time.Second, func() bool { r, _ = s.engine.Rollout(r.Number); return r.State == muru.AwaitingApproval }) {
			t.Fatalf("%s is %s", r, r.State)
		}
		if r.Message != message {
			t.Errorf("it waits with %q", r.Message)
		}
	}
	at10 := visits()
	awaits("step 2 of 2: 50% for 1ms awaits approval: muru rollout resume shop")
	if _, _, err := s.engine.Resume(t.Context(), rollout.RolloutRequest{Rollout: r.Number, Step: 2}); err != nil {
		t.Fatal(err)
	}
	at50 := visits()
	awaits("promotion awaits approval: muru rollout resume shop")
	moved := 0
	for i := range all {
		if at10[i] == "shop@r2" && at50[i] != "shop@r2" {
			t.Errorf("regular %d is moved back", i)
		}
		if at10[i] != at50[i] {
			moved++
		}
	}
	if moved == 0 {
		t.Error("nobody was moved: the share did not grow")
	}
}

func TestStickyVisitorsKeepTheirReleaseForTheGraceAfterAPromotion(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`app("shop", sticky = "2s")
deploy("shop", SHOP, hold = True)
split("shop", {"r2": 50})`)
	all := s.regulars(12)
	first := make([]string, len(all))
	stay := 0
	for i, someone := range all {
		if first[i] = someone.release("/"); first[i] == "shop@r1" {
			stay++
		}
	}
	if stay == 0 {
		t.Fatal("nobody was given r1")
	}
	promoted := time.Now()
	s.must(`promote("shop@r2")`)
	for i, someone := range all {
		if release := someone.release("/"); release != first[i] {
			t.Errorf("regular %d is moved from %s to %s in the grace", i, first[i], release)
		}
	}
	s.serves("shop@r2")
	if warm := s.events("release.warm"); len(warm) > 0 {
		t.Errorf("drained in the grace: %q", warm)
	}
	for i, someone := range all {
		if !visitortest.Within(5*time.Second, func() bool { return someone.release("/") == "shop@r2" }) {
			t.Errorf("regular %d stays for ever", i)
		}
	}
	if grace := time.Since(promoted); grace < 2*time.Second {
		t.Errorf("the grace was %v", grace)
	}
	s.waitEvent("release.warm", `^shop@r1 drained in .*, cut 0 requests, 0 streams, 0 websockets$`)
}

// Whoever was the candidate's, cookies and all, is the baseline's with the
// next request; nobody sees a failure, and the baseline had all its workers
// all the time.
func TestAbortUnderLoadFailsNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`app("shop", sticky = "1m")
deploy("shop", SHOP, hold = True)`)
	pids := s.pids("shop@r1")
	r := s.candidate(nil)
	v := s.come(16, "/slow?0.01", 0, 10*time.Second)
	all := s.regulars(20)
	of2 := 0
	for _, someone := range all {
		if someone.release("/") == "shop@r2" {
			of2++
		}
	}
	if of2 == 0 || !visitortest.Within(10*time.Second, func() bool { return v.Seen("200 hello from shop@r2\n") > 50 }) {
		t.Fatal("the candidate gets no traffic")
	}
	if _, _, err := s.engine.Abort(t.Context(), rollout.RolloutRequest{Rollout: r.Number, Caller: rollout.Caller{By: "ana"}, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	for _, someone := range all {
		if release := someone.release("/"); release != "shop@r1" {
			t.Errorf("after the abort %s answers", release)
		}
	}
	s.ends(r, muru.Aborted, `by ana at 50%: enough`)
	v.WantOnlyGreetings(t)
	if now := s.pids("shop@r1"); len(now) != 2 || now[0] != pids[0] || now[1] != pids[1] {
		t.Errorf("the baseline's workers were %v and are %v", pids, now)
	}
	if a := s.get("/", "Muru-Preview: r2"); a.Body != "hello from shop@r2\n" {
		t.Errorf("the candidate is not kept for inspection: %+v", a)
	}
}

func TestRollbackIsAtOnceAndWithoutAFailure(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP)`)
	s.serves("shop@r2")
	v := s.come(8, "/slow?0.01", 0, 10*time.Second)
	best := time.Hour // of several: the machine may be busy
	for range 5 {
		began := time.Now()
		if _, _, err := s.engine.Rollback(t.Context(), rollout.RollbackRequest{App: "shop"}); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
		s.serves("shop@r1")
		if best < 100*time.Millisecond {
			break
		}
		s.must(`promote("shop@r2")`)
	}
	if best > 100*time.Millisecond {
		t.Errorf("to a warm release it takes %v at best", best)
	}
	// To a cold one: it is started, and gets traffic when it is ready.
	if !visitortest.Within(5*time.Second, func() bool { _, err := s.run(`stop("shop@r2")`); return err == nil }) {
		t.Fatal("r2 does not stop")
	}
	s.must(`rollback("shop", to = "shop@r2")`)
	s.serves("shop@r2")
	before := v.Seen("200 hello from shop@r2\n")
	if !visitortest.Within(5*time.Second, func() bool { return v.Seen("200 hello from shop@r2\n") > before+20 }) {
		t.Error("r2 gets no traffic")
	}
	v.WantOnlyGreetings(t)
}

func TestDeploysUnderLoadFailNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, timeouts = {"stream": "500ms"})`)
	endless, err := http.Get(s.url + "/stream?3600")
	if err != nil {
		t.Fatal(err)
	}
	defer endless.Body.Close()
	v := s.come(20, "/slow?0.005", 100*time.Millisecond, 10*time.Second) // 200 requests a second
	began := time.Now()
	for range 5 {
		s.must(`deploy("shop", SHOP)`)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the deploys took %v", took)
	}
	s.serves("shop@r7")
	v.WantOnlyGreetings(t)
	if _, err := io.Copy(io.Discard, endless.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the endless stream ends with %v", err)
	}
	s.waitEvent("release.warm", `^shop@r2 drained in .*, cut 0 requests, 1 streams, 0 websockets$`)
}

// A regular is a visitor with cookies.
type regular struct {
	s      *stage
	client *http.Client
}

func (s *stage) regulars(n int) []regular {
	s.t.Helper()
	all := make([]regular, n)
	for i := range all {
		jar, err := cookiejar.New(nil)
		if err != nil {
			s.t.Fatal(err)
		}
		all[i] = regular{s, &http.Client{Jar: jar}}
	}
	return all
}

// release is which release answers a page.
func (r regular) release(path string) string {
	r.s.t.Helper()
	a := visitortest.Visit(r.s.t.Context(), r.client, r.s.url+path)
	var release string
	if _, err := fmt.Sscanf(a.Body, "hello from %s", &release); err != nil || a.Err != nil || a.Code != 200 {
		r.s.t.Errorf("answered %+v", a)
	}
	return release
}
