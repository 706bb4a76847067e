package upstream

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"pgregory.net/rapid"

	"muru"
)

// upgrading is a small front: it serves with net/http, as the edge does, and
// passes everything on to c.
type upgrading struct {
	c    *Client
	ctx  func(*http.Request) context.Context
	done chan error
}

func (u *upgrading) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &muru.Exchange{Method: r.Method, Target: r.RequestURI, Proto: r.Proto, Host: r.Host,
		Upgrade: r.Header.Get("Upgrade") != "", Answer: &upgradingAnswer{w: w}}
	for name, values := range r.Header {
		for _, v := range values {
			x.Header = append(x.Header, muru.Field{Name: name, Value: v})
		}
	}
	u.done <- u.c.Do(u.ctx(r), x, Hooks{})
}

type upgradingAnswer struct {
	muru.Answer
	w http.ResponseWriter
}

func (a *upgradingAnswer) Upgrade(status int, header []muru.Field) (io.ReadWriteCloser, error) {
	nc, rw, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		return nil, err
	}
	head := "HTTP/1.1 101 Switching Protocols\r\n"
	for _, f := range header {
		head += f.Name + ": " + f.Value + "\r\n"
	}
	if _, err := io.WriteString(nc, head+"\r\n"); err != nil {
		return nil, err
	}
	return &hijacked{nc.(*net.TCPConn), rw.Reader}, nil
}

type hijacked struct {
	*net.TCPConn
	r *bufio.Reader
}

func (h *hijacked) Read(p []byte) (int, error) { return h.r.Read(p) }

// echoing returns a client's WebSocket that goes through Do to a server which
// echoes messages.
func echoing(t *testing.T, ctx func(*http.Request) context.Context) (*websocket.Conn, <-chan error) {
	server := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		for {
			kind, data, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			if err := ws.Write(r.Context(), kind, data); err != nil {
				return
			}
		}
	})
	u := &upgrading{c: client(t, server), ctx: ctx, done: make(chan error, 1)}
	front := serveHTTP(t, u.ServeHTTP)
	ws, _, err := websocket.Dial(within(t), "ws://"+front.Address+"/echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.CloseNow() })
	ws.SetReadLimit(1 << 20)
	return ws, u.done
}

func mustEcho(t *testing.T, ws *websocket.Conn, text string) {
	t.Helper()
	if err := ws.Write(within(t), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := ws.Read(within(t)); err != nil || string(got) != text {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
}

func TestWebSocketEchoesThroughUpgrade(t *testing.T) {
	ws, done := echoing(t, (*http.Request).Context)
	for _, n := range []int{0, 5, 125, 126, 65535, 65536, 250_000} {
		mustEcho(t, ws, strings.Repeat("x", n))
	}
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	// The client ended its connection, which net/http may notice before the
	// server has ended its own: then the request's context ends.
	err := receive(t, done, "end of the tunnel")
	if reason, _ := muru.ReasonOf(err); err != nil && reason != muru.ReasonClientGone {
		t.Error(err)
	}
}

func TestWebSocketCutByADrainIsToldSo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(within(t))
	ws, done := echoing(t, func(*http.Request) context.Context { return ctx })
	mustEcho(t, ws, strings.Repeat("x", 70_000))
	cancel(muru.ErrDrainCut)
	if _, _, err := ws.Read(within(t)); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("got %v, want a close frame with status 1001", err)
	}
	if err := receive(t, done, "end of the tunnel"); !errors.Is(err, muru.ErrDrainCut) {
		t.Errorf("got %v", err)
	}
}

func TestFramesEndWhereTheyEndHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		ends := map[int]bool{0: true}
		for range rapid.IntRange(0, 5).Draw(t, "frames") {
			n := rapid.SampledFrom([]int{0, 1, 125, 126, 300, 65535, 65536}).Draw(t, "payload")
			masked := rapid.Bool().Draw(t, "masked")
			head := []byte{0x82, 0}
			switch {
			case n < 126:
				head[1] = byte(n)
			case n < 65536:
				head = binary.BigEndian.AppendUint16([]byte{0x82, 126}, uint16(n))
			default:
				head = binary.BigEndian.AppendUint64([]byte{0x82, 127}, uint64(n))
			}
			if masked {
				head[1] |= 0x80
				head = append(head, 1, 2, 3, 4)
			}
			stream = append(append(stream, head...), make([]byte, n)...)
			ends[len(stream)] = true
		}
		var f frameTracker
		for at := 0; at < len(stream); {
			n := min(rapid.SampledFrom([]int{1, 2, 3, 7, 1000, 70000}).Draw(t, "piece"), len(stream)-at)
			f.see(stream[at : at+n])
			at += n
			if f.between() != ends[at] {
				t.Fatalf("between frames at %d: %v", at, f.between())
			}
		}
	})
}

