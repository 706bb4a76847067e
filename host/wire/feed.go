package wire

import (
	"io"

	"muru"
)

// A feed sends the body of one large request, a part for each pull, from a
// goroutine of its own: the link's must notice the worker's end also while
// the client sends nothing.
type feed struct {
	link *Link
	x    *muru.Exchange
	id   uint32
	left int64         // of a body of known length, else -1
	want chan struct{} // a pull; closed when the request is over

	over bool  // guarded by link.wmu: nothing more may be written
	err  error // guarded by link.wmu: what reading the body returned
}

// pull answers the worker's wish for the next part of the body.
func (l *Link) pull(x *muru.Exchange, id uint32) error {
	if l.feed == nil {
		if x.Body == nil {
			return protocolError("asked for the body of a request without one")
		}
		f := &feed{link: l, x: x, id: id, left: x.Length, want: make(chan struct{}, 1)}
		l.wmu.Lock()
		l.feed = f
		l.wmu.Unlock()
		go f.run()
	}
	select {
	case l.feed.want <- struct{}{}:
		return nil
	default:
		return protocolError("asked for two parts of a request's body at once")
	}
}

// endFeed stops the feed, if there is one, and returns what reading the body
// returned. It does not wait for a Read that blocks.
func (l *Link) endFeed() error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	f := l.feed
	if f == nil {
		return nil
	}
	l.feed = nil
	f.over = true
	close(f.want)
	return f.err
}

// bodyFailed reports whether the body could not be read.
func (l *Link) bodyFailed() bool {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	return l.feed != nil && l.feed.err != nil
}

func (f *feed) run() {
	frame := make([]byte, headerSize+partSize)
	for range f.want {
		n, more, err := f.read(frame[headerSize:])
		h := header{body: uint32(n), id: f.id, flags: flagBody}
		switch {
		case err != nil:
			h.body, h.flags = 0, flagBody|flagBroken
		case more:
			h.flags |= flagMore
		}
		h.put(frame)
		if !f.write(frame[:headerSize+int(h.body)], err) {
			return
		}
	}
}

// write sends a frame unless the request is over, and records bodyErr.
func (f *feed) write(frame []byte, bodyErr error) bool {
	l := f.link
	l.wmu.Lock()
	defer l.wmu.Unlock()
	if f.over {
		return false
	}
	f.err = bodyErr
	return l.write(frame) == nil // the reading side notices what is wrong
}

// read reads the next part and reports whether there may be more.
func (f *feed) read(p []byte) (n int, more bool, err error) {
	if f.left >= 0 {
		p = p[:min(int64(len(p)), f.left)]
	}
	for n == 0 && err == nil && len(p) > 0 {
		n, err = f.x.Body.Read(p)
	}
	if f.left >= 0 {
		f.left -= int64(n)
	}
	switch {
	case f.left == 0:
		return n, false, nil
	case err == nil:
		return n, true, nil
	case err == io.EOF && f.left < 0:
		return n, false, nil
	case n > 0:
		return n, true, nil // the error comes again with the next Read
	}
	return 0, false, shortBody(err)
}
