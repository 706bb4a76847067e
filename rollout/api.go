package rollout

import (
	"context"
	"errors"
	"time"

	"muru"
)

var errStub = errors.New("not here yet")

func (e *Engine) App(ctx context.Context, q AppRequest) (muru.App, Report, error) {
	return muru.App{}, "", errStub
}
func (e *Engine) Deploy(ctx context.Context, q DeployRequest) (muru.Release, Report, error) {
	return muru.Release{}, "", errStub
}
func (e *Engine) Split(ctx context.Context, q SplitRequest) (muru.App, Report, error) {
	return muru.App{}, "", errStub
}
func (e *Engine) Promote(ctx context.Context, q ReleaseRequest) (muru.Release, Report, error) {
	return muru.Release{}, "", errStub
}
func (e *Engine) Rollback(ctx context.Context, q RollbackRequest) (muru.Release, Report, error) {
	return muru.Release{}, "", errStub
}
func (e *Engine) StopRelease(ctx context.Context, q ReleaseRequest) (muru.Release, Report, error) {
	return muru.Release{}, "", errStub
}
func (e *Engine) StopApp(ctx context.Context, by Caller, app string) (muru.App, Report, error) {
	return muru.App{}, "", errStub
}
func (e *Engine) Canary(ctx context.Context, q CanaryRequest) (muru.Rollout, Report, error) {
	return muru.Rollout{}, "", errStub
}
func (e *Engine) WaitRollout(ctx context.Context, number int, watch func(muru.Rollout)) (muru.Rollout, error) {
	return muru.Rollout{}, errStub
}
func (e *Engine) Observe(ctx context.Context, q ObserveRequest, watch func(muru.Window)) (muru.Window, error) {
	return muru.Window{}, errStub
}
func (e *Engine) Pause(ctx context.Context, q RolloutRequest) (muru.Rollout, Report, error) {
	return muru.Rollout{}, "", errStub
}
func (e *Engine) Resume(ctx context.Context, q RolloutRequest) (muru.Rollout, Report, error) {
	return muru.Rollout{}, "", errStub
}
func (e *Engine) Abort(ctx context.Context, q RolloutRequest) (muru.Rollout, Report, error) {
	return muru.Rollout{}, "", errStub
}
func (e *Engine) Apps() []muru.App                                 { return nil }
func (e *Engine) AppNamed(name string) (muru.App, error)           { return muru.App{}, errStub }
func (e *Engine) Releases(app string) ([]muru.Release, error)      { return nil, errStub }
func (e *Engine) Release(id muru.ReleaseID) (muru.Release, error)  { return muru.Release{}, errStub }
func (e *Engine) Rollouts(app string) ([]muru.Rollout, error)      { return nil, errStub }
func (e *Engine) Rollout(number int) (muru.Rollout, error)         { return muru.Rollout{}, errStub }
func (e *Engine) LiveOrLatest(app string) (muru.Rollout, error)    { return muru.Rollout{}, errStub }
func (e *Engine) Events(q EventQuery) []muru.Event                 { return nil }
func (e *Engine) Workers(id muru.ReleaseID) ([]muru.Worker, error) { return nil, errStub }
func (e *Engine) Logs(ctx context.Context, id muru.ReleaseID, q muru.LogQuery) ([]string, error) {
	return nil, errStub
}
func (e *Engine) Stacks(ctx context.Context, id muru.ReleaseID, worker int) ([]muru.Stack, error) {
	return nil, errStub
}

// ProbeRequest is one request to a release, past the split and never counted.
type ProbeRequest struct {
	Release muru.ReleaseID
	Method  string // empty: GET
	Path    string
	Header  []muru.Field
	Body    []byte
	Within  time.Duration // 0: 5s
}

// ProbeResponse is the answer to a [ProbeRequest]. A release that does not
// answer in time gives 504; muru's own failures have their reason's status and
// the page's text.
type ProbeResponse struct {
	Status    int
	Header    []muru.Field
	Body      []byte
	Took      time.Duration
	RequestID string
}

func (e *Engine) Probe(ctx context.Context, q ProbeRequest) (ProbeResponse, error) {
	return ProbeResponse{}, errStub
}

// BeginRun numbers a run and says that it has started.
func (e *Engine) BeginRun(file, args, by string) int { return 0 }

// EndRun releases what a run owns.
func (e *Engine) EndRun(ctx context.Context, run int, how RunEnd, err error) error { return nil }