// tunnelled starts an upgraded exchange with a server that speaks after its
// 101 as serve says. It returns the client's end.
func tunnelled(t *testing.T, ctx context.Context, serve func(c net.Conn, r *bufio.Reader)) (net.Conn, <-chan error) {
	t.Helper()
	opt := serveRaw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if req, err := http.ReadRequest(r); err != nil || req.Header.Get("Upgrade") != "echo" || req.Header.Get("Connection") != "Upgrade" {
			t.Errorf("got request %v, %v", req, err)
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: Echo\r\n\r\nfirst")
		serve(c, r)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a := &recorder{client: far}
	x := request("GET", "/", a)
	x.Upgrade = true
	x.Header = append(x.Header, muru.Field{Name: "Connection", Value: "Upgrade"}, muru.Field{Name: "Upgrade", Value: "echo"})
	done, up := make(chan error, 1), make(chan struct{})
	c := client(t, opt)
	go func() { done <- c.Do(ctx, x, Hooks{Upgraded: func() { close(up) }}) }()
	receive(t, up, "upgrade")
	if a.status != 101 || get(a.header, "Upgrade") != "Echo" || get(a.header, "Connection") != "Upgrade" {
		t.Errorf("got %d %v", a.status, a.header)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(near, first); err != nil || string(first) != "first" {
		t.Fatalf("got %q, %v", first, err)
	}
	return near, done
}

func TestClientMayEndItsSideOfATunnelFirst(t *testing.T) {
	near, done := tunnelled(t, within(t), func(c net.Conn, r *bufio.Reader) {
		b, _ := io.ReadAll(r) // until the client's half ends
		io.WriteString(c, strings.ToUpper(string(b)))
	})
	io.WriteString(near, "all of it")
	near.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(near); string(got) != "ALL OF IT" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := receive(t, done, "end"); err != nil {
		t.Error(err)
	}
}

func TestServerMayEndItsSideOfATunnelFirst(t *testing.T) {
	got := make(chan string, 1)
	near, done := tunnelled(t, within(t), func(c net.Conn, r *bufio.Reader) {
		c.(*net.UnixConn).CloseWrite()
		b, _ := io.ReadAll(r)
		got <- string(b)
	})
	if b, err := io.ReadAll(near); len(b) > 0 || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	io.WriteString(near, "late words")
	near.Close()
	if s := receive(t, got, "the client's words"); s != "late words" {
		t.Errorf("got %q", s)
	}
	if err := receive(t, done, "end"); err != nil {
		t.Error(err)
	}
}

func TestEndOfContextEndsATunnel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(within(t))
	ended := make(chan struct{})
	near, done := tunnelled(t, ctx, func(_ net.Conn, r *bufio.Reader) { io.ReadAll(r); close(ended) })
	cancel(muru.ErrDrainCut)
	if err := receive(t, done, "end"); !errors.Is(err, muru.ErrDrainCut) {
		t.Errorf("got %v", err)
	}
	if _, err := io.ReadAll(near); err != nil {
		t.Error(err)
	}
	receive(t, ended, "end at the server")
}

func TestClientThatVanishesEndsATunnel(t *testing.T) {
	ended := make(chan struct{})
	near, done := tunnelled(t, within(t), func(_ net.Conn, r *bufio.Reader) { io.ReadAll(r); close(ended) })
	near.(*net.TCPConn).SetLinger(0) // a reset, not an end
	near.Close()
	if err := receive(t, done, "end"); !errors.Is(err, muru.ErrClientGone) {
		t.Errorf("got %v", err)
	}
	receive(t, ended, "end at the server")
}

func TestUpgradeMayBeRefused(t *testing.T) {
	for _, tt := range []struct{ answer, want string }{
		{"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nno", ""},
		{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "not asked for"},
		{"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n", "not asked for"},
		{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nContent-Length: 2\r\n\r\nno", "with a body"},
	} {
		a := &recorder{}
		x := request("GET", "/", a)
		x.Upgrade = true
		x.Header = append(x.Header, muru.Field{Name: "Upgrade", Value: "websocket, echo"})
		err := client(t, answering(t, tt.answer, true)).Do(within(t), x, Hooks{})
		if tt.want != "" {
			wantReset(t, err, tt.want)
		} else if err != nil || a.status != 426 || get(a.header, "Upgrade") != "websocket" || string(a.body) != "no" {
			t.Errorf("got %d %v %q, %v", a.status, a.header, a.body, err)
		}
	}
}
