package builtins

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"muru"
	"muru/rollout"
)

var (
	timeoutKeys = []string{"ready", "queue", "hard", "soft", "drain", "stream", "websocket"}
	limitKeys   = []string{"queue"}
)

var deploySpec = (&Spec{
	Name:    "deploy",
	Group:   GroupTraffic,
	Summary: "starts the app's next release and returns when it is ready",
	Doc: `Without hold the release then serves 100% and the one before it is kept warm; with hold it is
ready and out of traffic, for a canary or a look. An app that does not exist is created with the
default route.

A release is one of three kinds. A directory with a Python web application (entry says which
object), run by muru's own workers. A directory with a command that speaks HTTP on the port in
$PORT or on the unix socket in $MURU_SOCKET; a text runs in /bin/sh, a list directly. Or
upstream, the address of a server that somebody else runs.

The keys of timeouts are ready (30s), queue (10s), hard and soft (off), drain (30s), stream (1m)
and websocket (1m). hard replaces a worker in which one request has run that long; soft reports
it. The key of limits is queue (1000): requests waiting for a worker, more are refused.`,
	Params: []Param{
		{Name: "app", Type: appNoun, Pass: Positional, Doc: "the app"},
		{Name: "source", Type: textType, Pass: Positional, Default: starlark.None, Doc: "directory of the release"},
		{Name: "hold", Type: boolType, Default: starlark.False, Doc: "keep it out of traffic"},
		{Name: "entry", Type: entryType, Default: starlark.String("app:application"), Doc: "MODULE:ATTR of the WSGI application"},
		{Name: "command", Type: commandType, Default: starlark.None, Doc: "what to run in source instead, as text (shell) or list"},
		{Name: "upstream", Type: upstreamType, Default: starlark.None, Doc: "HOST:PORT of a server somebody else runs"},
		{Name: "workers", Type: intType(1), Default: starlark.MakeInt(2), Doc: "processes"},
		{Name: "threads", Type: intType(1), Default: starlark.MakeInt(4), Doc: "requests at once in each worker; unbounded for an upstream unless given"},
		{Name: "env", Type: dictType[string](textOrSecret), Default: emptyDict(), Doc: "environment of the workers, beside muru's own"},
		{Name: "timeouts", Type: keyedDict[any](timeoutKeys, offType), Default: emptyDict(), Doc: `such as {"hard": "3s"}; None: off`},
		{Name: "limits", Type: keyedDict[int](limitKeys, intType(0)), Default: emptyDict(), Doc: `such as {"queue": 100}`},
		{Name: "ready", Type: pathType, Default: starlark.None, Doc: "a path that must answer below 400 before the release is ready"},
		{Name: "stacks", Type: enumType("SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2"), Default: starlark.None, Doc: "signal that makes a command print where it is"},
		{Name: "on_conflict", Type: enumType("refuse", "supersede", "queue"), Default: starlark.String("refuse"), Doc: "what happens while a rollout of the app is live; no matter with hold"},
	},
	Returns: "Release",
	Errors: []string{
		"not_found: there is no such directory, or no entry in it",
		"not_ready: it raises when it is imported, exits or never listens; the error shows the end of its log and the baseline never noticed",
		"refused: a rollout of the app is live (not with hold), or the app was rolled back while the release started: it is held",
	},
	Example: `release = deploy("shop", here("shop/v6"), hold = True, timeouts = {"hard": "3s"})`,
	Effect:  Change,
	Fn:      deploy,
}).check()

func deploy(c *Call) (starlark.Value, error) {
	plan, err := c.plan()
	if err != nil {
		return nil, err
	}
	if c.set.env.Site {
		if r, ok := c.serves(arg[string](c, "app"), plan); ok {
			return c.set.release(r), nil
		}
	}
	r, report, err := c.engine().Deploy(c.ctx, rollout.DeployRequest{
		Caller: c.caller(), App: arg[string](c, "app"), Plan: plan, Hold: arg[bool](c, "hold"),
		OnConflict: onConflict[arg[string](c, "on_conflict")],
	})
	c.say(report)
	if err != nil {
		return nil, err
	}
	return c.set.release(r), nil
}

// serves returns the release that serves an app, if it was deployed by the
// same plan from the same source.
func (c *Call) serves(app string, plan muru.ReleasePlan) (r muru.Release, ok bool) {
	a, err := c.engine().AppNamed(app)
	if err != nil || a.Baseline == 0 {
		return r, false
	}
	r, err = c.engine().Release(muru.ReleaseID{App: app, Number: a.Baseline})
	return r, err == nil && reflect.DeepEqual(r.ReleasePlan, plan)
}

// plan makes the release's plan of the arguments.
func (c *Call) plan() (muru.ReleasePlan, error) {
	plan := muru.ReleasePlan{
		Workers: arg[int](c, "workers"), Threads: arg[int](c, "threads"), Env: arg[map[string]string](c, "env"),
		Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(), Ready: arg[string](c, "ready"),
	}
	if err := c.planTimeouts(&plan.Timeouts); err != nil {
		return plan, err
	}
	if queue, ok := arg[map[string]int](c, "limits")["queue"]; ok {
		plan.Limits.Queue = queue
	}
	switch {
	case c.isSet("source") == c.isSet("upstream"):
		if c.isSet("source") {
			return plan, usagef("source and upstream are both given: a release is one or the other")
		}
		return plan, usagef("source is missing").
			WithHint(`give the directory of the release, as in deploy(%q, "releases/v1"), or upstream = "HOST:PORT"`, arg[string](c, "app"))
	case c.isSet("upstream"):
		return c.planUpstream(plan)
	default:
		return c.planSource(plan)
	}
}

