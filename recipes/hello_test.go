package recipes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

func TestHelloServerListensOnPort(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, "python3", "-B", "hello/server.py")
	// Port 0 lets the system choose a free one, which the server then prints.
	command.Env = append(command.Environ(), "PORT=0", "GREETING=Servus", "MURU_RELEASE=hello@r1")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // killed: its status says nothing
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscanf(line, "listening on port %d", &port); err != nil {
		t.Fatalf("%q: %v", line, err)
	}

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, test := range []struct{ method, body string }{
		{"GET", "Servus from hello@r1\n"},
		{"HEAD", ""},
		{"GET", "Servus from hello@r1\n"},
	} {
		request, err := http.NewRequestWithContext(ctx, test.method, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 || string(body) != test.body || response.ContentLength != 21 {
			t.Errorf("%s: got %s, %d bytes said, %q (%v), want %q", test.method, response.Status, response.ContentLength, body, err, test.body)
		}
	}
}
