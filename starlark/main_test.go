package starlark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.starlark.net/starlark"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"muru"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a directory of recipes and a runtime with fake builtins.
type stage struct {
	t       *testing.T
	dir     string
	options Options

	mu      sync.Mutex
	printed []string
	acted   []string
	bugs    []Bug
}

func newStage(t *testing.T, files map[string]string) *stage {
	s := &stage{t: t, dir: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.options = Options{
		Dir:    s.dir,
		Stdlib: fstest.MapFS{},
		Print: func(text string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.printed = append(s.printed, text)
		},
		Bug: func(b Bug) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.bugs = append(s.bugs, b)
		},
		Predeclared: s.builtins(),
	}
	return s
}

func (s *stage) run(args ...string) (starlark.Value, error) {
	return s.runFile(context.Background(), "main.star", args...)
}

func (s *stage) runFile(ctx context.Context, name string, args ...string) (starlark.Value, error) {
	return New(s.options).Run(ctx, name, args)
}

func (s *stage) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.printed, "\n")
}

type builtinFunc func(thread *starlark.Thread, args starlark.Tuple) (starlark.Value, error)

// builtins returns fakes of what builtins/ will make: one wrapper that
// checks effect and panics, around small functions.
func (s *stage) builtins() starlark.StringDict {
	dict := make(starlark.StringDict)
	add := func(name string, pure bool, fn builtinFunc) {
		dict[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
			defer Recover(thread, name, &err)
			if !pure {
				if err := CheckEffect(thread, name); err != nil {
					return nil, err
				}
				defer Waiting(thread)()
			}
			return fn(thread, args)
		})
	}
	add("deploy", false, func(thread *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acted = append(s.acted, fmt.Sprintf("deploy%v at %s", args, Where(thread)))
		return starlark.String("shop@r1"), nil
	})
	add("app", false, func(*starlark.Thread, starlark.Tuple) (starlark.Value, error) { return starlark.None, nil })
	add("fail", true, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		text, _ := starlark.AsString(args[0])
		return nil, &muru.Error{Kind: muru.KindGateFailed, Message: "fail: " + text, Hint: "do it otherwise", Detail: []string{"the end of a log"}}
	})
	add("block", false, func(thread *starlark.Thread, _ starlark.Tuple) (starlark.Value, error) {
		<-ContextOf(thread).Done()
		return nil, ContextOf(thread).Err()
	})
	add("explode", false, func(*starlark.Thread, starlark.Tuple) (starlark.Value, error) {
		var nothing *muru.Error
		return starlark.String(nothing.Message), nil
	})
	add("here", true, func(thread *starlark.Thread, _ starlark.Tuple) (starlark.Value, error) {
		path, ok := FileOf(thread)
		if !ok {
			return nil, errors.New("here: not in a file")
		}
		return starlark.String(path), nil
	})
	add("user", true, func(thread *starlark.Thread, _ starlark.Tuple) (starlark.Value, error) {
		name, _ := ContextOf(thread).Value(userKey{}).(string)
		local, _ := thread.Local("setup").(string)
		return starlark.String(name + "/" + local), nil
	})
	add("look", true, func(thread *starlark.Thread, _ starlark.Tuple) (starlark.Value, error) {
		var at []string
		for _, frame := range Stack(thread) {
			at = append(at, frame.String())
		}
		return starlark.String(fmt.Sprint(AtModuleTop(thread), " ", Where(thread), " ", strings.Join(at, ", "), " ", DirOf(thread) == s.dir)), nil
	})
	add("attempt", true, func(thread *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		v, err := starlark.Call(thread, args[0], nil, nil)
		if err == nil {
			return starlark.Tuple{v, starlark.None}, nil
		}
		caught, ok := Catch(thread, err)
		if !ok {
			return nil, err
		}
		return starlark.Tuple{starlark.None, starlark.String(caught.Kind.String() + "|" + caught.Where + "|" + caught.Message)}, nil
	})
	add("parallel", true, func(thread *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		defer Waiting(thread)()
		group, ctx := errgroup.WithContext(ContextOf(thread))
		list := args[0].(*starlark.List)
		results := make(starlark.Tuple, list.Len())
		for i := range list.Len() {
			fn := list.Index(i).(starlark.Callable)
			group.Go(func() (err error) {
				results[i], err = Call(ctx, fn, nil, CallOptions{})
				return err
			})
		}
		return results, group.Wait()
	})
	return dict
}

type userKey struct{}

// text returns the whole text of an error that must be one of ours.
func text(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%T is not an *Error: %v", err, err)
	}
	return e.Text()
}

func within(t *testing.T, limit time.Duration, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s did not happen in %v", what, limit)
	}
}
