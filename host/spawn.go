package host

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muru"
	"muru/host/upstream"
	"muru/host/wire"
)

// inherited are the daemon's environment variables that workers get, beside
// those that start with LC_. Everything else an application needs is given to
// its release as env: what it runs with is then what the deploy says, whoever
// started the daemon.
var inherited = map[string]bool{
	"PATH": true, "HOME": true, "USER": true, "LOGNAME": true, "SHELL": true, "LANG": true, "LANGUAGE": true,
	"TZ": true, "TMPDIR": true, "SSL_CERT_FILE": true, "SSL_CERT_DIR": true,
	"HTTP_PROXY": true, "HTTPS_PROXY": true, "NO_PROXY": true, "http_proxy": true, "https_proxy": true, "no_proxy": true,
}

func itoa(n int) string { return strconv.Itoa(n) }

// spawn starts a process for the worker's number and its supervisor.
func (r *release) spawn(number int) (_ *worker, err error) {
	token := rand.Text()
	w := &worker{
		r: r, number: number, token: token,
		files:  filesOf(filepath.Join(r.dir, itoa(number)), token),
		orders: make(chan func(), 16), launched: make(chan struct{}), ready: make(chan struct{}), gone: make(chan struct{}),
		heard: make(chan struct{}), idle: make(chan struct{}, 1),
	}
	for i := range r.plan.Threads {
		w.slots = append(w.slots, &slot{w: w, index: i})
	}
	if err := w.files.renew(); err != nil {
		return nil, fmt.Errorf("make the files of worker %d: %w", number, err)
	}
	r.host.noteOOM(w)
	defer func() {
		if err != nil {
			r.host.givePort(w.port)
		}
	}()
	argv, env, err := w.commandLine()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(w.files.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the output file of worker %d: %w", number, err)
	}
	defer out.Close()
	if w.out, err = follow(w.files.out, number, r.log); err != nil {
		return nil, err
	}
	if err := r.launch(w, argv, env, out); err != nil {
		w.out.finish()
		if w.client != nil {
			w.client.Close()
		}
		return nil, err
	}
	return w, nil
}

// launch starts the process. Starting one takes milliseconds, so the release's
// lock is not held meanwhile: the worker's entry is made first, so that what
// ends the release counts on it, and filled in after. A worker that connects
// in between waits for that.
func (r *release) launch(w *worker, argv, env []string, out *os.File) error {
	r.mu.Lock()
	if r.ending {
		r.mu.Unlock()
		return muru.ErrDraining // once the release is ending, nothing starts
	}
	r.workers = append(r.workers, w)
	r.tasks.Add(1) // the supervisor's
	r.mu.Unlock()
	proc, err := r.host.startProcess(argv, env, r.plan.Source, out)
	if err != nil {
		r.remove(w)
		close(w.gone)
		r.tasks.Done()
		return fmt.Errorf("worker %d: %w", w.number, err)
	}
	r.mu.Lock()
	w.proc = proc
	r.mu.Unlock()
	close(w.launched)
	r.host.followers.add(w.out)
	w.note()
	go w.supervise()
	if r.plan.Kind == muru.Command {
		r.tasks.Add(1)
		go w.awaitListening()
	}
	return nil
}

// commandLine says how to start the worker, and makes what that needs.
func (w *worker) commandLine() (argv, env []string, err error) {
	r := w.r
	env = w.environment()
	if r.plan.Kind == muru.Python {
		if err := r.host.listener.Renew(); err != nil {
			return nil, nil, err
		}
		runtime, err := r.host.installRuntime()
		if err != nil {
			return nil, nil, err
		}
		python, err := r.python(env)
		if err != nil {
			return nil, nil, err
		}
		argv, own := runtime.Command(wire.Spec{
			Release: r.id, Worker: w.number, Workers: r.plan.Workers, Threads: r.plan.Threads,
			Source: r.plan.Source, Entry: r.plan.Entry, Socket: r.host.socket, Token: w.token,
			StacksFile: w.files.stacks, Orphan: r.host.orphan, Python: python,
		})
		return argv, append(env, own...), nil
	}
	if w.port, err = r.host.takePort(); err != nil {
		return nil, nil, err
	}
	env = append(env, "PORT="+itoa(w.port))
	if len(w.files.socket) <= wire.MaxSocketPath {
		env = append(env, "MURU_SOCKET="+w.files.socket)
	}
	return r.plan.Command, env, nil
}

// environment is what every worker has: some of the daemon's, the release's
// own, and muru's.
func (w *worker) environment() []string {
	var env []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if _, own := w.r.plan.Env[name]; !own && (inherited[name] || strings.HasPrefix(name, "LC_")) {
			env = append(env, pair)
		}
	}
	for name, value := range w.r.plan.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return append(env, "MURU_RELEASE="+w.r.id.String(), "MURU_WORKER="+itoa(w.number))
}

// clientOf returns the client of a command worker that listens there.
func clientOf(network, address string) *upstream.Client {
	return upstream.New(upstream.Options{Network: network, Address: address})
}
