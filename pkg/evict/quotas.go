package evict

import (
	"cmp"
	"slices"
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
	// Short says whether some quota needs capacity whatever node it is on, and Frees whether a victim's eviction frees it.
	Short() bool
	Frees(p Pick) bool
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
	switch d.Quota.Check(set.picks) {
	case Admitted:
		return set, true
	case Exceeds:
		d.noteSurplus(set)
		return set, false
	}
	turns := d.Quota.Turns()
	turns.Evict(set.picks)
	var order [][]Pick
	for _, b := range d.freeing(set) {
		if turns.May(b.picks) {
			turns.Evict(b.picks)
			order = append(order, b.picks)
		}
	}
	with := func(n int) (victimSet, bool) {
		return d.closeWithin(slices.Concat(append([][]Pick{set.picks}, order[:n]...)...))
	}
	lo, hi := 1, len(order)
	for lo < hi { // mostly more is enough where less is; put back checks each of them anyway
		mid := (lo + hi) / 2
		more, ok := with(mid)
		d.spend(len(more.picks))
		if ok && d.Quota.Check(more.picks) == Admitted {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if len(order) == 0 {
		return set, false
	}
	more, ok := with(hi)
	return more, ok && d.Quota.Check(more.picks) == Admitted
}

// noteSurplus notes which units of a set may not be evicted after the others, the small ones before the large ones, and
// which victims beside the set may not be evicted after those that may.
// Only the first of several sets counts, which is the cheapest.
func (d *domain) noteSurplus(set victimSet) {
	if len(d.surplus) > 0 {
		return
	}
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
			d.surplus = append(d.surplus, u...)
		}
	}
	for _, p := range d.all {
		if !in[p] && !turns.May([]Pick{p}) {
			d.later = append(d.later, p)
		}
	}
	d.spend(len(d.all))
}

// unitsApart splits a set into single pods and gangs that are evicted whole.
func (d *domain) unitsApart(set victimSet) (out [][]Pick) {
	at := map[int]int{}
	for _, p := range set.picks {
		g := d.victim(p).Gang
		if _, whole := slices.BinarySearch(set.whole, g); !whole {
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
			if in[p] || d.fixed[p] || g > 0 && seen[g] || !d.Quota.Frees(p) {
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
		return cmp.Or(x.cost.Compare(y.cost), d.compareAges(x.picks, y.picks))
	})
	return out
}
