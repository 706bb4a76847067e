package host

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muru"
)

func TestProgramThatTookAWorkersPortIsNotTakenForIt(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	h, _ := newHost(t, Options{})
	// As if it had been free when we looked.
	h.freePort = func() (int, error) { return port, nil }
	_, err = h.Start(t.Context(), command(t, []string{"/bin/sleep", "60"}, func(r *muru.Release) {
		r.Timeouts.Ready = 700 * time.Millisecond
	}))
	want := "its port " + strconv.Itoa(port) + " was taken by another program (pid " + strconv.Itoa(os.Getpid()) + ") before it listened"
	if failure, ok := errors.AsType[*muru.Error](err); !ok || !strings.HasSuffix(failure.Message, want) {
		t.Errorf("error %v, want …%s", err, want)
	}
}

// A server may make a session of its own, as containers do.
func TestWorkersServerMayBeOutsideOfItsGroup(t *testing.T) {
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Fatal(err)
	}
	h, _ := newHost(t, Options{})
	b := start(t, h, command(t, append([]string{setsid, "--wait"}, httpServer...), func(r *muru.Release) {
		r.Env[helperKey] = "http"
	}))
	wantOK(t, do(t.Context(), b, "/hello"))
	do(t.Context(), b, "/exit") // it is outside of our reach, too
}

func TestPortIsGivenToOneWorkerAtATime(t *testing.T) {
	h, _ := newHost(t, Options{})
	free := []int{7001, 7001, 7001, 7002}
	h.freePort = func() (int, error) {
		next := free[0]
		free = free[1:]
		return next, nil
	}
	first, _ := h.takePort()
	second, _ := h.takePort()
	h.givePort(first)
	free = []int{7001}
	if third, _ := h.takePort(); first != 7001 || second != 7002 || third != 7001 {
		t.Errorf("ports %d, %d, %d", first, second, third)
	}
	h.givePort(0)
}

func TestListeningInodesAreFoundByTheirPort(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4713 1
   3: 0100007F:1F91 00000000:0000 0A
`
	if got := listeningInodes([]byte(table), 8080); !slices.Equal(got, []string{"4711", "4713"}) {
		t.Errorf("got %q", got)
	}
}
