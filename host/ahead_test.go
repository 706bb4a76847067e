package host

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"muru"
)

// slowly is a body that stops once, in its middle, until told to go on.
type slowly struct {
	io.Reader
	stopped chan struct{} // closed when it has stopped
	goOn    chan struct{}
}

func newSlowly(text string) *slowly {
	s := &slowly{stopped: make(chan struct{}), goOn: make(chan struct{})}
	stop := readerFunc(func() { close(s.stopped); <-s.goOn })
	s.Reader = io.MultiReader(strings.NewReader(text[:len(text)/2]), stop, strings.NewReader(text[len(text)/2:]))
	return s
}

func (s *slowly) at(t *testing.T) {
	t.Helper()
	select {
	case <-s.stopped:
	case <-time.After(longWait):
		t.Fatal("the body was not read that far")
	}
}

// postSlowly sends a body that has stopped when it returns.
func postSlowly(t *testing.T, b muru.Backend, text string, length int64, change func(*muru.Exchange)) (*slowly, *call) {
	t.Helper()
	s, c := newSlowly(text), &call{answer: &answer{}, done: make(chan struct{})}
	x := get("/echo", c.answer)
	x.Method, x.Body, x.Length = "POST", s, length
	if change != nil {
		change(x)
	}
	go func() {
		defer close(c.done)
		c.Outcome = b.Do(t.Context(), x)
	}()
	s.at(t)
	return s, c
}

func TestABodyThatComesSlowlyHoldsNoThread(t *testing.T) {
	for _, kind := range []string{"python", "command"} {
		t.Run(kind, func(t *testing.T) {
			h, _ := newHost(t, Options{})
			rel := python(t, one)
			if kind == "command" {
				rel = command(t, httpServer, one)
			}
			b := start(t, h, rel)
			for _, size := range []int{1000, 200_000, aheadLimit} {
				text := strings.Repeat("tea.", size/4)
				body, slow := postSlowly(t, b, text, int64(len(text)), nil)
				wantOK(t, do(t.Context(), b, "/hello")) // on the only thread
				time.AfterFunc(300*time.Millisecond, func() { close(body.goOn) })
				wantOK(t, slow.end(t))
				if slow.text() != text {
					t.Errorf("%d bytes: %d came back", size, len(slow.text()))
				}
				if wait, _ := slow.x.QueueWait(); wait > 250*time.Millisecond {
					t.Errorf("%d bytes: the client's time counts as queue wait: %v", size, wait)
				}
			}
			if n := b.(*release).ahead.Load(); n != 0 {
				t.Errorf("%d bytes are held", n)
			}
		})
	}
}

func TestWhatIsNotReadAheadTakesItsThread(t *testing.T) {
	text := strings.Repeat("tea.", 100_000)
	for _, c := range []struct {
		what   string
		length int64
		change func(*release, *muru.Exchange)
	}{
		{"of unknown length", -1, nil},
		{"that was not asked for", int64(len(text)), func(_ *release, x *muru.Exchange) {
			x.Header = append(x.Header, muru.Field{Name: "Expect", Value: "100-continue"})
		}},
		{"beyond what all may hold", int64(len(text)), func(r *release, _ *muru.Exchange) { r.ahead.Store(aheadTotal - 100_000) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			h, _ := newHost(t, Options{})
			b := start(t, h, python(t, one))
			r := b.(*release)
			body, slow := postSlowly(t, b, text, c.length, func(x *muru.Exchange) {
				if c.change != nil {
					c.change(r, x)
				}
			})
			inside(t, h, 1)
			close(body.goOn)
			wantOK(t, slow.end(t))
			if slow.text() != text {
				t.Errorf("%d bytes came back", len(slow.text()))
			}
		})
	}
}

func TestALargeBodyIsReadAheadInPart(t *testing.T) {
	h, _ := newHost(t, Options{})
	b := start(t, h, python(t, one))
	text := strings.Repeat("0123456789abcdef!", 3*aheadLimit/17)
	a := post(t, b, strings.NewReader(text), int64(len(text)))
	wantOK(t, a)
	if a.text() != text {
		t.Errorf("%d bytes came back", a.body.Len())
	}
	x := get("/echo", &answer{})
	x.Method, x.Body, x.Length = "POST", strings.NewReader(text), int64(len(text))
	b.(*release).close()
	for range 2 { // the edge may give it to a release that is leaving, too
		if out := b.Do(t.Context(), x); !errors.Is(out.Err, muru.ErrDraining) {
			t.Fatalf("%+v", out)
		}
	}
	if left, err := io.ReadAll(x.Body); string(left) != text || err != nil {
		t.Errorf("left of the body: %d bytes, %v", len(left), err)
	}
}
