package wire

import (
	"bufio"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// ControlThread is [Hello.Thread] of a worker's control connection.
const ControlThread = -1

// A Hello is what a worker says first on every connection.
type Hello struct {
	Version int
	Release string // shop@r6
	Worker  int
	Thread  int // ControlThread for the control connection
	PID     int
	Ident   uint64    // Python's threading.get_ident(), as in [ThreadStack.Ident]
	Started time.Time // when the worker started
	Token   string    // proves that it is the worker that was given it
}

// helloWords is the number of words of a hello, the first of which is fixed.
const helloWords = 9

// readHello reads the first frame of a connection.
func readHello(r *bufio.Reader) (Hello, error) {
	h, err := readHeader(r)
	if err != nil {
		return Hello{}, err
	}
	if h.flags != flagHello || h.body != 0 || h.head > 4096 {
		return Hello{}, protocolError("said no hello")
	}
	var scratch []byte
	text, err := readHead(r, h.head, &scratch)
	if err != nil {
		return Hello{}, err
	}
	return parseHello(text)
}

func parseHello(text string) (Hello, error) {
	words := strings.Split(text, "\x00")
	if len(words) < 2 || words[0] != "muru-worker" {
		return Hello{}, protocolError("said no hello")
	}
	if words[1] != strconv.Itoa(version) {
		return Hello{}, protocolError("speaks version %.20q of the protocol, not %d", words[1], version)
	}
	if len(words) != helloWords {
		return Hello{}, protocolError("said a hello of %d words, not %d", len(words), helloWords)
	}
	hello := Hello{Version: version, Release: words[2], Token: words[8]}
	var errs [5]error
	hello.Worker, errs[0] = strconv.Atoi(words[3])
	hello.Thread, errs[1] = strconv.Atoi(words[4])
	hello.PID, errs[2] = strconv.Atoi(words[5])
	hello.Ident, errs[3] = strconv.ParseUint(words[6], 10, 64)
	var started float64
	started, errs[4] = strconv.ParseFloat(words[7], 64)
	for i, err := range errs {
		if err != nil {
			return Hello{}, protocolError("said a hello with the bad number %.40q", words[3+i])
		}
	}
	if hello.Worker < 0 || hello.Thread < ControlThread || hello.PID < 1 || !(started > 0 && started < 1e11) {
		return Hello{}, protocolError("said a hello with a number out of range")
	}
	whole, part := math.Modf(started)
	hello.Started = time.Unix(int64(whole), int64(part*1e9))
	return hello, nil
}

// helloConn is a connection whose hello was read through a buffer.
type helloConn struct {
	net.Conn
	r *bufio.Reader
}
