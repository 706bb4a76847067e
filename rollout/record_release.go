package rollout

import (
	"errors"
	"fmt"
	"time"

	"muru"
)

// releaseRecord is one release: its plan, which never changes, and its state.
type releaseRecord struct {
	V       int        `json:"v"`
	Plan    planRecord `json:"plan"`
	State   string     `json:"state"`
	Hold    bool       `json:"hold,omitempty"` // asked to be held
	Created time.Time  `json:"created"`
	By      string     `json:"by,omitempty"`
	Run     int        `json:"run,omitempty"` // and Key: the call that made it
	Key     string     `json:"key,omitempty"`
	Message string     `json:"message,omitempty"`
}

type planRecord struct {
	Kind     string            `json:"kind"`
	Source   string            `json:"source,omitempty"`
	Digest   string            `json:"digest,omitempty"`
	Entry    string            `json:"entry,omitempty"`
	Command  []string          `json:"command,omitempty"`
	Upstream string            `json:"upstream,omitempty"`
	Workers  int               `json:"workers,omitempty"`
	Threads  int               `json:"threads,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Timeouts timeoutsRecord    `json:"timeouts"`
	Queue    int               `json:"queue,omitempty"`
	Ready    string            `json:"ready,omitempty"`
	Stacks   string            `json:"stacks,omitempty"`
}

type timeoutsRecord struct {
	Ready     span `json:"ready,omitempty"`
	Queue     span `json:"queue,omitempty"`
	Hard      span `json:"hard,omitempty"`
	Soft      span `json:"soft,omitempty"`
	Drain     span `json:"drain,omitempty"`
	Stream    span `json:"stream,omitempty"`
	WebSocket span `json:"websocket,omitempty"`
}

// record returns the release as it is to be kept.
func (r *release) record() releaseRecord {
	p, t := r.ReleasePlan, r.Timeouts
	return releaseRecord{
		V: recordVersion, State: r.State.String(), Hold: r.hold, Created: r.Created, By: r.By,
		Run: r.caller.Run, Key: r.caller.Key, Message: shorten(r.Message),
		Plan: planRecord{
			Kind: p.Kind.String(), Source: p.Source, Digest: p.Digest, Entry: p.Entry, Command: p.Command, Upstream: p.Upstream,
			Workers: p.Workers, Threads: p.Threads, Env: p.Env, Queue: p.Limits.Queue, Ready: p.Ready, Stacks: p.Stacks,
			Timeouts: timeoutsRecord{
				span(t.Ready), span(t.Queue), span(t.Hard), span(t.Soft), span(t.Drain), span(t.Stream), span(t.WebSocket),
			},
		},
	}
}

// plan returns what deploy was asked for.
func (r planRecord) plan() (muru.ReleasePlan, error) {
	kind, err := parseName[muru.ReleaseKind](r.Kind)
	if err == nil && (r.Workers < 0 || r.Threads < 0 || r.Queue < 0) {
		err = errors.New("workers, threads and queue cannot be below 0")
	}
	t := r.Timeouts
	return muru.ReleasePlan{
		Kind: kind, Source: r.Source, Digest: r.Digest, Entry: r.Entry, Command: r.Command, Upstream: r.Upstream,
		Workers: r.Workers, Threads: r.Threads, Env: r.Env, Ready: r.Ready, Stacks: r.Stacks, Limits: muru.Limits{Queue: r.Queue},
		Timeouts: muru.Timeouts{
			Ready: time.Duration(t.Ready), Queue: time.Duration(t.Queue), Hard: time.Duration(t.Hard), Soft: time.Duration(t.Soft),
			Drain: time.Duration(t.Drain), Stream: time.Duration(t.Stream), WebSocket: time.Duration(t.WebSocket),
		},
	}, err
}

// decodeRelease reads a release's record. It has no workers yet.
func decodeRelease(id muru.ReleaseID, text []byte) (*release, error) {
	var r releaseRecord
	if err := decode(text, &r); err != nil {
		return nil, err
	}
	plan, err := r.Plan.plan()
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	state, err := parseName[muru.ReleaseState](r.State)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return &release{
		Release: muru.Release{ID: id, ReleasePlan: plan, State: state, Created: r.Created, By: r.By, Message: r.Message},
		hold:    r.Hold, caller: Caller{Run: r.Run, Key: r.Key, By: r.By},
	}, nil
}

// messageMax bounds a message in a record, whatever a worker or a function
// said: a record has to fit its key.
const messageMax = 8 << 10

// shorten cuts a message to what a record takes.
func shorten(message string) string {
	if len(message) <= messageMax {
		return message
	}
	return message[:messageMax] + "…"
}