func (c *Call) planUpstream(plan muru.ReleasePlan) (muru.ReleasePlan, error) {
	for _, name := range []string{"entry", "command", "workers", "env", "stacks"} {
		if c.isGiven(name) {
			return plan, usagef("%s: somebody else runs an upstream, muru starts nothing", name)
		}
	}
	plan.Kind, plan.Upstream, plan.Workers = muru.External, arg[string](c, "upstream"), 0
	if !c.isGiven("threads") {
		plan.Threads = 0
	}
	return plan, nil
}

func (c *Call) planSource(plan muru.ReleasePlan) (muru.ReleasePlan, error) {
	dir, err := c.directory("source", arg[string](c, "source"))
	if err != nil {
		return plan, err
	}
	plan.Source = dir
	if plan.Digest, err = digest(c.ctx, dir); err != nil {
		return plan, at("source", err)
	}
	if c.isSet("command") {
		if c.isGiven("entry") {
			return plan, usagef("entry and command are both given: a release is run by one of them")
		}
		plan.Kind, plan.Command, plan.Stacks = muru.Command, arg[[]string](c, "command"), arg[string](c, "stacks")
		return plan, nil
	}
	if c.isSet("stacks") {
		return plan, usagef("stacks: only a command needs a signal, muru's own workers show their stacks without one")
	}
	plan.Kind, plan.Entry = muru.Python, arg[string](c, "entry")
	return plan, checkEntry(dir, plan.Entry, plan.Env)
}

func (c *Call) planTimeouts(t *muru.Timeouts) error {
	fields := map[string]*time.Duration{
		"ready": &t.Ready, "queue": &t.Queue, "hard": &t.Hard, "soft": &t.Soft,
		"drain": &t.Drain, "stream": &t.Stream, "websocket": &t.WebSocket,
	}
	for key, value := range arg[map[string]any](c, "timeouts") {
		d, set := value.(time.Duration)
		if !set && key != "hard" && key != "soft" {
			return usagef("timeouts[%q]: it cannot be off, only hard and soft can", key)
		}
		if set && d == 0 && (key == "ready" || key == "queue") {
			return usagef("timeouts[%q]: 0s leaves no time at all", key)
		}
		*fields[key] = d
	}
	return nil
}

// directory resolves a path from the caller's directory to a directory that
// exists.
func (c *Call) directory(name, path string) (string, error) {
	if path == "" {
		return "", usagef("%s is empty", name)
	}
	abs := c.set.path(path)
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e := muru.Errorf(muru.KindNotFound, "%s: there is no directory %s", name, abs)
		e.Err = err
		if !filepath.IsAbs(path) {
			e = e.WithHint("relative paths start at %s; here(%q) is beside the recipe", c.set.env.Dir, path)
		}
		return "", e
	case err != nil:
		return "", &muru.Error{Kind: muru.KindFailed, Message: name + ": " + pathProblem(abs, err), Err: err}
	case !info.IsDir():
		return "", usagef("%s: %s is a file, not a directory", name, abs)
	}
	return abs, nil
}

// checkEntry refuses an entry whose module is clearly not there. What may lie
// in a package, an environment or on PYTHONPATH is left to Python to find.
func checkEntry(dir, entry string, env map[string]string) error {
	module, _, _ := strings.Cut(entry, ":")
	first, _, _ := strings.Cut(module, ".")
	files, err := os.ReadDir(dir)
	if err != nil || env["PYTHONPATH"] != "" {
		return nil
	}
	for _, f := range files {
		name := f.Name()
		if name == first || strings.HasPrefix(name, first+".") || name == "src" || name == ".venv" || name == "venv" {
			return nil
		}
	}
	return muru.Errorf(muru.KindNotFound, "entry: there is no %s.py in %s", first, dir).
		WithHint(`entry = "MODULE:ATTR" names the application, command = "..." runs anything else`)
}

// path resolves a path from the caller's directory.
func (s *Set) path(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.env.Dir, path)
}

// pathProblem words what the system says of a path.
func pathProblem(path string, err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return path + ": " + err.Error()
}

var (
	entryType = checkedText("entry", func(entry string) string {
		module, attr, ok := strings.Cut(entry, ":")
		if !ok || !isDotted(module) || !isDotted(attr) {
			return `write it like "app:application", MODULE:ATTR`
		}
		return ""
	})
	upstreamType = checkedText("HOST:PORT", func(address string) string {
		host, port, err := net.SplitHostPort(address)
		n, convErr := strconv.Atoi(port)
		if err != nil || host == "" || convErr != nil || n < 1 || n > 65535 || strings.ContainsAny(host, "/ @") {
			return `write it like "10.0.0.5:9000"`
		}
		return ""
	})
	commandType Type = typeOf{"text or list of text", func(c *Call, v starlark.Value) (any, error) {
		if s, ok := v.(starlark.String); ok {
			if strings.TrimSpace(string(s)) == "" {
				return nil, usagef("the command is empty")
			}
			return []string{"/bin/sh", "-c", string(s)}, nil
		}
		words, err := listType[string](textType).Convert(c, v)
		if err != nil {
			return nil, err
		}
		if argv := words.([]string); len(argv) == 0 || argv[0] == "" {
			return nil, usagef("the command is empty")
		}
		return words, nil
	}}
)

// isDotted reports whether text is names joined by dots.
func isDotted(text string) bool {
	for name := range strings.SplitSeq(text, ".") {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r < 0x80
		}) {
			return false
		}
	}
	return true
}
