package builtins

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.uber.org/goleak"

	"muru"
	"muru/rollout"
	"muru/rollout/rollouttest"
	script "muru/starlark"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A stage is an engine over fakes of edge and host, and a set of builtins on
// it. shop serves r1 and holds r2; its files lie in dir.
type stage struct {
	t        *testing.T
	dir      string
	clock    rollout.Clock
	engine   *rollout.Engine
	edge     *rollouttest.Edge
	host     *rollouttest.Host
	terminal *terminal
	set      *Set
	runtime  *script.Runtime
}

// terminal records what it is shown.
type terminal struct {
	mu       sync.Mutex
	said     []string
	printed  []string
	progress []string
	shownAt  []int // how much was said when progress was shown
}

func (t *terminal) Say(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = append(t.said, line)
}

func (t *terminal) Print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.printed = append(t.printed, text)
}

func (t *terminal) Progress(_ int, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress, t.shownAt = append(t.progress, line), append(t.shownAt, len(t.said))
}

func (t *terminal) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.said...)
}

func (t *terminal) output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.printed, "\n")
}

// fastClock runs faster than the machine's.
type fastClock struct {
	began time.Time
	speed time.Duration
}

func newFastClock() fastClock { return fastClock{time.Now(), 500} }

func (c fastClock) Now() time.Time { return c.began.Add(time.Since(c.began) * c.speed) }

func (c fastClock) After(d time.Duration) (<-chan time.Time, func()) {
	return rollout.RealClock{}.After(d / c.speed)
}

// newStage makes a stage with shop@r1 serving and shop@r2 held.
func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageAt(t, newFastClock())
}

func newStageAt(t *testing.T, clock rollout.Clock) *stage {
	t.Helper()
	s := newEmptyStage(t, clock)
	for _, hold := range []bool{false, true} {
		plan := muru.ReleasePlan{
			Kind: muru.Python, Source: s.path("shop/v5"), Entry: "app:application", Workers: 2, Threads: 4,
			Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
		}
		req := rollout.DeployRequest{Caller: rollout.Caller{By: "ana"}, App: "shop", Plan: plan, Hold: hold}
		if _, _, err := s.engine.Deploy(t.Context(), req); err != nil {
			t.Fatalf("deploy: %v", err)
		}
	}
	return s
}

func newEmptyStage(t *testing.T, clock rollout.Clock) *stage {
	t.Helper()
	s := &stage{
		t: t, dir: t.TempDir(), clock: clock, terminal: new(terminal),
		edge: &rollouttest.Edge{Now: clock.Now}, host: new(rollouttest.Host),
	}
	for _, release := range []string{"v5", "v6"} {
		s.write("shop/"+release+"/app.py", "application = None\n")
	}
	s.write("notes.txt", "first line\nsecond line\n")
	s.engine = rollout.New(rollout.Options{Edge: s.edge, Host: s.host, Clock: clock})
	s.set = New(Env{Engine: s.engine, Terminal: s.terminal, Dir: s.dir, By: "ana", EdgeToken: "token"})
	s.runtime = script.New(script.Options{Predeclared: s.set.Predeclared(), Print: s.terminal.Print, Dir: s.dir})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.set.Close(ctx); err != nil {
			t.Errorf("close the set: %v", err)
		}
		if err := s.engine.Close(ctx); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return s
}

func (s *stage) path(path string) string { return filepath.Join(s.dir, path) }

func (s *stage) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(path)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(path), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a recipe and returns what its main returned.
func (s *stage) run(source string) (starlark.Value, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	file, err := s.runtime.Parse("test.star", []byte(source))
	if err != nil {
		return nil, err
	}
	return file.Run(ctx, nil)
}

// value runs the expression and returns what it is.
func (s *stage) value(expr string) starlark.Value {
	s.t.Helper()
	v, err := s.run("def main():\n    return " + expr + "\n")
	if err != nil {
		s.t.Fatalf("%s: %v", expr, err)
	}
	return v
}

// visitors send requests to shop until the test ends: the candidate answers
// with its status, the baseline with 200. The baseline comes first: any of the
// candidate's failures may be the one that decides.
func (s *stage) visitors(candidate int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			a, err := s.engine.AppNamed("shop")
			if err == nil && a.Baseline != 0 {
				s.edge.Send(muru.ReleaseID{App: "shop", Number: a.Baseline}, 10, 200, 20*time.Millisecond)
			}
			if err == nil && a.Candidate != 0 {
				s.edge.Send(muru.ReleaseID{App: "shop", Number: a.Candidate}, 10, candidate, 20*time.Millisecond)
			}
			_ = rollout.Sleep(ctx, s.clock, time.Second)
		}
	}()
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func eventQuery(kind string) rollout.EventQuery { return rollout.EventQuery{Kind: kind} }
