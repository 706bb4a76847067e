package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

func TestWorkThatIsGivenUpSaysWhatItDid(t *testing.T) {
	began := make(chan struct{}, 1)
	release := make(chan struct{})
	w := serve(t, &controltest.Muru{OnCall: func(ctx context.Context, c control.Call, out func(control.Message)) error {
		began <- struct{}{}
		<-ctx.Done()
		if c.Source == "slow" {
			<-release
		}
		out(control.Message{Kind: control.KindSay, Text: "did this much"})
		return muru.Errorf(muru.KindCanceled, "given up")
	}})
	defer close(release)
	left := errors.New("left")
	for _, source := range []string{"quick", "slow"} {
		ctx, leave := context.WithCancelCause(deadline(t))
		var said []string
		ended := make(chan error, 1)
		go func() {
			ended <- w.Call(ctx, control.Call{Source: source}, func(m control.Message) { said = append(said, m.Text) })
		}()
		receive(t, began, source)
		at := time.Now()
		leave(left)
		if err := receive(t, ended, source); !errors.Is(err, left) {
			t.Errorf("%s: ended with %v", source, err)
		}
		if source == "quick" && (len(said) != 1 || said[0] != "did this much") {
			t.Errorf("it said %q", said)
		}
		if took := time.Since(at); took > 5*time.Second { // half a second on a machine of its own
			t.Errorf("%s: left after %v", source, took)
		}
	}
}
