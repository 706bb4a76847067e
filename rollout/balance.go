package rollout

import (
	"fmt"
	"math"

	"muru"
)

// unbalancedBelow is how unlikely a split must be to be called off.
const unbalancedBelow = 1e-4

// balanceLeast is how many clients each arm must be expected to have before
// anything is said of the split.
const balanceLeast = 5

// balanceOf is how likely it is that so many of all clients, or further from
// it, were given to the candidate by a split of that share: a chi-square test
// of one degree of freedom. Few clients prove nothing: 1.
func balanceOf(candidate, all int, share muru.Share) (p float64) {
	rho := float64(share) / muru.Buckets
	n := float64(all)
	if n*rho < balanceLeast || n*(1-rho) < balanceLeast {
		return 1
	}
	d := float64(candidate) - n*rho
	return math.Erfc(math.Sqrt(d * d / (n * rho * (1 - rho)) / 2))
}

// checkBalance looks once, when a step could end, whether the split did what
// it should: new clients are counted, once each, since who comes back often
// says nothing of it. If it did not, what the gates say proves nothing and the
// step cannot finish.
func (a *actor) checkBalance() (balanced bool) {
	l := a.live
	if l.weighedSplit {
		return !l.unbalanced
	}
	l.weighedSplit = true
	if l.Step.Shadow {
		return true // nobody is sent to the candidate
	}
	candidate, all := l.examiner.judge.Balance()
	p := balanceOf(candidate, all, l.Step.Share)
	if l.unbalanced = p < unbalancedBelow; l.unbalanced {
		a.say(a.rolloutEvent(muru.LevelError, muru.RolloutUnbalanced, muruItself, eventUnbalanced(candidate, all, l.Step.Share, p)))
	}
	return !l.unbalanced
}

func eventUnbalanced(candidate, all int, s muru.Share, p float64) string {
	return fmt.Sprintf("%d of %d clients, %s expected (p %s): the split is off, its gates prove nothing", candidate, all, s, formatP(p))
}

// formatP prints a probability with two decimals, tiny ones as such.
func formatP(p float64) string {
	if p < 0.005 && p > 0 {
		return fmt.Sprintf("%.0e", p)
	}
	return fmt.Sprintf("%.2f", p)
}
