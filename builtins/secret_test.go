package builtins

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"muru"
	"muru/rollout"
)

// withSecrets gives a stage the secret TOKEN, and a client that records.
func withSecrets(s *stage, value string) *recording {
	r := new(recording)
	s.set.env.Client = &http.Client{Transport: r}
	s.set.env.Secret = func(name string) (string, error) {
		if name == "TOKEN" {
			return value, nil
		}
		return "", muru.Errorf(muru.KindNotFound, "there is no secret %s", name)
	}
	return r
}

type recording struct{ url, header string }

func (r *recording) RoundTrip(q *http.Request) (*http.Response, error) {
	r.url, r.header = q.URL.String(), q.Header.Get("Authorization")
	return &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: q}, nil
}

func TestASecretIsPassedOnAndNeverShown(t *testing.T) {
	s := newStage(t)
	r := withSecrets(s, "http://hooks.example.test/s3cret\n")
	for expr, want := range map[string]string{
		`str(secret("TOKEN"))`:                           "secret(TOKEN)",
		`"%s %r" % (secret("TOKEN"), [secret("TOKEN")])`: "secret(TOKEN) [secret(TOKEN)]",
		`sh("echo $T", env = {"T": secret("TOKEN")}).ok`: "True",
		`app("shop", preview = secret("TOKEN")).preview`: "secret",
	} {
		if got := Text(s.value(expr)); got != want {
			t.Errorf("%s is %s, want %s", expr, got, want)
		}
	}
	for expr, want := range map[string]string{
		`http(secret("TOKEN"), headers = {"Authorization": secret("TOKEN")})`: "http: GET secret(TOKEN) answered 500 Internal Server Error",
		`secret("TOKEN") == secret("TOKEN")`:                                  "a Secret cannot be compared",
		`{secret("TOKEN"): 1}`:                                                "unhashable type: Secret",
		`secret("TOKEN") + "x"`:                                               "unknown binary op: Secret + string",
		`json.encode(secret("TOKEN"))`:                                        "json.encode: cannot encode Secret as JSON",
		`sh(secret("TOKEN"))`:                                                 "sh: command: want a list of text, not a Secret",
		`secret("NONE")`:                                                      "secret: there is no secret NONE",
		`secret("../etc/passwd")`:                                             `secret: name: "../etc/passwd" is not a name of a secret`,
		`app("shop", preview = "hidden")`:                                     `app: preview: "hidden" is not "open" or "off"`,
	} {
		_, err := s.run("def main():\n    return " + expr + "\n")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s fails with %v, want %s", expr, err, want)
		}
	}
	if r.url != "http://hooks.example.test/s3cret" || r.header != "http://hooks.example.test/s3cret" {
		t.Errorf("sent %q, %q", r.url, r.header)
	}
	for _, e := range s.engine.Events(rollout.EventQuery{}) {
		if strings.Contains(e.Message, "s3cret") {
			t.Errorf("an event shows it: %s", e)
		}
	}
}

func TestASecretURLThatIsNoneIsNotShown(t *testing.T) {
	s := newStage(t)
	withSecrets(s, "s3cret")
	_, err := s.run("def main():\n    http(secret(\"TOKEN\"))\n")
	if err == nil || !strings.Contains(err.Error(), "http: url: secret(TOKEN) is not a URL") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyTheSiteDeclaresListeners(t *testing.T) {
	s := newStage(t)
	if _, err := s.run(`listen(":80")`); muru.KindOf(err) != muru.KindRefused {
		t.Errorf("a recipe's listen: %v", err)
	}
	var got []Listener
	s.set.env.Listen = func(_ context.Context, l Listener) error {
		got = append(got, l)
		return nil
	}
	if _, err := s.run(`listen("127.0.0.1:8080", trusted_proxies = ["10.0.0.0/8", "::1"])`); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Address != "127.0.0.1:8080" || len(got[0].TrustedProxies) != 2 || got[0].TrustedProxies[1].String() != "::1/128" {
		t.Errorf("asked for %v", got)
	}
	for _, bad := range []string{`"80"`, `":http"`, `"example.com:80"`, `":80", trusted_proxies = ["ten"]`, `":70000"`} {
		if _, err := s.run("listen(" + bad + ")"); muru.KindOf(err) != muru.KindUsage {
			t.Errorf("listen(%s): %v", bad, err)
		}
	}
}
