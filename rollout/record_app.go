package rollout

import (
	"fmt"
	"time"

	"muru"
)

// appRecord is what an app is beside its releases and rollouts.
type appRecord struct {
	V          int              `json:"v"`
	Route      routeRecord      `json:"route"`
	Split      splitRecord      `json:"split"`
	SplitRun   int              `json:"split_run,omitempty"` // that set the shares by hand
	Off        bool             `json:"off,omitempty"`       // stopped until the next deploy
	Generation uint64           `json:"generation"`
	Last       int              `json:"last"`                // the newest release's number, also of one that is gone
	History    []int            `json:"history,omitempty"`   // baselines in the order they served
	Regretted  []int            `json:"regretted,omitempty"` // those rolled back from
	Reverted   *revertedRecord  `json:"reverted,omitempty"`  // the last rollback
	Honoured   []honouredRecord `json:"honoured,omitempty"`
}

type revertedRecord struct {
	At time.Time `json:"at"`
	To int       `json:"to"`
	By string    `json:"by"`
}

type honouredRecord struct {
	Release int       `json:"release"`
	Until   time.Time `json:"until"`
}

type routeRecord struct {
	Hosts       []string          `json:"hosts,omitempty"`
	Path        string            `json:"path,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Methods     []string          `json:"methods,omitempty"`
	Key         string            `json:"key,omitempty"`
	Sticky      span              `json:"sticky,omitempty"`
	PreviewOff  bool              `json:"preview_off,omitempty"`
	PreviewKey  string            `json:"preview_key,omitempty"`
	Health      string            `json:"health,omitempty"`
	Redirects   map[string]string `json:"redirects,omitempty"`
	Compress    bool              `json:"compress,omitempty"`
	MaxBody     int64             `json:"max_body,omitempty"`
	Maintenance string            `json:"maintenance,omitempty"`
}

func newRouteRecord(r muru.Route) routeRecord {
	return routeRecord{
		Hosts: r.Hosts, Path: r.Path, Headers: r.Headers, Methods: r.Methods, Key: r.Key.String(), Sticky: span(r.Sticky),
		PreviewOff: r.PreviewOff, PreviewKey: r.PreviewKey, Health: r.Health, Redirects: r.Redirects,
		Compress: r.Compress, MaxBody: r.MaxBody, Maintenance: r.Maintenance,
	}
}

func (r routeRecord) route(app string) (muru.Route, error) {
	key, err := muru.Key{}, error(nil)
	if r.Key != "" {
		key, err = muru.ParseKey(r.Key)
	}
	if r.MaxBody < 0 {
		err = fmt.Errorf("max_body: %d is below 0", r.MaxBody)
	}
	return muru.Route{
		App: app, Hosts: r.Hosts, Path: r.Path, Headers: r.Headers, Methods: r.Methods, Key: key,
		Sticky: time.Duration(r.Sticky), PreviewOff: r.PreviewOff, PreviewKey: r.PreviewKey, Health: r.Health,
		Redirects: r.Redirects, Compress: r.Compress, MaxBody: r.MaxBody, Maintenance: r.Maintenance,
	}, err
}

// record returns the app as it is to be kept.
func (a *actor) record() appRecord {
	r := appRecord{
		V: recordVersion, Route: newRouteRecord(a.route), Split: newSplitRecord(a.split), SplitRun: a.splitRun, Off: a.off,
		Generation: a.generation, Last: a.last, History: a.history, Regretted: sortedSet(a.regretted),
	}
	if !a.reverted.at.IsZero() {
		r.Reverted = &revertedRecord{a.reverted.at, a.reverted.to, a.reverted.by}
	}
	for _, h := range a.honouredNow() {
		r.Honoured = append(r.Honoured, honouredRecord{h.Release.Number, h.Until})
	}
	return r
}

// take gives a new actor what a record says. Releases that the record names
// are checked when they are there.
func (a *actor) take(r appRecord) (err error) {
	if a.route, err = r.Route.route(a.name); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if a.split, err = r.Split.split(a.name); err != nil {
		return err
	}
	if err := checkNumber("last", r.Last, true); err != nil {
		return err
	}
	for _, n := range r.History {
		if err := checkNumber("history", n, false); err != nil {
			return err
		}
	}
	a.splitRun, a.off, a.generation, a.last, a.history = r.SplitRun, r.Off, r.Generation, r.Last, r.History
	for _, n := range r.Regretted {
		a.regretted[n] = true
	}
	if r.Reverted != nil {
		a.reverted = reverted{r.Reverted.At, r.Reverted.To, r.Reverted.By}
	}
	for _, h := range r.Honoured {
		a.honoured[h.Release] = h.Until
	}
	return nil
}

// decodeApp reads an app's record into a new actor.
func decodeApp(e *Engine, name string, text []byte) (*actor, error) {
	if err := muru.CheckName(name); err != nil {
		return nil, err
	}
	var r appRecord
	if err := decode(text, &r); err != nil {
		return nil, err
	}
	a := newActor(e, muru.Route{App: name})
	return a, a.take(r)
}
