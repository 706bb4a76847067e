package rollout

import (
	"context"

	"muru"
)

// WaitRollout waits until a rollout has ended and returns it. watch, which may
// be nil, sees its first state, each change, and a refresh every second; it
// runs on the caller's goroutine and holds nothing up but this call. A rollout
// that ended otherwise than promoted is an error of kind rolled_back, aborted
// or superseded that says how; when ctx ends first it is ctx's cause, and the
// rollout goes on.
func (e *Engine) WaitRollout(ctx context.Context, number int, watch func(muru.Rollout)) (muru.Rollout, error) {
	a, err := e.actorOfRollout(number)
	if err != nil {
		return muru.Rollout{}, err
	}
	for {
		v := a.view.Load()
		r := v.rollout(number)
		if r.Number != 0 && watch != nil {
			watch(r)
		}
		if r.Number != 0 && !r.Live() {
			return r, endErrorOrNil(r)
		}
		if r.Number == 0 && e.rolloutOf(number) == nil {
			_, err := e.actorOfRollout(number) // removed as old meanwhile
			return r, err
		}
		if err := a.waitFor(ctx, v.changed); err != nil {
			return r, err
		}
	}
}

// endError is the error of waiting for a rollout that has ended, nil if it
// was promoted.
func endError(r muru.Rollout) *muru.Error {
	kind := muru.KindRolledBack
	switch r.State {
	case muru.Promoted:
		return nil
	case muru.Aborted:
		kind = muru.KindAborted
	case muru.Superseded:
		kind = muru.KindSuperseded
	}
	err := muru.Errorf(kind, "%s", textEnded(r))
	err.Rollout = r.Number
	return err
}

func endErrorOrNil(r muru.Rollout) error {
	if err := endError(r); err != nil {
		return err
	}
	return nil
}
