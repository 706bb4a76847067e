//go:build !linux

package host

import (
	"errors"
	"os"
	"time"
)

// awaitExit returns when p has ended. Without waitid's WNOWAIT it reaps p, so
// the kill of its group that follows is, for an instant, a kill by a number
// that is free again.
func awaitExit(p *process) { _, _ = p.cmd.Process.Wait() }

func freeRead(*os.File, int64) error { return errors.ErrUnsupported }

// usage is not known here.
func usage(int) (rss int64, cpu time.Duration) { return 0, 0 }

// listeners are not known here.
func listeners(_, _ int) []listening { return nil }

// startTime is not known here: workers that outlived a daemon are left to end
// by themselves.
func startTime(int) string { return "" }
