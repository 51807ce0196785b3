package evict

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// Verdict is what the quota check says of a victim set.
type Verdict uint8

// The verdicts.
const (
	Admitted Verdict = iota // all of the set may be evicted, and the quotas admit the members then
	Short                   // all may be evicted, but the quotas need more capacity
	Exceeds                 // the set takes more from a quota than may be taken
)

// Quota is the quota check: a validator, not a search.
type Quota interface {
	Check(gone []Pick) Verdict
	// Short says whether some quota needs capacity whatever node it is on, and Frees whether a victim's eviction frees it. If no quota
	// needs any, Frees is true of every victim.
	Short() bool
	Frees(p Pick) bool
	// Own says whether a victim is of the quota that the members are of.
	Own(p Pick) bool
	// Turns is for victims that are taken one after another.
	Turns() Turns
}

// Turns says whether victims may be evicted after others.
type Turns interface {
	May(picks []Pick) bool
	Evict(picks []Pick)
}

// admit changes a set that makes room so that it passes the quota check: it adds the cheapest bundles that free what the
// quotas lack. ok is false if no such set is found.
func (d *domain) admit(set victimSet) (_ victimSet, ok bool) {
	if d.Quota == nil {
		return set, true
	}
	d.room = true
	d.spend(len(set.picks))
	verdict := d.Quota.Check(set.picks)
	if verdict == Admitted {
		return set, true
	}
	if verdict == Exceeds && !d.mayInTurn(set) {
		return set, false
	}
	more := d.freeing(set)
	if verdict == Exceeds { // once victims of the own quota are evicted, it may take back what others borrow
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

// mostAdded bounds how many numbers of further bundles are tried one by one.
const mostAdded = 64

// add adds as many of the bundles, from the first on, as the quota check needs, or a single one of them if that costs less. Mostly more
// pass where fewer do; if they do not, numbers are tried one by one.
func (d *domain) add(set victimSet, bundles []victimSet) (victimSet, bool) {
	turns := d.Quota.Turns()
	turns.Evict(set.picks)
	var order [][]Pick
	count, left := d.counts(set.picks, set.whole), bundles
	for _, spares := range []bool{true, false} { // first bundles that exceed no budget after those before them
		left = slices.DeleteFunc(slices.Clone(left), func(b victimSet) bool {
			more := maps.Clone(count)
			for budget, n := range d.counts(b.picks, b.whole) {
				more[budget] += n
			}
			if spares && more.violations() > count.violations() || !turns.May(b.picks) {
				return false
			}
			turns.Evict(b.picks)
			count, order = more, append(order, b.picks)
			return true
		})
	}
	passes := func(some [][]Pick) (victimSet, bool) {
		more, ok := d.closeWithin(slices.Concat(append([][]Pick{set.picks}, some...)...))
		d.spend(len(more.picks))
		return more, ok && d.Quota.Check(more.picks) == Admitted
	}
	best, found := set, false
	least := 1 + sort.Search(len(order), func(i int) bool { _, ok := passes(order[:i+1]); return ok })
	if least <= len(order) {
		best, found = passes(order[:least])
	}
	for n := 1; n <= min(len(order), mostAdded) && !found && !d.tired; n++ {
		best, found = passes(order[:n])
	}
	for n := 1; n < min(len(order), mostAdded) && found && least > 1 && !d.tired; n++ {
		if one, ok := passes(order[n : n+1]); ok && one.cost.Compare(best.cost) < 0 {
			return one, true
		}
	}
	d.skipped = d.skipped || !found && len(order) > mostAdded
	return best, found
}

// mayInTurn says whether all units of a set may be evicted one after another, the small ones before the large ones. If not,
// it notes those that may not, and the victims beside the set that may not be evicted after the others. Only the first of
// several sets is noted, which is the cheapest.
func (d *domain) mayInTurn(set victimSet) bool {
	var surplus, later []Pick
	units := d.unitsApart(set)
	slices.SortStableFunc(units, func(x, y []Pick) int { return cmp.Compare(len(x), len(y)) })
	turns := d.Quota.Turns()
	in := map[Pick]bool{}
	for _, u := range units {
		if turns.May(u) {
			turns.Evict(u)
			for _, p := range u {
				in[p] = true
			}
		} else {
			surplus = append(surplus, u...)
		}
	}
	for _, p := range d.all() {
		if !in[p] && !turns.May([]Pick{p}) {
			later = append(later, p)
		}
	}
	d.spend(len(d.all()))
	if len(d.surplus) == 0 {
		d.surplus, d.later = surplus, later
	}
	return len(surplus) == 0
}

// unitsApart splits a set into single pods and gangs that are evicted whole.
func (d *domain) unitsApart(set victimSet) (out [][]Pick) {
	at := map[int]int{}
	for _, p := range set.picks {
		g := d.victim(p).Gang
		if !isWhole(set.whole, g) {
			out = append(out, []Pick{p})
			continue
		}
		i, known := at[g]
		if !known {
			i = len(out)
			at[g], out = i, append(out, nil)
		}
		out[i] = append(out[i], p)
	}
	return out
}

// freeing lists the bundles that free what a quota lacks and are not in the set, the cheapest first.
func (d *domain) freeing(set victimSet) (out []victimSet) {
	seen := map[int]bool{}
	for _, g := range set.whole {
		seen[g] = true
	}
	in := map[Pick]bool{}
	for _, p := range set.picks {
		in[p] = true
	}
	for i, here := range d.victims {
		for v := range here {
			p := Pick{i, v}
			g := here[v].Gang
			if in[p] || d.unevictable[p] || g > 0 && seen[g] || !d.Quota.Frees(p) || d.stays(p) {
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
