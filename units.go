package muru

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDuration parses a duration with units: 250ms, 1m30s, 2h, 1d. The units
// are ns, us, ms, s, m, h and d (24 hours). A bare number is refused, as is a
// negative duration.
func ParseDuration(text string) (time.Duration, error) {
	bad := func() (time.Duration, error) {
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			unitless := Errorf(KindUsage, "%s has no unit", text)
			if n >= 100 {
				return 0, unitless.WithHint(`write "%sms" or "%ss"`, text, text) // limits of times are often meant in ms
			}
			return 0, unitless.WithHint(`write "%ss"`, text)
		}
		return 0, Errorf(KindUsage, "%q is not a duration", text).WithHint(`write it like "250ms", "30s" or "1m30s"`)
	}
	rest, total := text, 0.0
	if rest == "" {
		return bad()
	}
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		value, err := strconv.ParseFloat(rest[:digits], 64)
		if err != nil {
			return bad()
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "nuµmshd"))
		unit, ok := durationUnits[rest[:letters]]
		if !ok {
			return bad()
		}
		rest = rest[letters:]
		total += value * float64(unit)
	}
	if total > float64(math.MaxInt64) || math.IsNaN(total) {
		return 0, Errorf(KindUsage, "%s is longer than a duration can be", text)
	}
	return time.Duration(math.Round(min(total, math.MaxInt64-512))), nil
}

var durationUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// FormatDuration prints a duration that somebody set, as Go does but without
// zero parts: 30s, 1m30s, 2h. [ParseDuration] reads it back.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return strings.Replace(text, "h0m", "h", 1)
}

// FormatMeasured prints a duration that was measured, or the limit of one:
// 0.4 ms below 10 ms, 312 ms, 3.8 s from a second on, 5 min 29 s from a
// minute, 2 h 5 min from an hour.
func FormatMeasured(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 9.95:
		return oneDecimal(ms) + " ms"
	case ms < 999.5:
		return strconv.FormatFloat(math.Floor(ms+0.5), 'f', 0, 64) + " ms"
	case ms < 59950:
		return oneDecimal(ms/1000) + " s"
	}
	s := int64(math.Floor(ms/1000 + 0.5))
	if s < 3600 {
		return twoUnits(s/60, "min", s%60, "s")
	}
	m := int64(math.Floor(float64(s)/60 + 0.5))
	return twoUnits(m/60, "h", m%60, "min")
}

func twoUnits(a int64, unitA string, b int64, unitB string) string {
	text := strconv.FormatInt(a, 10) + " " + unitA
	if b > 0 {
		text += " " + strconv.FormatInt(b, 10) + " " + unitB
	}
	return text
}

// oneDecimal prints x with one decimal, half up, without a zero one.
func oneDecimal(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(math.Floor(x*10+0.5)/10, 'f', 1, 64), ".0")
}

// String prints a share with at most two decimals: 10%, 0.5%.
func (s Share) String() string {
	return strconv.FormatFloat(float64(s)/100, 'f', -1, 64) + "%"
}

// FormatRate prints a rate or its limit, on the scale of 0 to 100, with two
// decimals, half up; what is above 0 but would print as 0.00% is <0.01%.
func FormatRate(percent float64) string {
	rounded := math.Floor(percent*100+0.5) / 100
	if rounded == 0 && percent > 0 {
		return "<0.01%"
	}
	return strconv.FormatFloat(rounded, 'f', 2, 64) + "%"
}

// ParsePercent parses text like "0.5%" on the scale of 0 to 100. It may be
// over 100; negative ones are refused.
func ParsePercent(text string) (float64, error) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	p, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !ok || err != nil || p < 0 || math.IsInf(p, 0) || math.IsNaN(p) {
		return 0, Errorf(KindUsage, "%q is not a percentage", text).WithHint(`write it like "1%%" or "0.5%%"`)
	}
	return p, nil
}

// PercentFromFloat takes a percentage written as a number: 10.0 is 10%, and
// so is 0; a number between 0 and 1 is refused because half of its readers
// mean a hundredfold of what the other half do.
func PercentFromFloat(p float64) (float64, error) {
	switch {
	case p > 0 && p < 1:
		text := strconv.FormatFloat(p, 'f', -1, 64)
		whole := strconv.FormatFloat(math.Round(p*100*1e6)/1e6, 'f', -1, 64)
		return 0, Errorf(KindUsage, `%s may mean %s%% or %s%%: write "%s%%" or "%s%%"`, text, text, whole, text, whole)
	case p < 0 || math.IsInf(p, 0) || math.IsNaN(p):
		return 0, Errorf(KindUsage, "%v is not a percentage", p)
	}
	return p, nil
}

// ShareFromPercent rounds nothing away: shares have two decimals and lie
// between 0 and 100%.
func ShareFromPercent(p float64) (Share, error) {
	bp := math.Round(p * 100)
	if math.Abs(p*100-bp) > 1e-6 {
		return 0, Errorf(KindUsage, "%s%% has more than two decimals", strconv.FormatFloat(p, 'f', -1, 64))
	}
	if bp < 0 {
		return 0, Errorf(KindUsage, "%s%% is below 0%%", strconv.FormatFloat(p, 'f', -1, 64))
	}
	if bp > Buckets {
		return 0, Errorf(KindUsage, "%s%% is over 100%%", strconv.FormatFloat(p, 'f', -1, 64))
	}
	return Share(bp), nil
}

// sizeUnits are decimal with B and binary with iB, as the IEC has them.
var sizeUnits = map[string]float64{
	"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}

// ParseSize parses a size in bytes with a unit: 512MiB, 10KB.
func ParseSize(text string) (int64, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789."))
	value, err := strconv.ParseFloat(text[:digits], 64)
	unit, ok := sizeUnits[strings.TrimSpace(text[digits:])]
	if err != nil || !ok || value*unit > 1<<62 {
		return 0, Errorf(KindUsage, "%q is not a size", text).WithHint(`write it like "512MiB" or "10KB"`)
	}
	return int64(value * unit), nil
}

// minRate is less than one event in a century: the time between two of them
// fits a duration.
const minRate = 1.0 / (100 * 365 * 86400)

// ParseRate parses a rate like 20/s, 30/m or 5/h as events per second.
func ParseRate(text string) (float64, error) {
	digits, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(digits, 64)
	per, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || !ok || !(n/per > minRate) || math.IsInf(n, 0) {
		return 0, Errorf(KindUsage, "%q is not a rate", text).WithHint(`write it like "20/s", "30/m" or "5/h"`)
	}
	return n / per, nil
}
