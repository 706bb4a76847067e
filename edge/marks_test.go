package edge

import (
	"context"
	"slices"
	"testing"
	"time"

	"muru"
)

func TestAFactHasTheMarksOfItsAnswer(t *testing.T) {
	field := func(name string) muru.Field { return muru.Field{Name: name, Value: "any"} }
	for _, c := range []struct {
		what    string
		backend backendFunc
		want    []string
	}{
		{"none", answers(200, "x", field("X-Other")), nil},
		{"one, as the routing writes it", answers(200, "x", field("X-Cart-Lost")), []string{"x-cart-lost"}},
		{"each once", answers(200, "x", field("X-Slow"), field("X-Cart-Lost"), field("X-Slow")), []string{"x-cart-lost", "X-Slow"}},
		{"of a failure too", answers(500, "x", field("X-Slow")), []string{"X-Slow"}},
		{"a page of ours has none", fails(muru.ErrApp), nil},
		{"a stream's head", func(_ context.Context, x *muru.Exchange) muru.Outcome {
			x.Start(time.Now())
			err := x.Answer.Head(200, append(slices.Clone(eventStream), field("X-Slow")), -1)
			return muru.Outcome{Err: err, Answered: true}
		}, []string{"X-Slow"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			sink := &heard{}
			f := newFront(t, Options{})
			f.Judge("shop", nil, sink)
			f.Route(shop(-1, map[int]muru.Backend{5: c.backend}, func(r *muru.Routing) { r.Marks = []string{"x-cart-lost", "X-Slow"} }))
			f.get("/")
			if fact := sink.wait(t, 1)[0].fact; !slices.Equal(fact.Marks, c.want) {
				t.Errorf("%q, want %q", fact.Marks, c.want)
			}
		})
	}
}

func TestTheMarksOfARescueAreNotTheCandidates(t *testing.T) {
	sink := &heard{}
	f := newFront(t, Options{})
	f.Judge("shop", nil, sink)
	marked := answers(200, "r5", muru.Field{Name: "X-Slow", Value: "1"})
	f.Route(shop(muru.Buckets, map[int]muru.Backend{5: marked, 6: answers(500, "")}, withShield, func(r *muru.Routing) { r.Marks = []string{"X-Slow"} }))
	f.get("/")
	if fact := sink.wait(t, 1)[0].fact; fact.Marks != nil || fact.Release != rel(6) {
		t.Errorf("%+v", fact)
	}
}

func TestMarksCostNothing(t *testing.T) {
	s := New(Options{}).newState(&app{}, shop(-1, nil, func(r *muru.Routing) { r.Marks = []string{"x-slow", "X-Other"} }))
	header := []muru.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "X-Slow", Value: "1"}}
	if n := testing.AllocsPerRun(100, func() {
		if len(s.marked(header)) != 1 {
			t.Error("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
