package person

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// TestSignalThatIsSentTwiceAtOnceEndsNothingAtOnce is what timeout(1) does: a
// process that exited on the second would leave its workers behind.
func TestSignalThatIsSentTwiceAtOnceEndsNothingAtOnce(t *testing.T) {
	seen := make(chan os.Signal, 2)
	signal.Notify(seen, syscall.SIGTERM)
	defer signal.Stop(seen)
	ctx, _, stop := UntilSignal(t.Context())
	defer stop()
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-seen
		<-ctx.Done()
	}
	if _, ok := errors.AsType[InterruptedError](context.Cause(ctx)); !ok {
		t.Errorf("the context ended with %v", context.Cause(ctx))
	}
}
