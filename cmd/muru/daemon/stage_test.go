package daemon

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/person"
	"muru/cmd/muru/visitortest"
	"muru/control"
	"muru/rollout"
)

// A stage is a house in which shop@r1 serves, the application in
// testdata/apps/shop, for a test that runs pieces of recipes in it.
type stage struct {
	*House
	t   *testing.T
	dir string
	url string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{House: openTestHouse(t), t: t, dir: visitortest.ShortDir(t)}
	s.url = "http://" + s.address
	s.must(`deploy("shop", SHOP)`)
	return s
}

// run executes a piece of a recipe, whose lines are numbered from 1, and
// returns what a person sees of it. SHOP and BROKEN are directories of
// releases.
func (s *stage) run(source string) (out string, err error) {
	s.t.Helper()
	apps, err := filepath.Abs("../testdata/apps")
	if err != nil {
		s.t.Fatal(err)
	}
	source = strings.NewReplacer("SHOP", `"`+apps+`/shop"`, "BROKEN", `"`+apps+`/broken"`).Replace(source)
	file := filepath.Join(s.dir, "r.star")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		s.t.Fatal(err)
	}
	var b bytes.Buffer
	r := NewRunner(s.runnerOptions())
	rec := Recipe{Path: "r.star", Dir: s.dir, By: "tester"}
	if _, err := r.check(rec); err != nil {
		return b.String(), err
	}
	err = r.RunRecipe(s.t.Context(), rec, person.NewTerminal(&b, &b))
	return b.String(), err
}

// must is run for a piece that has to succeed.
func (s *stage) must(source string) string {
	s.t.Helper()
	out, err := s.run(source)
	if err != nil {
		s.t.Fatalf("%s\n%s", control.ErrorText(err), out)
	}
	return out
}

// fails runs a piece that has to fail with what a regular expression for the
// whole text says, and in which the baseline goes on serving.
func (s *stage) fails(source, want string) {
	s.t.Helper()
	_, err := s.run(source)
	if err == nil {
		s.t.Errorf("%s did not fail", source)
	} else if text := fromLine1(err); !regexp.MustCompile(`^` + want + `$`).MatchString(text) {
		s.t.Errorf("%s\nfailed with %q\nwant        %q", source, text, want)
	}
	s.serves("shop@r1")
}

// fromLine1 is the text of an error in the first line of a piece, without its
// position.
func fromLine1(err error) string {
	text, ok := strings.CutPrefix(control.ErrorText(err), "r.star:1:1: ")
	if !ok {
		return text
	}
	before, after, _ := strings.Cut(text, "\n  at r.star:1:1 in <toplevel>")
	return before + after
}

// serves checks that a new visitor is answered by a release.
func (s *stage) serves(release string) {
	s.t.Helper()
	if a := s.get("/"); a.Code != 200 || a.Body != "hello from "+release+"\n" {
		s.t.Errorf("visitors get %+v, want %s", a, release)
	}
}

// get requests a page as a visitor who was never here; fields are
// "Name: value".
func (s *stage) get(path string, fields ...string) visitortest.Answer {
	return visitortest.Visit(s.t.Context(), http.DefaultClient, s.url+path, fields...)
}

// events returns the messages of the events of a kind so far.
func (s *stage) events(kind string) []string {
	var messages []string
	for _, e := range s.engine.Events(rollout.EventQuery{Kind: kind}) {
		messages = append(messages, e.Subject+" "+e.Message)
	}
	return messages
}

// waitEvent waits for an event of a kind whose subject and message match.
func (s *stage) waitEvent(kind, want string) {
	s.t.Helper()
	pattern := regexp.MustCompile(want)
	if !visitortest.Within(10*time.Second, func() bool {
		for _, m := range s.events(kind) {
			if pattern.MatchString(m) {
				return true
			}
		}
		return false
	}) {
		s.t.Errorf("events %s: %q, want one with %q", kind, s.events(kind), want)
	}
}

// pids returns the processes of a release.
func (s *stage) pids(release string) []int {
	s.t.Helper()
	id, err := muru.ParseReleaseID(release, "")
	if err != nil {
		s.t.Fatal(err)
	}
	var pids []int
	for _, w := range s.host.Workers(id) {
		pids = append(pids, w.PID)
	}
	return pids
}

// come sends n visitors to a page.
func (s *stage) come(n int, path string, every, giveUp time.Duration) *visitortest.Visitors {
	return visitortest.Come(s.t, s.url+path, n, every, giveUp)
}

// on is the stage in a subtest.
func (s *stage) on(t *testing.T) *stage {
	sub := *s
	sub.t = t
	return &sub
}

// port is the one the edge listens on.
func (s *stage) port() string {
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	return port
}
