package wire

import (
	"strconv"
	"strings"

	"muru"
)

// A ThreadStack is where one thread of a worker is.
type ThreadStack struct {
	Ident   uint64       // [Hello.Ident] of the thread, if it is one of ours
	Name    string       // muru-thread-0; empty when unknown, as from [ParseFaulthandler]
	Current bool         // the thread that looked
	Frames  []muru.Frame // innermost first; the worker's own, muru_worker/..., are the last
}

func splitWords(text string) []string { return strings.Split(text, "\x00") }

// parseStacks reads the flat form in which a worker reports its stacks.
func parseStacks(words []string) ([]ThreadStack, error) {
	var stacks []ThreadStack
	bad := protocolError("sent stacks that cannot be read")
	for len(words) > 0 {
		if len(words) < 4 {
			return nil, bad
		}
		ident, err := strconv.ParseUint(words[0], 10, 64)
		count, err2 := strconv.Atoi(words[3])
		if err != nil || err2 != nil || count < 0 || count > len(words)/3 || len(words) < 4+3*count {
			return nil, bad
		}
		s := ThreadStack{Ident: ident, Name: words[1], Current: words[2] == "1"}
		words = words[4:]
		for ; count > 0; count-- {
			line, err := strconv.Atoi(words[1])
			if err != nil {
				return nil, bad
			}
			s.Frames = append(s.Frames, muru.Frame{File: words[0], Line: line, Function: words[2]})
			words = words[3:]
		}
		stacks = append(stacks, s)
	}
	return stacks, nil
}

// ParseFaulthandler reads what Python's faulthandler printed. Lines that it
// does not know are left out; of several dumps it reads the last. Files are
// as Python names them.
func ParseFaulthandler(text []byte) []ThreadStack {
	var stacks []ThreadStack
	seen := make(map[uint64]bool)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if s, ok := parseThreadLine(line); ok {
			if seen[s.Ident] {
				clear(seen)
				stacks = nil
			}
			seen[s.Ident] = true
			stacks = append(stacks, s)
			continue
		}
		if f, ok := parseFrameLine(line); ok && len(stacks) > 0 {
			last := &stacks[len(stacks)-1]
			last.Frames = append(last.Frames, f)
		}
	}
	return stacks
}

// parseThreadLine reads "Thread 0x00007f21 (most recent call first):" and
// "Current thread 0x00007f21 [name] (most recent call first):".
func parseThreadLine(line string) (ThreadStack, bool) {
	rest, current := strings.CutPrefix(line, "Current thread ")
	if !current {
		var ok bool
		if rest, ok = strings.CutPrefix(line, "Thread "); !ok {
			return ThreadStack{}, false
		}
	}
	rest, ok := strings.CutSuffix(rest, " (most recent call first):")
	if !ok {
		return ThreadStack{}, false
	}
	number, name, _ := strings.Cut(rest, " ")
	hex, ok := strings.CutPrefix(number, "0x")
	ident, err := strconv.ParseUint(hex, 16, 64)
	if !ok || err != nil {
		return ThreadStack{}, false
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return ThreadStack{Ident: ident, Name: name, Current: current}, true
}

// parseFrameLine reads `  File "app.py", line 27 in order`.
func parseFrameLine(line string) (muru.Frame, bool) {
	rest, ok := strings.CutPrefix(line, `  File "`)
	if !ok {
		return muru.Frame{}, false
	}
	i := strings.LastIndex(rest, `", line `)
	if i < 0 {
		return muru.Frame{}, false
	}
	number, function, ok := strings.Cut(rest[i+len(`", line `):], " in ")
	n, err := strconv.Atoi(number)
	if err != nil {
		n = 0 // Python prints ??? when it does not know
	}
	return muru.Frame{File: rest[:i], Line: n, Function: function}, ok && n >= 0
}
