package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"muru"
)

func TestLifeIsAContext(t *testing.T) {
	var l life
	if l.Err() != nil || context.Cause(&l) != nil {
		t.Error("it ended before its end")
	}
	called := make(chan int, 4)
	note := func(n int) func() { return func() { called <- n } }
	stopFirst := l.AfterFunc(note(1))
	l.AfterFunc(note(2))
	stopThird := l.AfterFunc(note(3))
	if !stopFirst() || stopFirst() {
		t.Error("a stop in time is reported once")
	}
	child, cancel := context.WithTimeout(&l, time.Hour)
	defer cancel()
	l.end(muru.ErrHardTimeout)
	l.end(muru.ErrClientGone)
	<-child.Done()
	if stopThird() {
		t.Error("a stop that came too late was reported as in time")
	}
	if n := <-called + <-called; n != 5 {
		t.Errorf("called %d in sum, want 2 and 3", n)
	}
	l.AfterFunc(note(4))
	if n := <-called; n != 4 {
		t.Errorf("called %d after the end", n)
	}
	<-l.Done()
	for _, ctx := range []context.Context{&l, child} {
		if !errors.Is(context.Cause(ctx), muru.ErrHardTimeout) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
	}
}

func TestDoneOfALifeMayBeAskedForBeforeItsEnd(t *testing.T) {
	var l life
	done := l.Done()
	select {
	case <-done:
		t.Error("done before its end")
	default:
	}
	l.end(muru.ErrDrainCut)
	<-done
}
