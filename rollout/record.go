package rollout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muru"
)

// What the engine keeps in the store is one JSON record a key, each with the
// version of its form in "v". This file has the keys and what all records
// share; record_*.go have one record each, both directions. A record is
// hostile until it is decoded: unknown fields, another version, names and
// numbers that cannot be are refused.
//
// What a release is given in its environment, a route's preview secret and the
// address of a gate's store are part of the plan and are stored as they are:
// the file is readable by its owner only. Nothing else that is secret is stored.
const recordVersion = 1

// The keys. Numbers have a fixed width, so that their order is that of the
// keys.
const (
	keyRoot     = "/muru/local/"
	keyApps     = keyRoot + "app/"
	keyReleases = keyRoot + "release/"
	keyRollouts = keyRoot + "rollout/"
	keyEvents   = keyRoot + "event/"
	keyMeta     = keyRoot + "meta/"

	keyEventCounter = keyMeta + "events"
	keyRunCounter   = keyMeta + "runs"
)

// numberMax bounds the numbers of releases and rollouts: their keys have
// eight digits.
const numberMax = 99_999_999

// eventMax bounds the numbers of events.
const eventMax = 999_999_999_999

func appKey(name string) string { return keyApps + name }
func releaseKey(id muru.ReleaseID) string {
	return fmt.Sprintf("%s%s/%08d", keyReleases, id.App, id.Number)
}
func rolloutKey(number int) string { return fmt.Sprintf("%s%08d", keyRollouts, number) }
func eventKey(seq int) string      { return fmt.Sprintf("%s%012d", keyEvents, seq) }

// keyNumber reads the number at the end of a key.
func keyNumber(key string, width int) (int, error) {
	digits := key[strings.LastIndexByte(key, '/')+1:]
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) != width || n < 1 {
		return 0, fmt.Errorf("%.80q ends in no number of %d digits", key, width)
	}
	return n, nil
}

// errNewer is a record that a newer muru wrote.
var errNewer = errors.New("a newer muru wrote it: run that one, or restore a backup from before the upgrade")

// encode returns a record's text. The records are made of types that can
// always be written.
func encode(record any) []byte {
	text, err := json.Marshal(record)
	if err != nil {
		panic("BUG: a record that cannot be written: " + err.Error())
	}
	return text
}

// ownForm is how the records of this form begin that muru writes.
var ownForm = []byte(`{"v":1,`)

// decode reads a record strictly.
func decode(text []byte, record any) error {
	if !bytes.HasPrefix(text, ownForm) {
		if err := checkForm(text); err != nil {
			return err
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(record); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more behind its end")
	}
	return nil
}

// checkForm reads the version alone, because what a newer muru wrote has
// fields that this one refuses.
func checkForm(text []byte) error {
	var form struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return err
	}
	switch {
	case form.V > recordVersion:
		return fmt.Errorf("its form is %d, and this muru knows forms up to %d: %w", form.V, recordVersion, errNewer)
	case form.V != recordVersion:
		return fmt.Errorf("its form is %d, which there is not", form.V)
	}
	return nil
}

// span is a duration as records have it: 1m30s.
type span time.Duration

func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is below 0", text)
	}
	*s = span(d)
	return err
}

// named is a value of one of our small integer types.
type named interface {
	~uint8
	fmt.Stringer
}

// parseName is the inverse of a small integer type's String.
func parseName[T named](name string) (T, error) {
	for v := range 256 {
		s := T(v).String()
		if strings.HasSuffix(s, ")") {
			break // past the last that has a name
		}
		if s == name {
			return T(v), nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a %T", name, T(0))
}

// parsePolicy is parseName for policies, whose first is left out of records.
func parsePolicy[T named](name string) (T, error) {
	if name == "" {
		return 0, nil
	}
	return parseName[T](name)
}

// checkNumber refuses what cannot be the number of a release or rollout; 0
// passes if there may be none.
func checkNumber(what string, n int, none bool) error {
	if n > numberMax || n < 0 || n == 0 && !none {
		return fmt.Errorf("%s: %d is not a number there can be", what, n)
	}
	return nil
}

// armRecord is a release's share.
type armRecord struct {
	Release int        `json:"release"`
	Share   muru.Share `json:"share"`
}

// splitRecord is a split; no arms: nothing serves.
type splitRecord struct {
	Salt string      `json:"salt,omitempty"`
	Arms []armRecord `json:"arms,omitempty"`
}

func newSplitRecord(s muru.Split) splitRecord {
	r := splitRecord{Salt: s.Salt}
	for _, arm := range s.Arms {
		r.Arms = append(r.Arms, armRecord{arm.Release.Number, arm.Share})
	}
	return r
}

// split returns the split of an app, made anew so that its rules hold.
func (r splitRecord) split(app string) (muru.Split, error) {
	if len(r.Arms) == 0 {
		return muru.Split{}, nil
	}
	var arms []muru.SplitArm
	for _, arm := range r.Arms {
		if err := checkNumber("split", arm.Release, false); err != nil {
			return muru.Split{}, err
		}
		id := muru.ReleaseID{App: app, Number: arm.Release}
		if slices.ContainsFunc(arms, func(a muru.SplitArm) bool { return a.Release == id }) {
			return muru.Split{}, fmt.Errorf("split: %s is in it twice", id)
		}
		arms = append(arms, muru.SplitArm{Release: id, Share: arm.Share})
	}
	last := len(arms) - 1
	s, err := muru.NewSplit(r.Salt, arms[last].Release, arms[:last]...)
	if err == nil && s.Arms[last].Share != arms[last].Share {
		err = fmt.Errorf("split: its shares do not sum to 100%%")
	}
	return s, err
}

// sortedSet returns the members of a set in order.
func sortedSet[K cmp.Ordered](set map[K]bool) []K { return slices.Sorted(maps.Keys(set)) }
