package evict

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// Verdict is the result of the quota check for a victim set.
type Verdict uint8

// The verdicts.
const (
	Admitted Verdict = iota // the set may be evicted, and the quotas then admit the members
	Short                   // the set may be evicted, but the quotas need more capacity
	Exceeds                 // the set takes more from a quota than allowed
)

// Quota is the quota check of victim sets. It does not search.
type Quota interface {
	Check(gone []Pick) Verdict
	// Short returns whether the quotas need capacity from any node. Frees returns whether evicting a victim frees it.
	// If no quota needs capacity, Frees is true for every victim.
	Short() bool
	Frees(p Pick) bool
	// Own returns whether a victim belongs to the members' own quota.
	Own(p Pick) bool
	// Turns returns a check for victims that are evicted one after another.
	Turns() Turns
}

// Turns checks whether victims may be evicted after earlier ones.
type Turns interface {
	May(picks []Pick) bool
	Evict(picks []Pick)
}

// admit returns set, which frees enough capacity on nodes, extended by the cheapest bundles that free what the quotas lack. The result
// passes the quota check; ok is false if no such set is found, or if the picks of set may not be evicted in turn (see mayInTurn).
func (d *domain) admit(set victimSet) (_ victimSet, ok bool) {
	if d.Quota == nil {
		return set, true
	}
	d.freeable = true
	d.spend(len(set.picks))
	verdict := d.Quota.Check(set.picks)
	if verdict == Admitted {
		return set, true
	}
	if verdict == Exceeds && !d.mayInTurn(set) {
		return set, false
	}
	more := d.freeing(set)
	if verdict == Exceeds { // only bundles of the gang's own quota; if these do not suffice, they first, then pods that borrow
		own := func(b victimSet) bool {
			return !slices.ContainsFunc(b.picks, func(p Pick) bool { return !d.Quota.Own(p) })
		}
		if with, ok := d.add(set, slices.DeleteFunc(slices.Clone(more), func(b victimSet) bool { return !own(b) })); ok {
			return with, true
		}
		slices.SortStableFunc(more, func(x, y victimSet) int { return cmp.Compare(btoi(own(y)), btoi(own(x))) })
	}
	return d.add(set, more)
}

// mostAdded bounds the numbers of further bundles that are tried one by one.
const mostAdded = 64

// add returns set, extended by the first bundles for which the quota check passes, or by a single bundle if that costs less. It assumes
// that more bundles pass if fewer do; if that fails, it tries each number.
func (d *domain) add(set victimSet, bundles []victimSet) (victimSet, bool) {
	turns := d.Quota.Turns()
	turns.Evict(set.picks)
	var order [][]Pick
	count, candidates := d.counts(set.picks, set.whole), bundles
	for _, spares := range []bool{true, false} { // first bundles that violate no further budget
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(b victimSet) bool {
			extended := maps.Clone(count)
			for budget, n := range d.counts(b.picks, b.whole) {
				extended[budget] += n
			}
			if spares && extended.violations() > count.violations() || !turns.May(b.picks) {
				return false
			}
			turns.Evict(b.picks)
			count, order = extended, append(order, b.picks)
			return true
		})
	}
	passes := func(chosen [][]Pick) (victimSet, bool) {
		extended, ok := d.closeWithin(slices.Concat(append([][]Pick{set.picks}, chosen...)...))
		d.spend(len(extended.picks))
		return extended, ok && d.Quota.Check(extended.picks) == Admitted
	}
	best, found := set, false
	least := 1 + sort.Search(len(order), func(i int) bool { _, ok := passes(order[:i+1]); return ok })
	if least <= len(order) {
		best, found = passes(order[:least])
	}
	for n := 1; n <= min(len(order), mostAdded) && !found && !d.stepsSpent; n++ {
		best, found = passes(order[:n])
	}
	for n := 1; n < min(len(order), mostAdded) && found && least > 1 && !d.stepsSpent; n++ {
		if single, ok := passes(order[n : n+1]); ok && single.cost.Compare(best.cost) < 0 {
			return single, true
		}
	}
	d.skipped = d.skipped || !found && len(order) > mostAdded
	return best, found
}

// mayInTurn returns whether all units of a set may be evicted one after another, small ones first. If not, it records in surplus the units
// that may not, and in blocked the victims that may not follow. Only the first set is recorded, which is the cheapest.
func (d *domain) mayInTurn(set victimSet) bool {
	var surplus, blocked []Pick
	units := d.separateUnits(set)
	slices.SortStableFunc(units, func(x, y []Pick) int { return cmp.Compare(len(x), len(y)) })
	turns := d.Quota.Turns()
	evicted := map[Pick]bool{}
	for _, u := range units {
		if turns.May(u) {
			turns.Evict(u)
			for _, p := range u {
				evicted[p] = true
			}
		} else {
			surplus = append(surplus, u...)
		}
	}
	for _, p := range d.all() {
		if !evicted[p] && !turns.May([]Pick{p}) {
			blocked = append(blocked, p)
		}
	}
	d.spend(len(d.all()))
	if len(d.surplus) == 0 {
		d.surplus, d.blocked = surplus, blocked
	}
	return len(surplus) == 0
}

// separateUnits returns the picks of a set, split into single pods and gangs that are evicted whole.
func (d *domain) separateUnits(set victimSet) (out [][]Pick) {
	indexOf := map[int]int{}
	for _, p := range set.picks {
		g := d.victim(p).Gang
		if !isWhole(set.whole, g) {
			out = append(out, []Pick{p})
			continue
		}
		i, known := indexOf[g]
		if !known {
			i = len(out)
			indexOf[g], out = i, append(out, nil)
		}
		out[i] = append(out[i], p)
	}
	return out
}

// freeing returns the bundles outside the set that free what a quota lacks, cheapest first, also outside the domain.
func (d *domain) freeing(set victimSet) (out []victimSet) {
	seen := map[int]bool{}
	for _, g := range set.whole {
		seen[g] = true
	}
	inSet := map[Pick]bool{}
	for _, p := range set.picks {
		inSet[p] = true
	}
	for i, ofNode := range d.victims {
		for v := range ofNode {
			p := Pick{i, v}
			g := ofNode[v].Gang
			if inSet[p] || d.unevictable[p] || g > 0 && seen[g] || !d.Quota.Frees(p) || d.excluded(p) {
				continue
			}
			b, ok := d.bundleOf(p)
			if !ok {
				continue
			}
			for _, whole := range b.whole {
				seen[whole] = true
			}
			out = append(out, b)
		}
	}
	d.spend(len(out))
	slices.SortStableFunc(out, func(x, y victimSet) int {
		return cmp.Or(x.cost.Compare(y.cost), d.compareSets(x.picks, y.picks, compareVictims))
	})
	return out
}
