package muru

import (
	"strings"
	"unicode"
)

// Suggest returns the candidate somebody most likely meant by name, or ""
// when none is near. Case, dashes and underscores do not count, two swapped
// letters count as one edit, and about one letter in three may be wrong. All
// candidates are looked at; of equally near ones the first in the
// alphabet wins, so the answer does not depend on their order.
func Suggest(name string, candidates []string) string {
	want := fold(name)
	best, bestDistance := "", max(1, (len(want)+1)/3)+1
	for _, candidate := range candidates {
		got := fold(candidate)
		if d := len(got) - len(want); d >= bestDistance+1 || -d >= bestDistance+1 {
			continue
		}
		d := editDistance(want, got)
		if d >= len(want) && d > 0 {
			continue // nothing in common
		}
		if d < bestDistance || d == bestDistance && best != "" && candidate < best {
			best, bestDistance = candidate, d
		}
	}
	return best
}

func fold(s string) []rune {
	return []rune(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, s))
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func editDistance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
