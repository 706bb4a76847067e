package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"muru"
)

// A QueryFunc asks a store that speaks Prometheus' HTTP API for the value of
// an expression now. ok is false if it has none. It must return soon after ctx
// ends, and is safe for concurrent use.
type QueryFunc func(ctx context.Context, store, expression string) (value float64, ok bool, err error)

// answerMax bounds what is read of a store's answer: one number is wanted.
const answerMax = 1 << 20

// queryStore is the [QueryFunc] of real stores: an instant query by
// GET store/api/v1/query.
func queryStore(ctx context.Context, store, expression string) (value float64, ok bool, err error) {
	target := strings.TrimSuffix(store, "/") + "/api/v1/query?query=" + url.QueryEscape(expression)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, false, errors.New("the url is none that can be asked")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, false, withoutURL(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerMax))
	if err != nil {
		return 0, false, fmt.Errorf("read the store's answer: %w", err)
	}
	return readAnswer(answer.StatusCode, body)
}

// withoutURL drops the address from an error, since it may hold a password.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("ask the store: %w", e.Err)
	}
	return err
}

// readAnswer reads the one number of an answer. An empty answer and one that
// is not a number are none.
func readAnswer(status int, body []byte) (value float64, ok bool, err error) {
	var a struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Type   string          `json:"resultType"`
			Result json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return 0, false, fmt.Errorf("the store answered %s, and not as Prometheus does", textStatus(status))
	}
	if a.Status != "success" {
		if a.Error == "" {
			a.Error = "no reason given"
		}
		return 0, false, fmt.Errorf("the store answered %s: %s", textStatus(status), shorten(a.Error))
	}
	var sample [2]any
	switch a.Data.Type {
	case "scalar":
		err = json.Unmarshal(a.Data.Result, &sample)
	case "vector":
		var series []struct {
			Value [2]any `json:"value"`
		}
		if err = json.Unmarshal(a.Data.Result, &series); err != nil {
			break
		}
		switch len(series) {
		case 0:
			return 0, false, nil
		case 1:
			sample = series[0].Value
		default:
			return 0, false, fmt.Errorf("the query has %d results: aggregate it to one, as by sum()", len(series))
		}
	default:
		return 0, false, fmt.Errorf("the query's result is a %.20s, not a number", a.Data.Type)
	}
	text, isText := sample[1].(string)
	if err == nil && isText {
		value, err = strconv.ParseFloat(text, 64)
	}
	if err != nil || !isText {
		return 0, false, errors.New("the query's result is not a number")
	}
	return value, !math.IsNaN(value), nil
}

// completeQuery checks a gate on what a store says.
func completeQuery(i int, g muru.Gate) (muru.Gate, error) {
	usage := func(format string, args ...any) (muru.Gate, error) {
		return g, muru.Errorf(muru.KindUsage, "gates[%d]: %s", i, fmt.Sprintf(format, args...))
	}
	for _, name := range builtinGates {
		if g.Name == name {
			return usage("%s is measured by muru and takes no query", name)
		}
	}
	switch u, err := url.Parse(g.URL); {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return usage("%s: the url is not one of http or https", g.Name)
	case strings.TrimSpace(g.Query) == "":
		return usage("%s has no query", g.Name)
	case g.Max.Unit != muru.UnitNumber:
		return usage("%s has no max", g.Name)
	}
	g.Within = cmpOr(g.Within, probeWithin)
	g.Every = cmpOr(g.Every, 5*time.Second)
	return g, nil
}

// expression is a gate's query about these releases: their names, as in the
// label release of muru's own metrics, take the places of {{candidate}} and
// {{baseline}}.
func expression(g muru.Gate, who arms) string {
	return strings.NewReplacer("{{candidate}}", who.Candidate.Name(), "{{baseline}}", who.Baseline.Name()).Replace(g.Query)
}

// askStore asks a gate's store and words the verdict. An error or an empty
// answer is never a pass.
func (x *examiner) askStore(ctx context.Context, g muru.Gate) muru.Verdict {
	value, ok, err := x.query(ctx, g.URL, expression(g, x.who))
	v := muru.Verdict{Gate: g.Name, Limit: g.Max}
	switch {
	case ctx.Err() != nil && err != nil:
		v.Result, v.Message = muru.GateError, textNoAnswer(g.Within)
	case err != nil:
		v.Result, v.Message = muru.GateError, err.Error()
	case !ok:
		v.Message = "its query has no result"
	default:
		v.Candidate = muru.NumberOf(value)
		if v.Result = muru.Pass; value > g.Max.Value {
			v.Result, v.Message = muru.Fail, textQuery(g.Name, v.Candidate, v.Limit)
		}
	}
	return v
}

func textQuery(name string, value, limit muru.Measure) string {
	return fmt.Sprintf("%s %s over the limit of %s", name, value, limit)
}
