package daemon

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/coder/websocket"
)

// talker is a web server that this binary is under that name, for releases
// that are commands: it greets, echoes what a WebSocket says, and sends an
// event with the time it was sent at every now and then.
func talker() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "hello from %s\n", os.Getenv("MURU_RELEASE"))
	})
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			fmt.Fprintf(w, "data: %d\n\n", time.Now().UnixNano())
			w.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
	if err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, in, err := c.Reader(r.Context())
		if err != nil {
			return
		}
		out, err := c.Writer(r.Context(), kind)
		if err != nil {
			return
		}
		if _, err := io.Copy(out, in); err != nil || out.Close() != nil {
			return
		}
	}
}
