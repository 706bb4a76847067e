package main

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/daemon"
	"muru/cmd/muru/visitortest"
	"muru/control"
)

// A stage is a muru in which shop@r1 serves, the application in
// testdata/apps/shop, and which answers at a socket.
type stage struct {
	t      *testing.T
	runner *daemon.Runner
	socket string
}

func serveStage(t *testing.T) *stage {
	t.Helper()
	h := openTestHouse(t)
	s := &stage{t: t, runner: h.NewRunner(), socket: filepath.Join(visitortest.ShortDir(t), control.SocketName)}
	t.Cleanup(serveAt(t, s.socket, s.runner))
	s.must(`deploy("shop", SHOP)`)
	return s
}

// openTestHouse opens a house on a port of its own and closes it at the end.
func openTestHouse(t *testing.T) *daemon.House {
	t.Helper()
	h, err := openHouse(t.Context(), visitortest.ShortDir(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

// serveAt serves a runner at a socket until stop, which closes it too.
func serveAt(t *testing.T, socket string, r *daemon.Runner) (stop func()) {
	t.Helper()
	server := control.NewServer(control.Options{Muru: r, Version: version})
	listener, err := control.Listen(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
		<-served
	}
}

// must makes a call that has to succeed, as tester. SHOP is the directory of
// the application.
func (s *stage) must(source string) { s.t.Helper(); s.as("tester", source) }

// as makes a call that has to succeed, as somebody.
func (s *stage) as(who, source string) {
	s.t.Helper()
	source = strings.ReplaceAll(source, "SHOP", strconv.Quote(shopDir(s.t)))
	err := s.runner.Call(control.WithCaller(s.t.Context(), who), control.Call{Source: source, Dir: "/"}, func(control.Message) {})
	if err != nil {
		s.t.Fatal(control.ErrorText(err))
	}
}

// value is what an expression gives, as it prints.
func (s *stage) value(source string) (text string) {
	s.t.Helper()
	err := s.runner.Call(s.t.Context(), control.Call{Source: source, Dir: "/"}, func(m control.Message) {
		if m.Kind == control.KindValue {
			text = m.Text
		}
	})
	if err != nil {
		s.t.Fatal(control.ErrorText(err))
	}
	return text
}

// events returns the messages of the events of a kind so far.
func (s *stage) events(kind string) (messages []string) {
	s.t.Helper()
	err := s.runner.Events(s.t.Context(), control.EventRequest{Kind: kind}, func(e muru.Event) {
		messages = append(messages, e.Subject+" "+e.Message)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return messages
}

// hasLiveRollout reports whether a rollout is live.
func (s *stage) hasLiveRollout() bool {
	s.t.Helper()
	state, err := s.runner.State(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return len(state.LiveRollouts()) > 0
}

// typeAt is a session with the muru of the stage.
func (s *stage) typeAt(t *testing.T, env ...string) *terminalSession {
	t.Helper()
	return typeAt(t, visitortest.ShortDir(t), append(slices.Clone(env), "MURU_CONTROL="+s.socket)...)
}
