package rollout

import "fmt"

// counterRecord is the last number that was given out. For events it is the
// last that may have been: numbers are taken in small blocks, so that one
// which people have seen is never given again after a crash.
type counterRecord struct {
	V    int `json:"v"`
	Last int `json:"last"`
}

func encodeCounter(last int) []byte { return encode(counterRecord{recordVersion, last}) }

func decodeCounter(text []byte) (int, error) {
	var r counterRecord
	if err := decode(text, &r); err != nil {
		return 0, err
	}
	if r.Last < 0 || r.Last > eventMax {
		return 0, fmt.Errorf("%d is not a number there can be", r.Last)
	}
	return r.Last, nil
}
