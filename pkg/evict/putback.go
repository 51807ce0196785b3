package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// putBack returns a smaller set that passes: it puts back all units that need not be evicted, the most expensive first. It tries many units
// at once, then fewer, then single ones. If a gang must be evicted, some members beyond its spare ones may still be kept. Invariant: no
// single unit of the result can be put back. Units are therefore tried again after each success, because quotas are not monotonic, and the
// step limit does not end it.
func (d *domain) putBack(set victimSet, passes func(victimSet) bool) victimSet {
	spare := d.spareSlots(set)
	try := func(kept []Pick) bool {
		if !spare.allows(kept) {
			return false
		}
		d.spend(1 + len(set.picks)/4)
		fewer, _, ok := d.closure(without(set.picks, kept))
		if !ok || len(fewer.picks) >= len(set.picks) && len(fewer.whole) >= len(set.whole) || !passes(fewer) {
			return false
		}
		set, spare = fewer, d.spareSlots(fewer)
		return true
	}
	for changed := true; changed; {
		changed = false
		units := d.units(set)
		for size := len(units); size > 0; size /= 2 {
			for i := 0; i < len(units); {
				upTo := min(i+size, len(units))
				if try(picksOf(units[i:upTo])) {
					units, changed = slices.Delete(units, i, upTo), len(units) > 1
					continue
				}
				if size == 1 {
					if fewer, ok := d.shrink(set, units[i], passes); ok {
						set = fewer
						spare = d.spareSlots(fewer)
						changed = true
					}
				}
				i = upTo
			}
		}
	}
	return set
}

// spareSlots is how many slots more than needed a set frees in the domain. It quickly excludes victims that must be evicted.
type spareSlots struct {
	*domain
	gone  map[int][]int // by node index
	spare offer.Slots
}

// spareSlots returns the spare slots of a set; nil if slots alone do not decide whether the members fit.
func (d *domain) spareSlots(set victimSet) *spareSlots {
	if d.Placement != nil || slices.Max(d.steps) > 1 {
		return nil
	}
	d.countCurrent()
	r := &spareSlots{domain: d, gone: byNode(set.picks), spare: d.sum - d.need}
	for i, gone := range r.gone {
		if i >= d.lo && i < d.hi {
			r.spare += d.Nodes[i].Slots(gone) - d.current[i-d.lo]
		}
	}
	return r
}

// allows returns false if the members do not fit when these picks of the set are kept. It returns true for nil.
func (r *spareSlots) allows(kept []Pick) bool {
	if r == nil {
		return true
	}
	lost := offer.Slots(0)
	for i, keptVictims := range byNode(kept) {
		if i < r.lo || i >= r.hi {
			continue
		}
		remaining := slices.DeleteFunc(slices.Clone(r.gone[i]), func(v int) bool { return slices.Contains(keptVictims, v) })
		lost += r.Nodes[i].Slots(r.gone[i]) - r.Nodes[i].Slots(remaining)
	}
	return lost <= r.spare
}

// picksOf returns the victims of units, sorted and unique.
func picksOf(units []unit) (picks []Pick) {
	for _, u := range units {
		picks = append(picks, u.picks...)
	}
	slices.SortFunc(picks, comparePicks)
	return slices.Compact(picks)
}

// shrink returns the set with only those members of unit u that passes requires; ok is false if no gang of u spares a member.
func (d *domain) shrink(set victimSet, u unit, passes func(victimSet) bool) (victimSet, bool) {
	if !slices.ContainsFunc(u.gangs, func(g int) bool { return d.gangs[g-1].Spare > 0 }) {
		return set, false
	}
	rest := slices.Clone(u.picks)
	required := without(set.picks, u.picks)
	unclosed := func(rest []Pick) victimSet { // not closed: only for the checks
		picks := slices.Concat(required, rest)
		slices.SortFunc(picks, comparePicks)
		return victimSet{picks: picks}
	}
	slices.SortFunc(rest, func(x, y Pick) int { return d.victim(y).Compare(*d.victim(x)) })
	for i := 0; i < len(rest); {
		if fewer := slices.Delete(slices.Clone(rest), i, i+1); passes(unclosed(fewer)) {
			rest = fewer
		} else {
			i++
		}
	}
	fewer, _, ok := d.closure(unclosed(rest).picks)
	if !ok || len(fewer.picks) >= len(set.picks) || !passes(fewer) {
		return set, false
	}
	return fewer, true
}
