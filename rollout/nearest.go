package rollout

import "muru"

// suggest adds the nearest of the names that exist to an error about one that
// does not.
func suggest(err *muru.Error, name string, names []string) *muru.Error {
	best, least := "", max(1, len(name)/3)+1
	for _, n := range names {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return err
	}
	return err.WithHint("did you mean %q?", best)
}

// distance counts the letters to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
