package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"muru/cmd/muru/person"
	"muru/control"
	"muru/control/controltest"
)

// typed carries out a command line against a muru.
func typed(t *testing.T, m control.Muru, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	c := &cli{
		Person:  person.Person{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Signals: person.NewSignals(cancel)},
		connect: func(string) (control.Muru, error) { return m, nil },
	}
	status = c.execute(ctx, args)
	return out.String(), errs.String(), status
}

func TestPrintCallShowsTheCallOfARecipe(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`deploy shop releases/v6 --hold --timeout hard=3s`, `deploy("shop", "releases/v6", hold = True, timeouts = {"hard": "3s"})`},
		{`deploy shop releases/v6 --timeout hard=3s --timeout soft=off --limit queue=10 --env PORT=1 --env A=b=c --workers 4`,
			`deploy("shop", "releases/v6", workers = 4, env = {"PORT": "1", "A": "b=c"}, timeouts = {"hard": "3s", "soft": None}, limits = {"queue": 10})`},
		{`deploy shop . -- ./serve --port 80`, `deploy("shop", ".", command = ["./serve", "--port", "80"])`},
		{`deploy shop . --command ./serve --no-hold`, `deploy("shop", ".", hold = False, command = "./serve")`},
		{`deploy shop --upstream 127.0.0.1:9000`, `deploy("shop", upstream = "127.0.0.1:9000")`},
		{`rollout canary shop@r6 --steps 10,50 --hold 30s --approve-each-step --max-5xx 1% --max-p95 250ms --probe /healthz`,
			`canary("shop@r6", steps = [10, 50], hold = "30s", gates = [gate("5xx", max = "1%"), gate("p95", max = "250ms"), gate("probe", paths = ["/healthz"])], approve = "each-step", wait = False)`},
		{`rollout canary shop@r6 --probe /a --max-queue-wait 1s --max-p99 2s --probe /b --max-crashes 1`,
			`canary("shop@r6", gates = [gate("crashes", max = 1), gate("p99", max = "2s"), gate("queue_wait", max = "1s"), gate("probe", paths = ["/a", "/b"])], wait = False)`},
		{`rollout canary shop@r6 --steps 0:1h,0.5%,10:1h,50`, `canary("shop@r6", steps = [(0, "1h"), "0.5%", (10, "1h"), 50], wait = False)`},
		{`rollout canary shop@r6 --approve-each-step --approve-promotion`, `canary("shop@r6", approve = "all", wait = False)`},
		{`rollout canary shop@r6 --approve-promotion`, `canary("shop@r6", approve = "promotion", wait = False)`},
		{`rollout canary shop@r6 --approve all --wait`, `canary("shop@r6", approve = "all")`},
		{`rollout canary shop@r6 --min-requests 20 --on-no-data rollback --deadline 1h`,
			`canary("shop@r6", min_requests = 20, deadline = "1h", on_no_data = "rollback", wait = False)`},
		{`rollout status shop`, `rollouts("shop")`},
		{`rollout status`, `rollouts()`},
		{`rollout status shop --wait`, `wait("shop")`},
		{`rollout status 7 --wait --timeout 10m`, `wait(7, timeout = "10m")`},
		{`rollout resume shop`, `resume("shop")`},
		{`rollout resume shop --step 2`, `resume("shop", step = 2)`},
		{`rollout pause 7`, `pause(7)`},
		{`rollout abort shop --reason bad`, `abort("shop", reason = "bad")`},
		{`promote shop@r6`, `promote("shop@r6")`},
		{`rollback shop --to r5`, `rollback("shop", to = "r5")`},
		{`stop shop@r4`, `stop("shop@r4")`},
		{`app shop --hosts a.example`, `app("shop", hosts = ["a.example"])`},
		{`app shop --hosts a.example,b.example --sticky 10m --header X-Tenant=7 --no-maintenance --max-body 10MiB`,
			`app("shop", hosts = ["a.example", "b.example"], sticky = "10m", headers = {"X-Tenant": "7"}, max_body = "10MiB", maintenance = None)`},
		{`split shop r6=10`, `split("shop", {"r6": 10})`},
		{`split shop r6=0.5% r7=2.5`, `split("shop", {"r6": "0.5%", "r7": 2.5})`},
		{`split shop --no-shares`, `split("shop", {})`},
		{`status`, `status()`},
		{`status shop`, `status("shop")`},
		{`releases shop`, `releases("shop")`},
		{`logs shop@r6 --lines 20 --grep Error --worker 1`, `logs("shop@r6", lines = 20, grep = "Error", worker = 1)`},
		{`logs shop@r6 --follow`, `logs("shop@r6", follow = True)`},
		{`events`, `events()`},
		{`events 7 --since 10m --level error --kind rollout.*`, `events(7, since = "10m", kind = "rollout.*", level = "error")`},
		{`events shop -f`, `events("shop", follow = True)`},
		{`stacks shop@r8 --worker 1`, `stacks("shop@r8", worker = 1)`},
		{`workers`, `workers()`},
		{`observe shop@r6 --hold 1m --max-p95 400ms`, `observe("shop@r6", gates = [gate("p95", max = "400ms")], hold = "1m")`},
		{`probe shop@r6 /`, `probe("shop@r6", "/")`},
		{`probe shop@r6 --method POST --body {"a":1} --no-check --header A=b`,
			`probe("shop@r6", method = "POST", headers = {"A": "b"}, body = "{\"a\":1}", check = False)`},
		{`traffic shop --clients 4 --paths /,/orders/1 --rate 20/s --timeout 2s --cookies`,
			`traffic("shop", clients = 4, paths = ["/", "/orders/1"], rate = "20/s", cookies = True, timeout = "2s")`},
	} {
		args := append(strings.Fields(c.line), "--print-call")
		if i := strings.Index(c.line, " -- "); i >= 0 {
			args = append(append(strings.Fields(c.line[:i]), "--print-call"), strings.Fields(c.line[i:])...)
		}
		// A muru that can do nothing shows that nothing is done.
		out, errs, status := typed(t, &controltest.Muru{}, args...)
		if out != c.want+"\n" || errs != "" || status != 0 {
			t.Errorf("muru %s\n got %s%s(status %d)\nwant %s", c.line, out, errs, status, c.want)
		}
	}
}

