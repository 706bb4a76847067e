package host

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"muru"
)

// A worker that was killed while it was idle has nobody's request, so nobody's
// request may fail: each of its threads is found dead, whatever their number.
func TestRequestThatMeetsADeadIdleWorkerIsAnswered(t *testing.T) {
	h, events := newHost(t, Options{})
	b := start(t, h, python(t, func(r *muru.Release) { r.Workers, r.Threads = 2, 8 }))
	r := b.(*release)
	r.mu.Lock()
	hot := r.idle[len(r.idle)-1].w
	r.mu.Unlock()
	busy := make(chan struct{}) // its supervisor is, so it does not see the end
	hot.order(func() { <-busy })
	if err := syscall.Kill(hot.proc.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return startTime(hot.proc.pid) == "" })
	for range 3 {
		wantOK(t, do(t.Context(), b, "/orders/1"))
	}
	close(busy)
	events.wait(t, muru.WorkerCrashed, "")
}

// The edge gives a request to another release when this one has begun to
// leave; its body must still be there.
func TestBodyOfARequestThatCameTooLateIsStillThere(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	a := &answer{}
	x := get("/orders/1", a)
	x.Method, x.Length = "POST", 4
	leaving := make(chan struct{})
	x.Body = io.MultiReader(strings.NewReader("po"), readerFunc(func() { <-leaving }), strings.NewReader("st"))
	out := make(chan muru.Outcome)
	go func() { out <- b.Do(t.Context(), x) }()
	b.(*release).close()
	close(leaving)
	if got := <-out; got.Err != muru.ErrDraining {
		t.Fatalf("%+v, want ErrDraining", got)
	}
	if body, err := io.ReadAll(x.Body); string(body) != "post" || err != nil {
		t.Errorf("left of the body: %q, %v", body, err)
	}
}

type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) { f(); return 0, io.EOF }

func TestReleaseThatFailsToStartWhileTheHostClosesEndsOnce(t *testing.T) {
	h, _ := newHost(t, Options{})
	failed := make(chan error)
	go func() {
		_, err := h.Start(t.Context(), python(t, func(r *muru.Release) { r.Entry = "app:nothing" }))
		failed <- err
	}()
	eventually(t, "the start", func() bool { return len(h.Workers(shop)) == 1 })
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("it started")
	}
}

// cutWhen is an answer whose request is cut when its body is passed on.
type cutWhen struct {
	answer
	cut func()
}

func (a *cutWhen) Write(p []byte) (int, error) {
	a.cut()
	return a.answer.Write(p)
}

func TestAnswerThatWasPassedOnIsNoTimeout(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, nil))
	r := b.(*release)
	a := &cutWhen{}
	a.cut = func() { // as a drain does at its deadline
		r.mu.Lock()
		defer r.mu.Unlock()
		for q := range r.inside {
			r.cutLocked(q, muru.ErrDrainCut)
		}
	}
	x := get("/orders/1", &a.answer)
	x.Answer = a
	if out := b.Do(t.Context(), x); out.Err != nil || !out.Answered || a.status != 200 {
		t.Errorf("%+v after an answer of %d that was passed on whole", out, a.status)
	}
}

func TestReadyPathThatStreamsIsReadyAtItsHead(t *testing.T) {
	h, _ := newHost(t, Options{})
	wantOK(t, do(t.Context(), start(t, h, command(t, httpServer, func(r *muru.Release) { r.Ready = "/stream" })), "/hello"))
}
