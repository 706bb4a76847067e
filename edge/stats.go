package edge

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"muru"
)

// secondsBuckets are the upper bounds of the histograms, in seconds.
var secondsBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// statusClasses are the values of the label code, by a status's first digit.
var statusClasses = [...]string{1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}

// releaseStats are one release's counters, with their handles at hand. They
// count everything that was picked for the release, previews included; gates
// read the judge's own counts. Safe for concurrent use.
type releaseStats struct {
	id       muru.ReleaseID
	set      *metrics.Set
	requests [len(statusClasses)]*metrics.Counter
	seconds  *metrics.PrometheusHistogram
	wait     *metrics.PrometheusHistogram
	own      map[muru.Reason]*metrics.Counter // immutable
	rescued  *metrics.Counter
	copied   *metrics.Counter // shadow copies that the release was sent
	dropped  *metrics.Counter // and those it had no room for
	inFlight atomic.Int64
}

// releaseReasons are those that a release's requests can end with.
var releaseReasons = []muru.Reason{
	muru.ReasonAppError, muru.ReasonWorkerCrashed, muru.ReasonHardTimeout, muru.ReasonQueueTimeout,
	muru.ReasonQueueFull, muru.ReasonNoRelease, muru.ReasonMalformed, muru.ReasonBodyTooSlow, muru.ReasonBodyTooLarge,
	muru.ReasonClientGone,
}

func newReleaseStats(id muru.ReleaseID) *releaseStats {
	s := &releaseStats{id: id, set: metrics.NewSet(), own: make(map[muru.Reason]*metrics.Counter, len(releaseReasons))}
	labels := fmt.Sprintf(`app=%q,release=%q`, id.App, id.Name())
	for class := 1; class < len(statusClasses); class++ {
		s.requests[class] = s.set.NewCounter(fmt.Sprintf(`muru_requests_total{%s,code="%s"}`, labels, statusClasses[class]))
	}
	s.seconds = s.set.NewPrometheusHistogramExt(`muru_request_seconds{`+labels+`}`, secondsBuckets)
	s.wait = s.set.NewPrometheusHistogramExt(`muru_queue_wait_seconds{`+labels+`}`, secondsBuckets)
	for _, reason := range releaseReasons {
		s.own[reason] = s.set.NewCounter(fmt.Sprintf(`muru_own_answers_total{%s,reason="%s"}`, labels, reason))
	}
	s.rescued = s.set.NewCounter(`muru_requests_rescued_total{` + labels + `}`)
	s.copied = s.set.NewCounter(`muru_shadow_copies_total{` + labels + `,result="sent"}`)
	s.dropped = s.set.NewCounter(`muru_shadow_copies_total{` + labels + `,result="dropped"}`)
	s.set.NewGauge(`muru_requests_in_flight{`+labels+`}`, func() float64 { return float64(s.inFlight.Load()) })
	return s
}

// count counts one request that has ended.
func (s *releaseStats) count(status int, reason muru.Reason, took, wait time.Duration) {
	if class := status / 100; class >= 1 && class < len(s.requests) {
		s.requests[class].Inc()
	}
	s.seconds.Update(took.Seconds())
	s.wait.Update(wait.Seconds())
	if c := s.own[reason]; c != nil {
		c.Inc()
	}
}

// noReleaseStats count muru's answers to requests that no release was picked for.
type noReleaseStats struct {
	set *metrics.Set
	own map[muru.Reason]*metrics.Counter // immutable
}

func newNoReleaseStats() *noReleaseStats {
	s := &noReleaseStats{set: metrics.NewSet(), own: map[muru.Reason]*metrics.Counter{}}
	for _, reason := range []muru.Reason{
		muru.ReasonNoRoute, muru.ReasonNoRelease, muru.ReasonNoSuchRelease, muru.ReasonMaintenance,
		muru.ReasonMalformed, muru.ReasonBodyTooLarge,
	} {
		s.own[reason] = s.set.NewCounter(fmt.Sprintf(`muru_own_answers_total{app="",release="",reason="%s"}`, reason))
	}
	return s
}

func (s *noReleaseStats) count(reason muru.Reason) {
	if c := s.own[reason]; c != nil {
		c.Inc()
	}
}

// Counts are what the edge has counted of one release since it came to the
// table, previews included.
type Counts struct {
	Requests     uint64 // ended, of any status
	ServerErrors uint64 // of them, those with a 5xx status
	InFlight     int
}

// Counts returns a release's counts, zero for one the edge does not know.
func (e *Edge) Counts(id muru.ReleaseID) Counts {
	e.mu.Lock()
	s := e.stats[id]
	e.mu.Unlock()
	if s == nil {
		return Counts{}
	}
	c := Counts{ServerErrors: s.requests[5].Get(), InFlight: int(s.inFlight.Load())}
	for _, r := range s.requests[1:] {
		c.Requests += r.Get()
	}
	return c
}

// WriteMetrics writes every counter in the Prometheus text format.
func (e *Edge) WriteMetrics(w io.Writer) {
	e.mu.Lock()
	all := slices.SortedFunc(maps.Values(e.stats), func(a, b *releaseStats) int {
		return cmp.Or(cmp.Compare(a.id.App, b.id.App), cmp.Compare(a.id.Number, b.id.Number))
	})
	e.mu.Unlock()
	for _, s := range all {
		s.set.WritePrometheus(w)
	}
	e.nobody.set.WritePrometheus(w)
}
