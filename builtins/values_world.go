package builtins

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
	script "muru/starlark"
)

var responseKind = &kind{
	name: "Response",
	doc:  "the answer to a request",
	attrs: []attr{
		{"code", "int", "status"},
		{"ok", "bool", "the status is below 400"},
		{"headers", "dict", "lower-case name: text"},
		{"body", "text", "the whole body"},
		{"duration", "Duration", "from the request to the end of the body"},
		{"request_id", "text or None", "under which logs name it"},
		{"release", "text or None", "that answered, where that is known"},
	},
	methods: []*Spec{responseJSON},
}

// response is what a Response is made of.
type response struct {
	status    int
	header    map[string]string
	body      []byte
	took      time.Duration
	requestID string
	release   string
}

func (r response) String() string {
	text := fmt.Sprintf("%s in %s", statusText(r.status), muru.FormatMeasured(r.took))
	if r.release != "" {
		text += " from " + r.release
	}
	return text
}

func (r response) record() *Record {
	headers := sortedDict(r.header, func(v string) starlark.Value { return starlark.String(v) })
	return responseKind.record(r, r.String(), nil,
		starlark.MakeInt(r.status), starlark.Bool(r.status < 400), headers, starlark.String(r.body), Duration(r.took),
		textOrNone(r.requestID), textOrNone(r.release))
}

// statusText is a status as pages show it: 504 Gateway Timeout.
func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

var responseJSON = &Spec{
	Name:    "json",
	Summary: "parses the body as JSON",
	Doc:     "Objects are dicts, arrays are lists, numbers int or float as they are written.",
	Params:  nil,
	Returns: "any",
	Errors:  []string{"failed: the body is not JSON"},
	Example: `print(http("http://example.test/api").json()["name"])`,
	Fn: func(c *Call) (starlark.Value, error) {
		r, _ := native[response](c.receiver)
		v, err := starlark.Call(c.thread, jsonModule.Members["decode"], starlark.Tuple{starlark.String(r.body)}, nil)
		if err != nil {
			return nil, &muru.Error{Message: "the body is not JSON", Hint: "it begins with " + strconv.Quote(start(string(r.body), 40))}
		}
		return v, nil
	},
}

// start cuts a text for an error.
func start(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

var outcomeKind = &kind{
	name: "Outcome",
	doc:  "how a command ended",
	attrs: []attr{
		{"code", "int", "exit status; 128 and the signal's number when one killed it"},
		{"ok", "bool", "the exit status is 0"},
		{"stdout", "text", "what it printed"},
		{"stderr", "text", "what it printed there"},
		{"duration", "Duration", "how long it ran"},
	},
}

// outcome is what an Outcome is made of.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func (o outcome) record() *Record {
	text := fmt.Sprintf("exit %d in %s", o.code, muru.FormatMeasured(o.took))
	return outcomeKind.record(o, text, nil,
		starlark.MakeInt(o.code), starlark.Bool(o.code == 0), starlark.String(o.stdout), starlark.String(o.stderr), Duration(o.took))
}

var errorKind = &kind{
	name: "Error",
	doc:  "a failure that attempt() caught",
	attrs: []attr{
		{"kind", "text", "see the list of kinds"},
		{"message", "text", "what went wrong"},
		{"where", "text or None", "file:line:col"},
		{"stack", "list of text", "one line a call, innermost first"},
		{"hint", "text or None", "the way out"},
		{"rollout", "Rollout or None", "that it is about"},
	},
	lines: true,
}

// failure makes the Error that attempt returns.
func (s *Set) failure(e *script.Error) *Record {
	var stack []string
	for _, frame := range e.Stack {
		stack = append(stack, frame.String())
	}
	about := starlark.Value(starlark.None)
	if e.Rollout != 0 {
		if r, err := s.env.Engine.Rollout(e.Rollout); err == nil {
			about = s.rollout(r)
		}
	}
	return errorKind.record(e, e.Message, nil,
		starlark.String(e.Kind.String()), starlark.String(e.Message), textOrNone(e.Where), textList(stack), textOrNone(e.Hint), about)
}

var trafficKind = &kind{
	name: "Traffic",
	doc:  "requests that were sent, and what they were answered",
	attrs: []attr{
		{"requests", "int", "that ended"},
		{"statuses", "dict", "status: count; 0: the connection failed or was cut"},
		{"gave_up", "int", "not answered within the timeout"},
		{"releases", "dict", "name of the release that answered: count; apps of this muru only"},
		{"duration", "Duration", "how long it ran"},
		{"rate", "float", "requests per second"},
		{"p50", "Duration or None", "half of the answers came within it"},
		{"p95", "Duration or None", "95% of the answers came within it"},
		{"p99", "Duration or None", "99% of the answers came within it"},
		{"running", "bool", "it had not ended"},
	},
	columns: []string{"STATUS", "COUNT"},
}

// tally is what traffic has seen so far.
type tally struct {
	statuses map[int]int
	gaveUp   int
	releases map[string]int
	times    muru.Histogram // of answers
	took     time.Duration
	running  bool
	failure  string // the first connection that failed
}

func (t tally) requests() int {
	n := t.gaveUp
	for _, count := range t.statuses {
		n += count
	}
	return n
}

func (t tally) codes() []int {
	var codes []int
	for code := range t.statuses {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}

// String is such as: 6645 requests in 25 s: {200: 6618, 500: 27}, 3 gave up.
func (t tally) String() string {
	var counts []string
	for _, code := range t.codes() {
		counts = append(counts, fmt.Sprintf("%d: %d", code, t.statuses[code]))
	}
	text := fmt.Sprintf("%d requests in %s: {%s}", t.requests(), muru.FormatMeasured(t.took), strings.Join(counts, ", "))
	if t.gaveUp > 0 {
		text += fmt.Sprintf(", %d gave up", t.gaveUp)
	}
	return text
}

// trafficRecord makes a Traffic; load is what stop and wait act on.
func trafficRecord(l *load, t tally) *Record {
	statuses := starlark.NewDict(len(t.statuses))
	var rows [][]string
	for _, code := range t.codes() {
		statuses.SetKey(starlark.MakeInt(code), starlark.MakeInt(t.statuses[code]))
		label := strconv.Itoa(code)
		if code == 0 {
			label = "no answer"
		}
		rows = append(rows, []string{label, strconv.Itoa(t.statuses[code])})
	}
	if t.gaveUp > 0 {
		rows = append(rows, []string{"gave up", strconv.Itoa(t.gaveUp)})
	}
	quantile := func(q float64) starlark.Value {
		if d, ok := t.times.Quantile(q); ok {
			return Duration(d)
		}
		return starlark.None
	}
	rate := 0.0
	if t.took > 0 {
		rate = float64(t.requests()) / t.took.Seconds()
	}
	releases := sortedDict(t.releases, func(n int) starlark.Value { return starlark.MakeInt(n) })
	return trafficKind.record(l, t.String(), rows,
		starlark.MakeInt(t.requests()), statuses, starlark.MakeInt(t.gaveUp), releases, Duration(t.took), starlark.Float(rate),
		quantile(0.5), quantile(0.95), quantile(0.99), starlark.Bool(t.running))
}

// kinds lists every kind of value in the order of the reference.
var kinds = []*kind{
	appKind, releaseKind, rolloutKind, stepKind, gateKind, verdictKind, whyKind, windowKind, armKind, eventKind,
	trafficKind, responseKind, outcomeKind, workerKind, stackKind, frameKind, errorKind,
}
