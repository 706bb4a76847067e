package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"
)

// messages asks for a stream and gives its messages to out until it ends. A
// server that says nothing at all for long, not even that it is alive, is
// taken for dead. What is asked for with POST is work, and work that is given
// up may have something to say of what it did: see [leaving].
func (c *Client) messages(asked context.Context, method, path string, body any, out func(Message)) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(asked))
	defer cancel(nil)
	var l leaving
	if method == http.MethodPost {
		ctx = httptrace.WithClientTrace(ctx, l.trace())
	}
	defer context.AfterFunc(asked, func() { l.leave(func() { cancel(context.Cause(asked)) }) })()
	err := c.hear(ctx, method, path, body, out)
	if err != nil && asked.Err() != nil {
		return context.Cause(asked)
	}
	return err
}

// hear is messages until ctx ends.
func (c *Client) hear(ctx context.Context, method, path string, body any, out func(Message)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(c.silence, func() {
		cancel(c.gone(fmt.Errorf("it has said nothing for %s", c.silence)))
	})
	defer quiet.Stop()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(lines, maxLine))
		if err != nil {
			return c.cut(ctx, err)
		}
		return c.refusal(resp, text)
	}
	for {
		quiet.Reset(c.silence)
		text, err := readLine(lines)
		if err != nil {
			return c.cut(ctx, err)
		}
		// What out takes its time for is not the server's silence.
		quiet.Stop()
		l, err := decodeLine(text)
		if err != nil {
			return c.stranger(err)
		}
		switch l.Kind {
		case kindEnd:
			return nil
		case kindError:
			if l.Error == nil {
				l.Error = &wireError{}
			}
			return l.Error.error()
		case kindAlive:
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m, err := l.message()
		if err != nil {
			return c.stranger(err)
		}
		out(m)
	}
}

// readLine reads one line, of maxLine bytes at most.
func readLine(r *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := r.ReadSlice('\n')
		if err == nil && whole == nil {
			return part, nil // valid until the next read, and used before it
		}
		if len(whole)+len(part) > maxLine {
			return nil, fmt.Errorf("a line of the answer has over %d MiB", maxLine>>20)
		}
		whole = append(whole, part...)
		if err == nil {
			return whole, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
}
