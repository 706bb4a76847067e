package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// awaitExit returns when p has ended and leaves it to be reaped, so that its
// process group can be ended while its number is still taken.
func awaitExit(p *process) {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// freeRead gives the file's blocks before end back to the disk. Offsets do
// not change, so whoever appends to the file loses nothing.
func freeRead(f *os.File, end int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, end)
}

// clockTicks is USER_HZ, which is 100 on every architecture Go runs on.
const clockTicks = 100

// usage reads a process' resident memory in bytes and the processor time it
// took. Zeros when it is gone.
func usage(pid int) (rss int64, cpu time.Duration) {
	fields := statFields(pid)
	if len(fields) < 22 {
		return 0, 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	return pages * int64(os.Getpagesize()), time.Duration(user+system) * (time.Second / clockTicks)
}

// startTime identifies a process among all that had its number: ticks since
// boot, empty when there is none.
func startTime(pid int) string {
	fields := statFields(pid)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// statFields returns the fields of /proc/PID/stat from the third, the state,
// on: the second, the name, may hold anything.
func statFields(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	end := bytes.LastIndexByte(text, ')')
	var fields []string
	for _, f := range bytes.Fields(text[end+1:]) {
		fields = append(fields, string(f))
	}
	return fields
}
