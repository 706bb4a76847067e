package main

import (
	"context"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muru"
	"muru/cmd/muru/daemon"
	"muru/cmd/muru/visitortest"
	"muru/control"
	"muru/rollout"
	"muru/rollout/rollouttest"
)

// serveTest serves a runner with shop@r1 serving and r2 held on a socket, and
// returns a client of it.
func serveTest(t *testing.T) control.Muru {
	t.Helper()
	log := rollout.NewLog(nil, 0)
	engine := rollout.New(rollout.Options{Edge: &rollouttest.Edge{Now: time.Now}, Host: new(rollouttest.Host), Log: log})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := engine.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	plan := muru.ReleasePlan{
		Kind: muru.Python, Source: "/tmp", Entry: "app:application", Workers: 1, Threads: 1,
		Timeouts: muru.DefaultTimeouts(), Limits: muru.DefaultLimits(),
	}
	for _, hold := range []bool{false, true} {
		if _, _, err := engine.Deploy(t.Context(), rollout.DeployRequest{App: "shop", Plan: plan, Hold: hold}); err != nil {
			t.Fatal(err)
		}
	}
	r := daemon.NewRunner(daemon.RunnerOptions{Engine: engine, Events: log, State: t.TempDir()})
	path := filepath.Join(visitortest.ShortDir(t), control.SocketName)
	t.Cleanup(serveAt(t, path, r))
	return control.NewClient(path, version)
}

// userName is how events call who runs the tests.
func userName(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

func TestVerbsAgainstADaemon(t *testing.T) {
	m := serveTest(t)
	user := regexp.QuoteMeta(userName(t))
	for _, c := range []struct {
		line           string
		stdout, stderr string // regular expressions
		status         int
	}{
		{"status", `APP  BASELINE CANDIDATE TRAFFIC HELD WARM ROLLOUT\nshop r1       -         r1 100% r2   -    -\n`, ``, 0},
		{"status shop --json", `{"name":"shop",.*"baseline":"shop@r1",.*}\n`, ``, 0},
		{"status blog", ``, `muru: status: no app is called "blog"\n`, 3},
		{"rollout status", ``, `muru: no rollouts\n`, 0},
		{"rollout canary shop@r2 --steps 10,50 --hold 30s", `muru: rollout 1 of shop@r2 started against r1: step 1 of 2: 10% for 30s\n`, ``, 0},
		{"rollout canary shop@r2", ``, `muru: shop has rollout 1 live \(r2 at 10%\): refused\nhint: muru rollout abort shop.*\n`, 3},
		{"rollout status shop", `APP  ROLLOUT CANDIDATE BASELINE STATE   TRAFFIC MESSAGE\nshop 1       r2        r1       running 10%     -\n`, ``, 0},
		{"rollout status shop --wait --timeout 50ms", `muru: rollout 1 running step 1 of 2: 10% for 30s\n`, `muru: (wait: )?rollout 1 did not end within 50ms\n(hint: .*\n)?`, 124},
		{"split shop r2=20", ``, `muru: shop has rollout 1 live \(r2 at 10%\): refused\nhint: .*\n`, 3},
		{"rollout pause shop --reason lunch", `muru: rollout 1 paused: by ` + user + ` at 10%: lunch\n`, ``, 0},
		{"rollout resume 1", `muru: rollout 1 running: step 1 of 2: 10% for 30s\n`, ``, 0},
		{"rollout resume 1", ``, `muru: rollout 1 .*\n(hint: .*\n)?`, 3},
		{"rollout abort shop", `muru: rollout 1 aborted: by ` + user + ` at 10%\n`, ``, 0},
		{"rollout status 1 --wait", `muru: rollout 1 aborted: by ` + user + ` at 10%\n`, ``, 1},
		{"split shop r2=10", `muru: shop split: r1 90%, r2 10%\n`, ``, 0},
		{"split shop --no-shares", `muru: shop split: r1 100%\n`, ``, 0},
		{"promote shop@r2 --json", `{.*"name":"r2".*}\n`, `muru: shop@r2 serves 100% of shop, r1 is kept warm\n`, 0},
		{"rollback shop", `muru: shop rolled back from r2 to r1: r1 serves 100%, r2 is kept for inspection\n`, ``, 0},
		{"events --kind rollout.aborted", `\d+ \S+ warning rollout.aborted     shop@r2 rollout 1: by ` + user + ` at 10%\n`, ``, 0},
		{"events shop --limit 1 --json", `\[{"seq":.*}\]\n`, ``, 0},
		{"deploy shop /nowhere/at/all", ``, `muru: (deploy: )?.*/nowhere/at/all.*\n(hint: .*\n)?`, 3},
		{"deploy shop . --limit quue=3", ``, `muru: deploy: limits: "quue" is no key of it\nhint: did you mean "queue"\?\n`, 2},
		{"runs", ``, `muru: no runs\n`, 0},
		{"attach 9", ``, `muru: there is no run 9\n(hint: .*\n)?`, 3},
	} {
		out, errs, status := typed(t, m, strings.Fields(c.line)...)
		if !regexp.MustCompile(`(?s)\A`+c.stdout+`\z`).MatchString(out) || !regexp.MustCompile(`\A`+c.stderr+`\z`).MatchString(errs) || status != c.status {
			t.Errorf("muru %s\n got stdout %q stderr %q status %d\nwant stdout %q stderr %q status %d",
				c.line, out, errs, status, c.stdout, c.stderr, c.status)
		}
	}
}
