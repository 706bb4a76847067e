package muru_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muru"
)

func TestDurationsAreParsedWithUnitsOnly(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"250ms", "250ms"},
		{"1m30s", "1m30s"},
		{"90s", "1m30s"},
		{"2h", "2h"},
		{"1d", "24h"},
		{"1h30m", "1h30m"},
		{"1h0m5s", "1h5s"},
		{"0s", "0s"},
		{"1.5s", "1.5s"},
		{"10us", "10µs"},
		{"30", "error: 30 has no unit\nhint: write \"30s\""},
		{"250", "error: 250 has no unit\nhint: write \"250ms\" or \"250s\""},
		{"", "error: \"\" is not a duration"},
		{"-1s", "error: \"-1s\" is not a duration"},
		{"1x", "error: \"1x\" is not a duration"},
		{"s", "error: \"s\" is not a duration"},
		{"1.2.3s", "error: \"1.2.3s\" is not a duration"},
		{"999999999h", "error: 999999999h is longer than a duration can be"},
	} {
		d, err := muru.ParseDuration(c.in)
		got := muru.FormatDuration(d)
		if err != nil {
			got = errorText(err)
		}
		if got != c.want && !(strings.HasPrefix(c.want, "error") && strings.HasPrefix(got, c.want)) {
			t.Errorf("ParseDuration(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestMeasuredTimesReadAsPeopleSayThem(t *testing.T) {
	for _, c := range []struct {
		in   time.Duration
		want string
	}{
		{0, "0 ms"},
		{400 * time.Microsecond, "0.4 ms"},
		{4100 * time.Microsecond, "4.1 ms"},
		{4 * time.Millisecond, "4 ms"},
		{9949 * time.Microsecond, "9.9 ms"},
		{9950 * time.Microsecond, "10 ms"},
		{312 * time.Millisecond, "312 ms"},
		{999499 * time.Microsecond, "999 ms"},
		{999500 * time.Microsecond, "1 s"},
		{3 * time.Second, "3 s"},
		{3849 * time.Millisecond, "3.8 s"},
		{3850 * time.Millisecond, "3.9 s"},
		{59949 * time.Millisecond, "59.9 s"},
		{59950 * time.Millisecond, "1 min"},
		{5*time.Minute + 29*time.Second, "5 min 29 s"},
		{59*time.Minute + 59*time.Second + 600*time.Millisecond, "1 h"},
		{2*time.Hour + 5*time.Minute, "2 h 5 min"},
		{26 * time.Hour, "26 h"},
	} {
		if got := muru.FormatMeasured(c.in); got != c.want {
			t.Errorf("FormatMeasured(%v) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestRatesHaveTwoDecimalsHalfUp(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{0, "0.00%"}, {1, "1.00%"}, {100.0 * 9 / 41, "21.95%"}, {0.125, "0.13%"}, {0.004, "<0.01%"}, {0.005, "0.01%"}, {100, "100.00%"},
	} {
		if got := muru.FormatRate(c.in); got != c.want {
			t.Errorf("FormatRate(%v) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestSharesHaveAtMostTwoDecimals(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{10, "10%"}, {0.5, "0.5%"}, {0, "0%"}, {100, "100%"}, {33.33, "33.33%"},
		{0.001, "error: 0.001% has more than two decimals"}, {140, "error: 140% is over 100%"}, {-5, "error: -5% is below 0%"},
	} {
		s, err := muru.ShareFromPercent(c.in)
		got := s.String()
		if err != nil {
			got = errorText(err)
		}
		if got != c.want {
			t.Errorf("ShareFromPercent(%v) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestPercentagesThatMayMeanTwoThingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{0.1, `error: 0.1 may mean 0.1% or 10%: write "0.1%" or "10%"`},
		{0.05, `error: 0.05 may mean 0.05% or 5%: write "0.05%" or "5%"`},
		{-1, "error: -1 is not a percentage"},
		{1, ""}, {0, ""}, {50.5, ""},
	} {
		_, err := muru.PercentFromFloat(c.in)
		got := ""
		if err != nil {
			got = errorText(err)
		}
		if got != c.want {
			t.Errorf("PercentFromFloat(%v): %q, want %q", c.in, got, c.want)
		}
	}
	for _, text := range []string{"10", "x%", "%", "-1%", "NaN%", "Inf%", ""} {
		if p, err := muru.ParsePercent(text); err == nil {
			t.Errorf("ParsePercent(%q) = %v, want an error", text, p)
		}
	}
	if p, err := muru.ParsePercent("0.5%"); err != nil || p != 0.5 {
		t.Errorf("ParsePercent(0.5%%) = %v, %v", p, err)
	}
}

func TestSizesAndRatesNeedTheirUnits(t *testing.T) {
	for text, want := range map[string]int64{"512MiB": 512 << 20, "10KB": 10000, "7B": 7, "1.5GiB": 3 << 29} {
		if got, err := muru.ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]float64{"20/s": 20, "30/m": 0.5, "36/h": 0.01} {
		if got, err := muru.ParseRate(text); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0/s", "-1/s", "NaN/s", "Inf/s", "5e-324/h", "1e-12/h", "5/d", "5"} {
		if got, err := muru.ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", text, got)
		}
	}
	for _, text := range []string{"", "5", "MiB", "5TB", "-5B", "1e30GiB"} {
		if _, err := muru.ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) gave no error", text)
		}
	}
	for _, text := range []string{"", "5", "/s", "5/d", "-5/s", "0/s"} {
		if _, err := muru.ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) gave no error", text)
		}
	}
}

func TestEveryPrintedDurationParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "d")).Round(time.Millisecond)
		got, err := muru.ParseDuration(muru.FormatDuration(d))
		if err != nil || got != d {
			t.Fatalf("%v prints as %q, which parses as %v, %v", d, muru.FormatDuration(d), got, err)
		}
	})
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"1s", "10%", "5MiB", "20/s", "", "µ", "1e9s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := muru.ParseDuration(s); err == nil && d < 0 {
			t.Errorf("ParseDuration(%q) = %v", s, d)
		}
		if p, err := muru.ParsePercent(s); err == nil && !(p >= 0) {
			t.Errorf("ParsePercent(%q) = %v", s, p)
		}
		if n, err := muru.ParseSize(s); err == nil && n < 0 {
			t.Errorf("ParseSize(%q) = %v", s, n)
		}
		if r, err := muru.ParseRate(s); err == nil && !(r > 0) {
			t.Errorf("ParseRate(%q) = %v", s, r)
		}
	})
}

// errorText prints an error as people see it.
func errorText(err error) string {
	text := "error: " + err.Error()
	if e, ok := errors.AsType[*muru.Error](err); ok && e.Hint != "" {
		text += "\nhint: " + e.Hint
	}
	return text
}
