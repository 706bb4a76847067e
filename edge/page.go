package edge

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"

	"muru"
)

// A format is a form of a failure page.
type format uint8

const (
	formatText format = iota
	formatHTML
	formatProblem
)

// writePage answers with muru's own page for a reason.
func (q *request) writePage(status int, reason muru.Reason, sentence string) {
	mediaType, page := renderPage(acceptedFormat(q.r.Header["Accept"]), status, reason, q.id, sentence)
	h := q.w.Header()
	clear(h)
	h["Content-Type"] = []string{mediaType}
	h["Content-Length"] = []string{strconv.Itoa(len(page))}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	if status == http.StatusServiceUnavailable {
		h["Retry-After"] = []string{"1"}
	}
	q.partOrKeep(h)
	if reason == muru.ReasonMalformed || reason == muru.ReasonBodyTooSlow {
		h["Connection"] = []string{"close"} // where the next request begins is anybody's guess
	}
	q.ownFields(h)
	q.w.WriteHeader(status)
	if q.r.Method != http.MethodHead {
		n, err := q.w.Write(page)
		q.pageBytes = int64(n)
		if err != nil {
			q.answer.lost(err)
		}
	}
}

// renderPage writes a failure page in the given format.
func renderPage(f format, status int, reason muru.Reason, id, sentence string) (mediaType string, page []byte) {
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	switch f {
	case formatHTML:
		e := html.EscapeString
		return "text/html; charset=utf-8", fmt.Appendf(nil, `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>%s</title>
<body style="font-family: sans-serif; margin: 3em">
<h1>%s</h1>
<p>%s</p>
<p>reason: %s<br>request id: %s</p>
</body></html>
`, e(title), e(title), e(sentence), e(reason.String()), e(id))
	case formatProblem:
		problem := struct {
			Type      string `json:"type"`
			Title     string `json:"title"`
			Status    int    `json:"status"`
			Detail    string `json:"detail"`
			Reason    string `json:"reason"`
			RequestID string `json:"request_id"`
		}{"about:blank", http.StatusText(status), status, sentence, reason.String(), id}
		page, err := json.Marshal(problem)
		if err != nil {
			panic("BUG: a problem of strings does not marshal: " + err.Error())
		}
		return "application/problem+json", append(page, '\n')
	default:
		return "text/plain; charset=utf-8",
			fmt.Appendf(nil, "%s\nreason: %s\nrequest id: %s\n%s\n", title, reason, id, sentence)
	}
}

// acceptedFormat chooses by an Accept header: of what it names, the one with
// the highest weight, and of equals the first. Text is for whoever names none
// of ours, such as curl with */*.
func acceptedFormat(lines []string) format {
	best, weight := formatText, 0
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(item, ";")
			f, ok := formatOf(strings.ToLower(strings.TrimSpace(media)))
			if w := weightOf(params); ok && w > weight {
				best, weight = f, w
			}
		}
	}
	return best
}

func formatOf(media string) (format, bool) {
	switch media {
	case "text/html", "application/xhtml+xml":
		return formatHTML, true
	case "application/problem+json", "application/json":
		return formatProblem, true
	case "text/plain", "text/*":
		return formatText, true
	}
	return formatText, false
}

// weightOf returns the q parameter in thousandths: 1000 when there is none, 0
// when it cannot be read.
func weightOf(params string) int {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return int(q*1000 + 0.5)
	}
	return 1000
}
