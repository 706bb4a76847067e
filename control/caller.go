package control

import "context"

type callerKey struct{}

// WithCaller returns a context of who asks: a user's name, as events show it.
func WithCaller(ctx context.Context, by string) context.Context {
	return context.WithValue(ctx, callerKey{}, by)
}

// Caller returns who asks, "" if nobody said.
func Caller(ctx context.Context) string {
	by, _ := ctx.Value(callerKey{}).(string)
	return by
}
