package builtins

import (
	"context"
	"net/http"
	"sync"

	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

// Engine is what the builtins call: [*rollout.Engine].
type Engine interface {
	Clock() rollout.Clock

	App(context.Context, rollout.AppRequest) (muru.App, rollout.Report, error)
	Deploy(context.Context, rollout.DeployRequest) (muru.Release, rollout.Report, error)
	Split(context.Context, rollout.SplitRequest) (muru.App, rollout.Report, error)
	Promote(context.Context, rollout.ReleaseRequest) (muru.Release, rollout.Report, error)
	Rollback(context.Context, rollout.RollbackRequest) (muru.Release, rollout.Report, error)
	StopRelease(context.Context, rollout.ReleaseRequest) (muru.Release, rollout.Report, error)
	StopApp(ctx context.Context, by rollout.Caller, app string) (muru.App, rollout.Report, error)

	Canary(context.Context, rollout.CanaryRequest) (muru.Rollout, rollout.Report, error)
	Retry(context.Context, rollout.RetryRequest) (muru.Rollout, rollout.Report, error)
	WaitRollout(ctx context.Context, number int, watch func(muru.Rollout)) (muru.Rollout, error)
	Observe(ctx context.Context, r rollout.ObserveRequest, watch func(muru.Window)) (muru.Window, error)
	Pause(context.Context, rollout.RolloutRequest) (muru.Rollout, rollout.Report, error)
	Resume(context.Context, rollout.RolloutRequest) (muru.Rollout, rollout.Report, error)
	Abort(context.Context, rollout.RolloutRequest) (muru.Rollout, rollout.Report, error)

	Apps() []muru.App
	AppNamed(name string) (muru.App, error)
	Releases(app string) ([]muru.Release, error)
	Release(muru.ReleaseID) (muru.Release, error)
	Rollouts(app string) ([]muru.Rollout, error)
	Rollout(number int) (muru.Rollout, error)
	LiveOrLatest(app string) (muru.Rollout, error)
	Why(ctx context.Context, number int) (rollout.Why, error)
	FindEvents(context.Context, rollout.EventQuery) ([]muru.Event, error)
	Logs(context.Context, muru.ReleaseID, muru.LogQuery) ([]string, error)
	Stacks(ctx context.Context, id muru.ReleaseID, worker int) ([]muru.Stack, error)
	Workers(muru.ReleaseID) ([]muru.Worker, error)
	Probe(context.Context, rollout.ProbeRequest) (rollout.ProbeResponse, error)
}

// A Terminal is where a run shows itself. Its methods are safe for concurrent
// use and return quickly: they are called while rollouts wait.
type Terminal interface {
	// Say reports one or more lines, separated by \n, of what muru did. The
	// terminal puts "muru: " before the first.
	Say(lines string)
	// Progress shows where a rollout is that a call waits for, in the words of
	// [ProgressLine]; line is empty when it has ended.
	Progress(rollout int, line string)
	// Print shows what the recipe prints, without a final line end.
	Print(text string)
}

// An Env is what a set of builtins acts on. The fields up to EdgeToken are
// needed.
type Env struct {
	Engine    Engine
	Terminal  Terminal
	Dir       string // absolute: relative paths start here
	Run       int    // 0: none
	By        string // who events name: "run 7", or a user
	EdgeToken string // makes the edge say which release answered traffic()

	// EdgeAddress is where this edge listens: traffic() to an app connects
	// there, under the app's host. Empty: where App.url says.
	EdgeAddress string

	// Client is what http() sends with; nil: one with the usual settings.
	Client *http.Client

	// Secret reads a secret by its name, which is checked. Nil: there are
	// none. An error of kind not_found says where it was looked for.
	Secret func(name string) (string, error)

	// Listen makes the edge listen. Nil refuses listen(): only the site's
	// file declares listeners.
	Listen func(context.Context, Listener) error

	// Site is set for the site's file: deploying what serves already does
	// nothing, so that every start can run it.
	Site bool

	// OnCall is told of each call that is not pure when it begins: its name
	// and, shortened, what it is about. It may be called by several threads
	// at once and returns quickly. The func it returns is called when the
	// call ends. Nil: nobody wants to know.
	OnCall func(name, about string) (done func())

	// Recorder keeps what was done, for [Recorder.Source]. Nil: nothing is.
	Recorder *Recorder
}

// A Set is the builtins of one run (or session). It is safe for concurrent
// use by the threads of the run. Close it when the run has ended.
type Set struct {
	env         Env
	specs       []*Spec
	predeclared starlark.StringDict
	loads       loads

	mu    sync.Mutex // guards least
	least map[int]int
}

// needs remembers how many requests each step of a rollout needs that this
// set started, for those who wait for it.
func (s *Set) needs(rollout, least int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.least == nil {
		s.least = make(map[int]int)
	}
	s.least[rollout] = least
}

// leastOf returns what needs was told, 0 for a rollout that somebody else
// started.
func (s *Set) leastOf(rollout int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.least[rollout]
}

// New makes the builtins that act on env. It starts nothing.
func New(env Env) *Set {
	if env.Client == nil {
		env.Client = &http.Client{}
	}
	s := &Set{env: env, specs: Specs()}
	s.predeclared = starlark.StringDict{
		"json":   jsonModule,
		"math":   math.Module,
		"struct": starlark.NewBuiltin("struct", newStruct),
	}
	for _, spec := range s.specs {
		s.predeclared[spec.Name] = spec.builtin(s)
	}
	s.predeclared.Freeze()
	return s
}

// Predeclared returns the names a recipe sees. They are frozen.
func (s *Set) Predeclared() starlark.StringDict { return s.predeclared }

// Close ends what the run left running (traffic), dropping requests that are
// in flight, and waits for it. It may be called more than once. ctx bounds
// the wait.
func (s *Set) Close(ctx context.Context) error { return s.loads.close(ctx) }
