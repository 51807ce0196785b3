package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// putBack returns what is left of a set when all units are put back that need not be evicted, the dearest first: half of
// them at once as long as that goes, then one by one. Of a gang that must be evicted but can spare what is in the way,
// the rest stays. With any one unit of the result put back, the set does not pass. Therefore units are tried again after each success
// (a set that did not pass may pass when more stays: what a quota allows does not only grow), and the search's bound does not end it.
func (d *domain) putBack(set victimSet, passes func(victimSet) bool) victimSet {
	room := d.spareSlots(set)
	try := func(stay []Pick) bool {
		if !room.may(stay) {
			return false
		}
		d.spend(1 + len(set.picks)/4)
		fewer, _, ok := d.close(without(set.picks, stay))
		if !ok || len(fewer.picks) >= len(set.picks) && len(fewer.whole) >= len(set.whole) || !passes(fewer) {
			return false
		}
		set, room = fewer, d.spareSlots(fewer)
		return true
	}
	for again := true; again; {
		again = false
		units := d.units(set)
		for size := len(units); size > 0; size /= 2 {
			for i := 0; i < len(units); {
				upTo := min(i+size, len(units))
				if try(picksOf(units[i:upTo])) {
					units, again = slices.Delete(units, i, upTo), len(units) > 1
					continue
				}
				if size == 1 {
					if fewer, ok := d.shrink(set, units[i], passes); ok {
						set, room, again = fewer, d.spareSlots(fewer), true
					}
				}
				i = upTo
			}
		}
	}
	return set
}

// spareSlots says how many slots beyond those that are needed a set frees in the domain, to see quickly what cannot stay.
type spareSlots struct {
	*domain
	gone  map[int][]int // by node index
	spare offer.Slots
}

// spareSlots returns nil where slots alone do not say whether the members fit.
func (d *domain) spareSlots(set victimSet) *spareSlots {
	if d.Placement != nil || slices.Max(d.steps) > 1 {
		return nil
	}
	d.countBare()
	r := &spareSlots{domain: d, gone: byNode(set.picks), spare: d.sum - d.need}
	for i, gone := range r.gone {
		if i >= d.lo && i < d.hi {
			r.spare += d.Nodes[i].Slots(gone) - d.bare[i-d.lo]
		}
	}
	return r
}

// may returns false if the members do not fit when the picks stay.
func (r *spareSlots) may(stay []Pick) bool {
	if r == nil {
		return true
	}
	lost := offer.Slots(0)
	for i, stays := range byNode(stay) {
		if i < r.lo || i >= r.hi {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(r.gone[i]), func(v int) bool { return slices.Contains(stays, v) })
		lost += r.Nodes[i].Slots(r.gone[i]) - r.Nodes[i].Slots(left)
	}
	return lost <= r.spare
}

// picksOf lists the victims of some units, sorted, each once.
func picksOf(units []unit) (picks []Pick) {
	for _, u := range units {
		picks = append(picks, u.picks...)
	}
	slices.SortFunc(picks, comparePicks)
	return slices.Compact(picks)
}

// shrink puts back a unit but for members that their gangs can spare, if those that are in the way are no more than that.
func (d *domain) shrink(set victimSet, u unit, passes func(victimSet) bool) (victimSet, bool) {
	if !slices.ContainsFunc(u.gangs, func(g int) bool { return d.gangs[g-1].Spare > 0 }) {
		return set, false
	}
	rest := slices.Clone(u.picks)
	others := without(set.picks, u.picks)
	raw := func(rest []Pick) victimSet { // not closed: only the checks are asked
		picks := slices.Concat(others, rest)
		slices.SortFunc(picks, comparePicks)
		return victimSet{picks: picks}
	}
	slices.SortFunc(rest, func(x, y Pick) int { return d.victim(y).Compare(*d.victim(x)) })
	for i := 0; i < len(rest); {
		if fewer := slices.Delete(slices.Clone(rest), i, i+1); passes(raw(fewer)) {
			rest = fewer
		} else {
			i++
		}
	}
	fewer, _, ok := d.close(raw(rest).picks)
	if !ok || len(fewer.picks) >= len(set.picks) || !passes(fewer) {
		return set, false
	}
	return fewer, true
}
