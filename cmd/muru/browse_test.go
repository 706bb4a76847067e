package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"muru/control"
)

// browse is a command of the scripts: browse APP PATH [HEADER...] requests a
// page of an app of the muru at $MURU_CONTROL and prints its body.
func browse() {
	if err := browsePage(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func browsePage(app, path string, headers []string) error {
	url, err := urlOf(os.Getenv("MURU_CONTROL"), app)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(url, "/")+path, nil)
	if err != nil {
		return err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(os.Stdout, res.Body)
	return err
}

// urlOf asks the muru at a socket where an app is.
func urlOf(socket, app string) (string, error) {
	state, err := control.NewClient(socket, version).State(context.Background())
	if err != nil {
		return "", err
	}
	for _, a := range state.Apps {
		if a.Name == app {
			return a.URL, nil
		}
	}
	return "", fmt.Errorf("there is no app %s", app)
}
