package person

import (
	"context"
	"time"
)

// AskWithin asks a muru, and gives up in time even if it does not.
func AskWithin[T any](limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	go func() { // ends soon after ctx, whose end the muru is told
		v, err := ask(ctx)
		got <- answer{v, err}
	}()
	select {
	case a := <-got:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
