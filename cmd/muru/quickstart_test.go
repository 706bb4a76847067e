package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// visitorsOf is the script command "visitors DIR": it holds what the
// quickstart has just said its visitors were answered against the access log
// in its state directory. Nobody is lost, no connection is cut, and each bad
// release fails only in its own way.
func visitorsOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: visitors DIR")
	}
	counted := 0
	for _, m := range regexp.MustCompile(`(?m)^  v\d  (\d+) requests in .*: \{(.*)\}$`).FindAllStringSubmatch(ts.ReadFile("stdout"), -1) {
		n, err := strconv.Atoi(m[1])
		ts.Check(err)
		counted += n
		if regexp.MustCompile(`\b(0|502|503): `).MatchString(m[2]) {
			ts.Fatalf("visitors were answered %s", m[2])
		}
	}
	logged, timeouts := 0, 0
	for _, l := range accessLines(ts, ts.MkAbs(args[0])) {
		logged++
		switch {
		case l.Status == 200, l.Status == 500 && l.Release == "r2":
		case l.Status == 504 && l.Release == "r4" && l.Reason == "hard_timeout":
			timeouts++
			// 3 s and at most 100 ms where nobody else uses the machine.
			if took := time.Duration(l.Duration * float64(time.Millisecond)); took < 3*time.Second || took > 4*time.Second {
				ts.Fatalf("a 504 took %v", took)
			}
		default:
			ts.Fatalf("a visitor was answered %+v", l)
		}
	}
	if counted == 0 || counted != logged {
		ts.Fatalf("the visitors count %d requests, the access log has %d", counted, logged)
	}
	if timeouts == 0 || timeouts > 8 {
		ts.Fatalf("%d visitors waited for a hard timeout", timeouts)
	}
}

// An accessLine is what visitorsOf wants of a line of an access log.
type accessLine struct {
	Release, Reason string
	Status          int
	Duration        float64 `json:"duration_ms"`
}

// accessLines reads the access log of a state directory, oldest file first:
// access-TIME.log sorts before access.log.
func accessLines(ts *testscript.TestScript, state string) []accessLine {
	names, err := filepath.Glob(filepath.Join(state, "access*.log"))
	ts.Check(err)
	var files []io.Reader
	for _, name := range names {
		file, err := os.Open(name)
		ts.Check(err)
		defer file.Close()
		files = append(files, file)
	}
	var lines []accessLine
	for dec := json.NewDecoder(bufio.NewReader(io.MultiReader(files...))); ; {
		var l accessLine
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return lines
		}
		ts.Check(err)
		lines = append(lines, l)
	}
}
