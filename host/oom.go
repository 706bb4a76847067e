package host

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// The kernel does not say whom it killed for want of memory, but it counts
// the kills in each control group, those for want of memory in the whole
// machine included. A worker that a SIGKILL ended which is not ours, while
// the count of our group went up, was one of them.

// noteOOM takes the count before a worker starts.
func (h *Host) noteOOM(w *worker) { w.oomBefore = h.oomKills() }

// oomKilled reports whether the kernel killed w for want of memory. Each kill
// explains one death; a process that a worker had started may leave one over,
// which is forgotten when its worker is replaced.
func (h *Host) oomKilled(w *worker) bool {
	now := h.oomKills()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.oomSeen = max(h.oomSeen, w.oomBefore)
	if now <= h.oomSeen {
		return false
	}
	h.oomSeen++
	return true
}

// oomKills counts the kills for want of memory in this process' control
// group, 0 where that is not known.
func oomKills() int64 {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	for _, file := range oomFiles(string(groups)) {
		if text, err := os.ReadFile(file); err == nil {
			return countOOM(string(text))
		}
	}
	return 0
}

// oomFiles are the files that may have the count, the likeliest first. In a
// container the group's path may be one of outside, and its files at the top.
func oomFiles(groups string) (files []string) {
	const top = "/sys/fs/cgroup"
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[1] == "": // version 2
			files = append(files, path.Join(top, fields[2], "memory.events"), top+"/memory.events")
		case fields[1] == "memory": // version 1
			files = append(files, path.Join(top, "memory", fields[2], "memory.oom_control"), top+"/memory/memory.oom_control")
		}
	}
	return files
}

func countOOM(text string) int64 {
	for line := range strings.Lines(text) {
		if digits, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			n, _ := strconv.ParseInt(digits, 10, 64)
			return n
		}
	}
	return 0
}
