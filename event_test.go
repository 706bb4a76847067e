package muru_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"muru"
)

var noon = time.Date(2026, 11, 7, 12, 0, 0, 0, time.UTC)

func TestAnEventIsOneLine(t *testing.T) {
	e := muru.Event{
		Seq: 45, Time: time.Date(2026, 11, 7, 18, 20, 7, 0, time.UTC), Level: muru.LevelWarning,
		Kind: muru.RolloutGateFailed, Subject: "shop@r6",
		Message: "step 1 at 10%: 5xx rate 21.95% over the limit of 1.00% (baseline 0.00%)",
	}
	const line = "45 18:20:07 warning rollout.gate_failed shop@r6 step 1 at 10%: 5xx rate 21.95% over the limit of 1.00% (baseline 0.00%)"
	if got := e.Line(noon, time.UTC); got != line {
		t.Errorf("the line of today is\n%s, want\n%s", got, line)
	}
	if got, want := e.Line(noon.AddDate(0, 0, 1), time.UTC)[:25], "45 2026-11-07 18:20:07 wa"; got != want {
		t.Errorf("the line of yesterday begins %q, want %q", got, want)
	}
	e.Level, e.Kind, e.Subject = muru.LevelNotice, muru.RolloutStep, "run 7"
	if got, want := e.Line(noon, time.UTC)[:46], "45 18:20:07 notice  rollout.step        run 7 "; got != want {
		t.Errorf("short words are padded: %q, want %q", got, want)
	}
}

func TestEveryEventLineParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := muru.Event{
			Seq:     rapid.IntRange(0, 1<<40).Draw(t, "seq"),
			Time:    time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "time"), 0).UTC(),
			Level:   muru.Level(rapid.IntRange(0, 2).Draw(t, "level")),
			Kind:    rapid.StringMatching(`[a-z]+\.[a-z_]{1,20}`).Draw(t, "kind"),
			Subject: rapid.SampledFrom([]string{"shop", "shop@r6", "run 7", "muru"}).Draw(t, "subject"),
			Message: rapid.StringMatching(`[^\n\r]*`).Draw(t, "message"),
		}
		now := rapid.SampledFrom([]time.Time{e.Time, noon}).Draw(t, "now")
		got, err := muru.ParseEvent(e.Line(now, time.UTC), now, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("parsed event differs (-printed +parsed):\n%s", diff)
		}
	})
}

func TestGarbageIsNoEvent(t *testing.T) {
	for _, line := range []string{
		"", "x", "1", "1 18:20:07", "-1 18:20:07 notice a.b shop m", "1 25:20:07 notice a.b shop m",
		"1 18:20:07 loud a.b shop m", "1 18:20:07 notice", "1 18:20:07 notice a.b",
	} {
		if e, err := muru.ParseEvent(line, noon, time.UTC); err == nil {
			t.Errorf("%q parsed as %+v", line, e)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add("45 18:20:07 warning rollout.gate_failed shop@r6 step 1")
	f.Add("1 2026-01-01 00:00:00 notice run.started run 7 x")
	f.Fuzz(func(t *testing.T, line string) {
		e, err := muru.ParseEvent(line, noon, time.UTC)
		if err != nil {
			return
		}
		again, err := muru.ParseEvent(e.Line(noon, time.UTC), noon, time.UTC)
		if err != nil || !cmp.Equal(e, again) {
			t.Errorf("%q parses as %+v, printed and parsed again as %+v, %v", line, e, again, err)
		}
	})
}

func TestReleaseIDs(t *testing.T) {
	for _, c := range []struct{ text, app, want string }{
		{"shop@r6", "", "shop@r6"},
		{"r6", "shop", "shop@r6"},
		{"shop@r6", "shop", "shop@r6"},
		{"r6", "", ""}, {"shop@6", "", ""}, {"shop@r06", "", ""}, {"shop@r0", "", ""}, {"shop@r-1", "", ""},
		{"blog@r6", "shop", ""}, {"Shop@r6", "", ""}, {"@r6", "", ""}, {"shop@r9999999999", "", ""}, {"", "", ""},
	} {
		id, err := muru.ParseReleaseID(c.text, c.app)
		if (err == nil) != (c.want != "") || err == nil && id.String() != c.want {
			t.Errorf("ParseReleaseID(%q, %q) = %v, %v, want %q", c.text, c.app, id, err, c.want)
		}
	}
}

func FuzzParseReleaseID(f *testing.F) {
	f.Add("shop@r6", "")
	f.Add("r6", "shop")
	form := regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}@r[1-9][0-9]{0,8}$`)
	f.Fuzz(func(t *testing.T, text, app string) {
		if id, err := muru.ParseReleaseID(text, app); err == nil && !form.MatchString(id.String()) {
			t.Errorf("ParseReleaseID(%q, %q) = %v", text, app, id)
		}
	})
}

func TestKeysPrintAsTheyParse(t *testing.T) {
	for _, text := range []string{"muru_id", "address", "cookie:sid", "header:X-User"} {
		key, err := muru.ParseKey(text)
		if err != nil || key.String() != text {
			t.Errorf("ParseKey(%q) = %v, %v", text, key, err)
		}
	}
	for _, text := range []string{"", "cookie:", "cookie:a b", "cookie", "header:a:b", "muru_id:x", "ip"} {
		if key, err := muru.ParseKey(text); err == nil {
			t.Errorf("ParseKey(%q) = %v", text, key)
		}
	}
}

func TestOneLineKeepsATextFromForgingAnother(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"plain  text":                   "plain  text",
		"ValueError: a\nb\n":            "ValueError: a b",
		"\x1b[2Jgone\r\n\t 12 notice x": "[2Jgone 12 notice x",
		"c1 \u0085 and \u007f":          "c1 and",
		"kettle \u2615 été":             "kettle \u2615 été",
	} {
		if got := muru.OneLine(in); got != want {
			t.Errorf("OneLine(%q) is %q, want %q", in, got, want)
		}
	}
}