func TestWhatDoesNotParseIsAUsageErrorAndStartsNothing(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`frobnicate`, "muru: there is no verb \"frobnicate\"\nhint: muru help lists the verbs\n"},
		{`deplyo shop`, "muru: there is no verb \"deplyo\"\nhint: did you mean muru deploy?\n"},
		{`stat`, "muru: there is no verb \"stat\"\nhint: did you mean muru status?\n"},
		{`abort shop`, "muru: there is no verb \"abort\"\nhint: did you mean muru rollout abort?\n"},
		{`rollout cannary shop@r6`, "muru: there is no verb \"rollout cannary\"\nhint: did you mean muru rollout canary?\n"},
		{`deplyo shop . --hold`, "muru: there is no verb \"deplyo\"\nhint: did you mean muru deploy?\n"},
		{`rollout cannary shop@r6 --wait`, "muru: there is no verb \"rollout cannary\"\nhint: did you mean muru rollout canary?\n"},
		{`--nope deploy shop`, "muru: unknown flag: --nope\nhint: muru --help lists the flags\n"},
		{`rollout xyzzy`, "muru: there is no verb \"rollout xyzzy\"\nhint: muru help rollout lists the verbs\n"},
		{`deploy`, "muru: deploy: app is missing\nhint: muru deploy APP [SOURCE] [-- COMMAND...] [flags]\n"},
		{`promote shop@r6 shop@r7`, "muru: promote: \"shop@r7\" is one word too many\nhint: muru promote RELEASE [flags]\n"},
		{`deploy shop . --wokers 3`, "muru: unknown flag: --wokers\nhint: did you mean --workers?\n"},
		{`deploy shop . --workers three`, "muru: --workers: \"three\" is not a number\n"},
		{`deploy shop . --timeout hard`, "muru: --timeout: \"hard\" is not KEY=VALUE\n"},
		{`deploy shop . --timeout hard=3`, "muru: --timeout: hard: 3 has no unit\nhint: write \"3s\"\n"},
		{`deploy shop . --workers`, "muru: flag needs an argument: --workers\nhint: muru deploy --help lists the flags\n"},
		{`deploy shop . --command a -- b`, "muru: deploy: --command and the words behind -- are both given\n"},
		{`promote shop@r6 -- b`, "muru: promote: the words behind -- are a command, and promote takes none\n"},
		{`rollout canary shop@r6 --hold 30`, "muru: --hold: 30 has no unit\nhint: write \"30s\"\n"},
		{`rollout canary shop@r6 --approve all --approve-each-step`, "muru: canary: --approve is given twice\nhint: --approve-each-step is --approve each-step\n"},
		{`rollout canary shop@r6 --timeout 10m`, "muru: canary: --timeout is how long to --wait\n"},
		{`rollout status --wait`, "muru: status: --wait needs an app, or the number of a rollout\nhint: muru rollout status [APP] [flags]\n"},
		{`split shop`, "muru: split: shares is missing\nhint: muru split APP RELEASE=SHARE... [flags]\n"},
		{`split shop r6`, "muru: split: shares: \"r6\" is not KEY=VALUE\n"},
		{`events --since soon --follow`, "muru: events: since: \"soon\" is not a point in time\nhint: write 10m for ten minutes ago, or a time like 2026-11-07T07:20:00Z\n"},
		{`attach`, "muru: attach: RUN is missing\nhint: muru attach RUN [flags]\n"},
		{`attach seven`, "muru: \"seven\" is not the number of a run\nhint: muru runs lists them\n"},
		{`runs 1`, "muru: runs: \"1\" is one word too many\nhint: muru runs [flags]\n"},
		{`completion tcsh`, "muru: completion: there is none for \"tcsh\"\nhint: bash, zsh, fish\n"},
		{`run`, "muru: run needs a recipe\nhint: muru run recipes/quickstart.star\n"},
	} {
		m := &controltest.Muru{} // whose answer would be another error
		out, errs, status := typed(t, m, strings.Fields(c.line)...)
		if out != "" || errs != c.want || status != person.StatusUsage {
			t.Errorf("muru %s\n got %s%s(status %d)\nwant %s", c.line, out, errs, status, c.want)
		}
	}
}
