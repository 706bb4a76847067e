package wire

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"muru"
)

// A Report is what a worker says of itself.
type Report struct {
	Ready  bool   // the application was imported and every thread has connected once
	Failed string // why it cannot serve, in one line, such as "ModuleNotFoundError: No module named 'x'"; it exits with status 1 after this
}

// Control is a worker's control connection. All methods are safe for
// concurrent use. Serve must be running for Stacks to return stacks.
type Control struct {
	Hello Hello

	conn net.Conn

	mu      sync.Mutex
	next    uint32                        // id of the next question
	waiting map[uint32]chan []ThreadStack // capacity 1
	ended   chan struct{}                 // closed when Serve returns
}

// NewControl returns the control connection of the worker that said h on c.
// It owns c.
func NewControl(h Hello, c net.Conn) *Control {
	return &Control{Hello: h, conn: c, waiting: make(map[uint32]chan []ThreadStack), ended: make(chan struct{})}
}

// Serve reads what the worker sends and calls report, until the connection
// ends; then it returns a [*ProtocolError] or an error with [ErrClosed] in its
// chain. It is called once.
func (c *Control) Serve(report func(Report)) error {
	defer close(c.ended)
	r := bufio.NewReaderSize(c.conn, 1024)
	var scratch []byte
	for {
		h, err := readHeader(r)
		if err != nil {
			return err
		}
		if h.body != 0 || h.head > maxHead {
			return protocolError("sent a frame out of order on its control connection")
		}
		text, err := readHead(r, h.head, &scratch)
		if err != nil {
			return err
		}
		if err := c.take(h.id, text, report); err != nil {
			return err
		}
	}
}

func (c *Control) take(id uint32, text string, report func(Report)) error {
	words := splitWords(text)
	switch {
	case words[0] == "ready" && len(words) == 1:
		report(Report{Ready: true})
	case words[0] == "failed" && len(words) == 2:
		report(Report{Failed: muru.OneLine(words[1])})
	case words[0] == "stacks":
		stacks, err := parseStacks(words[1:])
		if err != nil {
			return err
		}
		c.mu.Lock()
		answer := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if answer != nil {
			answer <- stacks
		}
	default:
		return protocolError("said %.40q on its control connection", text)
	}
	return nil
}

// Stacks asks the worker where its threads are. It returns [ErrUnresponsive]
// when ctx ends first, as it does while C code holds the interpreter (then
// [Dump] helps), and [ErrClosed] when the connection ended.
func (c *Control) Stacks(ctx context.Context) ([]ThreadStack, error) {
	answer := make(chan []ThreadStack, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.say(id, "stacks"); err != nil {
		return nil, err
	}
	select {
	case stacks := <-answer:
		return stacks, nil
	case <-c.ended:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ErrUnresponsive
	}
}

// Exit asks the worker to end at once, whatever it is at. That it did is for
// the caller to see.
func (c *Control) Exit() error { return c.say(0, "exit") }

// Close closes the connection; the worker then looks for another daemon.
func (c *Control) Close() error { return c.conn.Close() }

func (c *Control) say(id uint32, command string) error {
	b := make([]byte, headerSize, headerSize+len(command))
	header{head: uint32(len(command)), id: id}.put(b)
	// A worker that reads nothing has room for thousands of these, so the
	// deadline is never met by one that is merely slow.
	_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := c.conn.Write(append(b, command...)); err != nil {
		return closedError(err)
	}
	return nil
}
