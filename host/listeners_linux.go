package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listeners returns the processes that listen on a TCP port, as far as we may
// know: those of other users, root's mostly, are not among them. If likely is
// one of them, no others are looked for: that takes long on large machines.
func listeners(port, likely int) []listening {
	sockets := make(map[string]bool)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for _, inode := range listeningInodes(text, port) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	if own := fmt.Sprintf("/proc/%d/fd", likely); holds(own, sockets) {
		dirs = []string{own}
	}
	var found []listening
	for _, dir := range dirs {
		if !holds(dir, sockets) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(dir, "/")[2])
		if fields := statFields(pid); len(fields) >= 20 {
			group, _ := strconv.Atoi(fields[2])
			started, _ := strconv.ParseInt(fields[19], 10, 64)
			found = append(found, listening{pid: pid, group: group, started: started})
		}
	}
	return found
}

// holds reports whether one of the descriptors in dir is one of the sockets.
func holds(dir string, sockets map[string]bool) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && sockets[to] {
			return true
		}
	}
	return false
}

// listeningInodes finds the sockets that listen on a port in the text of
// /proc/net/tcp: "sl local_address rem_address st … uid timeout inode …".
func listeningInodes(text []byte, port int) (inodes []string) {
	suffix := fmt.Sprintf(":%04X", port)
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) > 9 && fields[3] == "0A" && strings.HasSuffix(fields[1], suffix) {
			inodes = append(inodes, fields[9])
		}
	}
	return inodes
}
