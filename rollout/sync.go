package rollout

import "context"

// Sync returns when every app has done what it has to do by now: looked at
// what its judge was told before the call, and at every time that has passed
// on the engine's clock. It is for simulations, which set a virtual clock and
// play the edge themselves; functions and probes of gates are not waited for.
func (e *Engine) Sync(ctx context.Context) error {
	for _, a := range e.all() {
		err := a.do(ctx, func() error {
			woken := false
			select {
			case <-a.wake:
				woken = true
			default:
			}
			if a.live != nil && (woken || !a.lookAt.After(a.e.clock.Now())) {
				a.look()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
