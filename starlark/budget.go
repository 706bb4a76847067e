package starlark

import (
	"context"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"

	"muru"
)

// stepChunk is how many steps a thread takes from its meter at once.
const stepChunk = 10_000

// A meter is a budget of steps shared by threads.
type meter struct {
	limit  int64
	left   atomic.Int64
	cancel context.CancelCauseFunc // ends all that shares the meter; may be nil
}

// newMeter returns a meter for limit steps, nil for no limit.
func newMeter(limit int64, cancel context.CancelCauseFunc) *meter {
	if limit <= 0 {
		return nil
	}
	m := &meter{limit: limit, cancel: cancel}
	m.left.Store(limit)
	return m
}

// take takes up to stepChunk steps; 0 when the budget is used up.
func (m *meter) take() int64 {
	for {
		left := m.left.Load()
		n := min(left, stepChunk)
		if n <= 0 || m.left.CompareAndSwap(left, left-n) {
			return max(n, 0)
		}
	}
}

// attachMeter makes the thread ask the scope's meter for its steps. The
// interpreter calls OnMaxSteps on the thread's own goroutine, before the
// step that would be one too many.
func (s *scope) attachMeter(thread *starlark.Thread) {
	if s.meter == nil {
		return
	}
	thread.SetMaxExecutionSteps(1)
	thread.OnMaxSteps = func(thread *starlark.Thread) {
		n := s.meter.take()
		if n == 0 {
			err := stepBudget(s.meter.limit)
			s.stop(thread, err)
			if s.meter.cancel != nil {
				s.meter.cancel(err)
			}
			return
		}
		s.taken += uint64(n)
		thread.SetMaxExecutionSteps(s.taken + 1)
	}
}

// settle gives back what the thread took and did not use.
func (s *scope) settle(thread *starlark.Thread) {
	if s.meter != nil && s.taken > thread.Steps {
		s.meter.left.Add(int64(s.taken - thread.Steps))
	}
}

func stepBudget(limit int64) *muru.Error {
	return muru.Errorf(muru.KindBudget, "the budget of %d steps is used up", limit)
}

func wallBudget(limit time.Duration) *muru.Error {
	e := muru.Errorf(muru.KindBudget, "the budget of %s of time is used up", muru.FormatDuration(limit))
	e.Err = context.DeadlineExceeded
	return e
}

func memoryBudget(limit int64) *muru.Error {
	return muru.Errorf(muru.KindBudget, "the budget of %d MiB of memory is used up", (limit+1<<20-1)>>20)
}
