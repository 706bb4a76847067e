// Command harm counts how many people meet a bad release before muru takes it
// out: it runs harm.star, which says how, with a muru built from this tree, on
// a temporary state directory. It needs python3.
//
//	go run ./bench/harm                   50 rollouts; the median must be <= 5
//	go run ./bench/harm -shield           the baseline answers instead; 0
//	go run ./bench/harm -judge threshold  for contrast; fails
//
// It ends with status 1 when the median of the failures seen is over its limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	runs := flag.Int("runs", 50, "how many rollouts")
	shield := flag.Bool("shield", false, "have the baseline answer what the candidate fails")
	judge := flag.String("judge", "", "how verdicts are reached; empty is what canary does by itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := harm(ctx, *runs, *shield, *judge)
	stop()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode()) // it has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "harm:", err)
		os.Exit(1)
	}
}

// harm builds muru and runs the recipe.
func harm(ctx context.Context, runs int, shield bool, judge string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	dir := strings.TrimSpace(string(root))
	temp, err := os.MkdirTemp("", "muru-harm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	muru := filepath.Join(temp, "muru")
	if err := command(ctx, dir, "go", "build", "-o", muru, "./cmd/muru").Run(); err != nil {
		return fmt.Errorf("build muru: %w", err)
	}
	args := []string{
		"run", "--listen", "127.0.0.1:0", "--state", filepath.Join(temp, "state"),
		"bench/harm/harm.star", "--runs", strconv.Itoa(runs),
	}
	if shield {
		args = append(args, "--shield")
	}
	if judge != "" {
		args = append(args, "--judge", judge)
	}
	return command(ctx, dir, muru, args...).Run()
}

// command is one that shares our streams and may clean up when it is
// interrupted.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	return c
}
