package host

import (
	"testing"
	"testing/synctest"
	"time"
)

// An upload and an answer may both be blocked on one client.
func TestTimeBlockedInTwoWaysCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p patience
		began := time.Now()
		wait := func() { time.Sleep(time.Second) }
		p.begin() // reading, for the first two seconds
		p.reset() // what was before its dispatch is no part of it
		wait()
		p.begin() // writing, for the second and the third
		wait()
		p.end()
		if ran := p.ran(began, time.Now()); ran != 0 {
			t.Errorf("ran %v while blocked all the time", ran)
		}
		wait()
		p.end()
		wait()
		if ran := p.ran(began, time.Now()); ran != time.Second {
			t.Errorf("ran %v, want the second that it was not blocked", ran)
		}
		p.reset()
		if ran := p.ran(time.Now(), time.Now()); ran != 0 {
			t.Errorf("ran %v when given to another worker", ran)
		}
	})
}

func TestReadThatBlocksAcrossADispatchIsNotCountedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p patience
		p.begin()
		time.Sleep(time.Minute)
		p.reset()
		began := time.Now()
		time.Sleep(time.Second)
		p.end()
		time.Sleep(2 * time.Second)
		if ran := p.ran(began, time.Now()); ran != 2*time.Second {
			t.Errorf("ran %v, want 2s", ran)
		}
	})
}
