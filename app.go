package muru

import (
	"fmt"
	"strconv"
	"strings"
)

// An App is a snapshot of one web application: what is asked for and what
// serves it now. Release numbers are 0 where there is none.
type App struct {
	Name      string
	URL       string // where this edge serves it, such as http://127.0.0.1:8080/
	Route     Route
	Baseline  int   // the release serving everything else
	Candidate int   // the release being tried
	Split     Split // zero when nothing serves
	Held      []int
	Warm      []int
	Rollout   int // the live rollout's number
}

func (a App) String() string { return a.Name }

// CheckName reports whether name can name an app: 1 to 63 lower-case letters,
// digits and hyphens, starting with a letter. Names end up in metrics, file
// names and cookies, so they are checked once, where they enter.
func CheckName(name string) error {
	ok := len(name) >= 1 && len(name) <= 63
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-') {
			ok = false
		}
	}
	if !ok {
		return Errorf(KindUsage, "%q is not an app name", name).
			WithHint("1 to 63 lower-case letters, digits and hyphens, starting with a letter")
	}
	return nil
}

// A ReleaseID names one release of one app: shop@r6. The zero value names
// none. It is comparable.
type ReleaseID struct {
	App    string
	Number int
}

// String returns the full name, such as shop@r6.
func (id ReleaseID) String() string { return id.App + "@" + id.Name() }

// Name returns the name within the app, such as r6.
func (id ReleaseID) Name() string { return "r" + strconv.Itoa(id.Number) }

// IsZero reports whether id names no release.
func (id ReleaseID) IsZero() bool { return id == ReleaseID{} }

// ParseReleaseID parses shop@r6, or r6 where app is not empty.
func ParseReleaseID(text, app string) (ReleaseID, error) {
	name, number, full := strings.Cut(text, "@")
	if !full {
		name, number = app, text
	}
	n, ok := parseReleaseNumber(number)
	if !ok || name == "" {
		hint := `write it as "shop@r6"`
		return ReleaseID{}, Errorf(KindUsage, "%q is not a release", text).WithHint("%s", hint)
	}
	if full && app != "" && name != app {
		return ReleaseID{}, Errorf(KindUsage, "%s is not a release of %s", text, app)
	}
	if err := CheckName(name); err != nil {
		return ReleaseID{}, err
	}
	return ReleaseID{App: name, Number: n}, nil
}

// parseReleaseNumber parses r6 as 6; leading zeros and signs are refused, so
// that a release has one name.
func parseReleaseNumber(text string) (int, bool) {
	digits, ok := strings.CutPrefix(text, "r")
	if !ok || digits == "" || len(digits) > 9 || digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// WorkerName names a worker of a release for people: shop@r8 worker 0.
func WorkerName(id ReleaseID, worker int) string { return fmt.Sprintf("%s worker %d", id, worker) }
