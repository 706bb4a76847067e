package host

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// runHelper is this binary as something else than a test.
func runHelper(name string) {
	switch name {
	case "socket":
		serveHTTP("unix", os.Getenv("MURU_SOCKET"))
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("pid", os.Getpid())
		serveHTTP("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	case "http":
		serveHTTP("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	case "daemon":
		runDaemon()
	}
}

// serveHTTP is a server as people write them, whose paths are behaviours.
func serveHTTP(network, address string) {
	l, err := net.Listen(network, address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(http.Serve(l, httpHandler()))
}

func httpHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		fmt.Fprint(w, "hello from "+os.Getenv("MURU_RELEASE"))
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = w.Write(text)
	})
	mux.HandleFunc("/sleep", func(w http.ResponseWriter, r *http.Request) {
		s, _ := strconv.ParseFloat(r.URL.Query().Get("s"), 64)
		time.Sleep(time.Duration(s * float64(time.Second)))
		fmt.Fprint(w, "slept")
	})
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(5) })
	mux.HandleFunc("/garbage", raw("SSH-2.0-OpenSSH_9.2\r\n"))
	mux.HandleFunc("/cut", raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"))
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprintln(w, "part")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil {
				fmt.Println("socket closed with", int(websocket.CloseStatus(err)))
				return
			}
			if err := c.Write(r.Context(), kind, data); err != nil {
				return
			}
		}
	})
	return mux
}

// raw answers with text that is no proper answer and closes the connection.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
}
