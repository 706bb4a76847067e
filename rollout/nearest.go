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

// distance counts the letters to insert, delete, replace or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	before := make([]int, len(b)+1) // the row before the last
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := append([]int(nil), row...)
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before = last
	}
	return row[len(b)]
}
