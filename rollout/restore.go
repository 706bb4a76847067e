package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"muru"
	"muru/store"
)

// startsAtOnce bounds how many releases start at the same time after a
// restart: starting is work, and what serves is to be there first.
const startsAtOnce = 2

// Restore brings back what the store has: apps and routes, releases, rollouts
// and all numbers. It is called once, before any other call, and returns when
// the releases that serve are ready or have failed, so that the listener can
// open then; those that are held or kept warm start behind them in the
// background. An engine in memory has nothing to restore.
//
// What was under way is settled: a release that was starting has failed, one
// that was draining is warm, one that does not start again has failed and
// takes no more traffic. A live rollout goes on in its step with what was
// served of the hold; its window begins anew, and its candidate gets its share
// when it is ready. A gate whose function is gone says no_data.
//
// The error is of a store that cannot be read, of a record that cannot be, or
// ctx's cause; the engine must be closed then.
func (e *Engine) Restore(ctx context.Context) error {
	if e.log.disk == nil {
		return nil
	}
	k := &keeper{e: e, store: e.log.disk.store, apps: map[string]*actor{}}
	if err := k.read(ctx); err != nil {
		return err
	}
	var first, then []restart
	for _, name := range slices.Sorted(maps.Keys(k.apps)) {
		serving, others, err := k.apps[name].mend()
		if err != nil {
			return unreadable(appKey(name), err)
		}
		first, then = append(first, serving...), append(then, others...)
	}
	e.mu.Lock()
	for name, a := range k.apps {
		e.apps[name], e.routes[name] = a, a.route
		e.tasks.Go(a.run)
	}
	e.mu.Unlock()
	return e.startAgain(ctx, first, then)
}

// A keeper reads the store's records and puts actors together from them.
type keeper struct {
	e     *Engine
	store store.Store
	apps  map[string]*actor
}

// read reads everything. Nothing runs yet, so the actors are anybody's.
func (k *keeper) read(ctx context.Context) error {
	kv, _, err := k.store.Get(ctx, keyRunCounter)
	if err == nil {
		k.e.runCounter.mod = kv.Mod
		k.e.runCounter.last, err = decodeCounter(kv.Value)
	} else if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return unreadable(keyRunCounter, err)
	}
	for _, part := range []struct {
		prefix string
		take   func(kv store.KV) error
	}{
		{keyApps, k.takeApp}, {keyReleases, k.takeRelease}, {keyRollouts, k.takeRollout},
	} {
		if err := k.each(ctx, part.prefix, part.take); err != nil {
			return err
		}
	}
	return nil
}

// each hands every record of a prefix to take, in the order of the keys.
func (k *keeper) each(ctx context.Context, prefix string, take func(store.KV) error) error {
	from, to := store.Prefix(prefix)
	for {
		page, err := k.store.Range(ctx, from, to, store.RangeOpt{Limit: pageSize})
		if err != nil {
			return fmt.Errorf("read the state: %w", err)
		}
		for _, kv := range page.KVs {
			if err := take(kv); err != nil {
				return unreadable(kv.Key, err)
			}
		}
		if !page.More {
			return nil
		}
		_, from = store.Only(page.KVs[len(page.KVs)-1].Key)
	}
}

// unreadable is the error of a record that is not what muru writes.
func unreadable(key string, cause error) error {
	err := muru.Errorf(muru.KindFailed, "the state's record %s cannot be read: %w", key, cause)
	return err.WithHint("restore the state file from a backup; it was left as it is")
}

func (k *keeper) takeApp(kv store.KV) error {
	name := strings.TrimPrefix(kv.Key, keyApps)
	a, err := decodeApp(k.e, name, kv.Value)
	if err != nil {
		return err
	}
	a.dirty.mods[kv.Key] = kv.Mod
	k.apps[name] = a
	return nil
}

func (k *keeper) takeRelease(kv store.KV) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(kv.Key, keyReleases), "/")
	n, err := keyNumber(kv.Key, 8)
	if err != nil {
		return err
	}
	a := k.apps[name]
	if a == nil || n > a.last {
		return fmt.Errorf("there is no app that it could be of")
	}
	r, err := decodeRelease(muru.ReleaseID{App: name, Number: n}, kv.Value)
	if err != nil {
		return err
	}
	a.dirty.mods[kv.Key] = kv.Mod
	a.releases = append(a.releases, r)
	remember(k.e, r.caller, r)
	return nil
}

func (k *keeper) takeRollout(kv store.KV) error {
	n, err := keyNumber(kv.Key, 8)
	if err != nil {
		return err
	}
	l, err := decodeRollout(n, kv.Value)
	if err != nil {
		return err
	}
	a := k.apps[l.Candidate.App]
	switch {
	case a == nil:
		return fmt.Errorf("there is no app %q", l.Candidate.App)
	case l.State == muru.Queued:
		a.queue = append(a.queue, l)
	case l.Live() && a.live != nil:
		return fmt.Errorf("%s has rollout %d live as well", a.name, a.live.Number)
	case l.Live():
		a.live = l
	default:
		a.ended = append(a.ended, l.Rollout)
		a.past[n] = l
	}
	a.dirty.mods[kv.Key] = kv.Mod
	k.e.rollouts[n], k.e.last = a, n // the keys are in order
	remember(k.e, l.caller, n)
	return nil
}

// A restart is a release whose workers are to be started again.
type restart struct {
	a *actor
	r *release
}

// startAgain starts releases, a few at the same time, and returns when the
// first ones are ready or have failed.
func (e *Engine) startAgain(ctx context.Context, first, then []restart) error {
	var waiting sync.WaitGroup
	waiting.Add(len(first))
	queue := make(chan func(), len(first)+len(then))
	for _, s := range first {
		queue <- func() {
			defer waiting.Done()
			s.a.startedAgain(s.r)
		}
	}
	for _, s := range then {
		queue <- func() { s.a.startedAgain(s.r) }
	}
	close(queue)
	for range startsAtOnce {
		e.spawn(func() {
			for start := range queue {
				start()
			}
		})
	}
	done := make(chan struct{})
	go func() { // ends with the starts, which end with the engine
		waiting.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for what served before: %w", context.Cause(ctx))
	}
}
