package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muru/cmd/muru/visitortest"

	"github.com/coder/websocket"

	"muru"
)

// newTalk is a stage in which shop@r2, a command that holds long
// conversations, serves.
func newTalk(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.must(`deploy("shop", SHOP, command = ["talker"], ready = "/", timeouts = {"websocket": "1s", "stream": "1s"})`)
	return s
}

// echoed sends a text over a WebSocket and returns what comes back.
func echoed(ctx context.Context, c *websocket.Conn, text string) (string, error) {
	if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		return "", err
	}
	_, back, err := c.Read(ctx)
	return string(back), err
}

func TestWebSocketOutlivesAPromotionUntilItsDeadline(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, s.url+"/echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	talks := func(text string) {
		t.Helper()
		if back, err := echoed(ctx, c, text); back != text || err != nil {
			t.Errorf("%.20q comes back as %.20q: %v", text, back, err)
		}
	}
	talks("a kettle")
	talks(strings.Repeat("x", 30000))
	s.must(`deploy("shop", SHOP, hold = True)
promote("shop@r3")`)
	promoted := time.Now()
	s.serves("shop@r3")
	talks("still there")
	_, _, err = c.Read(ctx)
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("it ends with %v", err)
	}
	if took := time.Since(promoted); took < 800*time.Millisecond || took > 3*time.Second {
		t.Errorf("it ends %v after the promotion, its deadline is 1s", took)
	}
	s.waitEvent("release.warm", `^shop@r2 drained in .*, cut 0 requests, 0 streams, 1 websockets$`)
}

func TestEventsArriveAtOnce(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	best := time.Hour // of several: the machine may be busy
	for range 5 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		arrived := time.Now()
		res.Body.Close()
		var sent int64
		if _, scanErr := fmt.Sscanf(line, "data: %d", &sent); errors.Join(err, scanErr) != nil {
			t.Fatalf("%q: %v", line, err)
		}
		best = min(best, arrived.Sub(time.Unix(0, sent)))
	}
	if best > 50*time.Millisecond {
		t.Errorf("the first event takes %v at best", best)
	}
	t.Logf("the first event takes %v", best)
}

func TestExternalServerTakesItsShareAndIsTakenOutWhenItIsGone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello from shop@r2\n")
	}))
	defer other.Close()
	s.must(fmt.Sprintf(`deploy("shop", upstream = %q, hold = True)`, other.Listener.Addr()))
	s.fails(`logs("shop@r2")`, `logs: shop@r2 is external: its server keeps its own log`)
	r := s.candidate(crashesAlone)
	v := s.come(8, "/", time.Millisecond, 10*time.Second)
	if !visitortest.Within(10*time.Second, func() bool {
		return v.Seen("200 hello from shop@r2\n") > 100 && v.Seen("200 hello from shop@r1\n") > 100
	}) {
		t.Errorf("visitors saw %v", v)
	}
	if c := s.edge.Counts(r2); c.Requests < 100 || c.ServerErrors != 0 {
		t.Errorf("%+v", c)
	}
	other.Listener.Close()
	other.CloseClientConnections()
	s.ends(r, muru.RolledBack, `gate failed at 50%: \d+ worker crashes and timeout kills, over the limit of 0 \(baseline 0\)`)
	v.WantOnlyGreetings(t)
}
