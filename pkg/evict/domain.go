package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// domain is the search in one domain: its nodes, in a tree of their own.
type domain struct {
	*search
	id     topology.ID
	lo, hi int
	local  plan.World // of the domain's nodes alone, see arranged; made when asked for
	at     []int      // by index of a node in local, its index in the whole tree
	steps  []offer.Slots
	bare   []offer.Slots // by index of the domain's node, slots while nothing is evicted; made when asked for
	sum    offer.Slots   // of bare
	listed []Pick        // see all

	stays func(Pick) bool // victims that no set holds now

	surplus, later []Pick // of the sets that took too much from a quota: what may not be evicted, and what may not after the rest
}

func (s *search) domain(id topology.ID) *domain {
	d := &domain{search: s, id: id, steps: s.Request.Multiple.Steps(s.World.Tree.Depth() + 1)}
	d.lo, d.hi = s.World.Tree.Nodes(id)
	return d
}

// arrange makes the domain's own world.
func (d *domain) arrange() {
	if d.at == nil {
		d.local, d.at = d.arranged(d.id)
	}
}

// all lists the domain's victims that a closed set may hold.
func (d *domain) all() []Pick {
	if d.listed == nil {
		d.listed = []Pick{}
		for i := d.lo; i < d.hi; i++ {
			for v := range d.victims[i] {
				if p := (Pick{i, v}); !d.unevictable[p] {
					d.listed = append(d.listed, p)
				}
			}
		}
	}
	return d.listed
}

// inDomain returns the cheapest candidate that is found in a domain; nil if there is none.
func (s *search) inDomain(id topology.ID) *candidate {
	d := s.domain(id)
	var best *candidate
	before := s.skipped
	for _, may := range d.starts() {
		if c := d.shedSurplus(may); c != nil && (best == nil || s.compare(c, best) < 0) {
			best = c
		}
	}
	best, all := d.exhaust(best)
	s.skipped = s.skipped && (before || !all)
	return best
}

// mostRounds bounds how often a set is made smaller because it takes too much from a quota.
const mostRounds = 8

// shedSurplus returns the best candidate of some victims. If sets take more from a quota than may be taken, the surplus stays,
// and so do, as long as the members fit, all victims that may not be evicted after the others.
func (d *domain) shedSurplus(may func(Pick) bool) (best *candidate) {
	stay, also := map[Pick]bool{}, map[Pick]bool{}
	for range mostRounds {
		d.surplus, d.later = nil, nil
		best = d.bestOfStarts(func(p Pick) bool { return stay[p] || also[p] || !may(p) })
		switch {
		case best != nil || d.tired:
			return best
		case len(d.surplus) > 0:
			for _, p := range d.surplus {
				stay[p] = true
			}
			also = map[Pick]bool{}
			for _, p := range d.later {
				also[p] = true
			}
		case len(also) > 0:
			also = map[Pick]bool{}
		default:
			return nil
		}
	}
	d.skipped = true
	return nil
}

// takes says whether the domain has slots for the members when the picks are evicted. It is true for members that are not alike: the
// placement check decides about them.
func (d *domain) takes(picks []Pick) bool {
	if d.Placement != nil {
		return true
	}
	d.countBare()
	gone := byNode(picks)
	d.spend(1 + len(gone)/8)
	if d.steps[0] > 1 || slices.Max(d.steps) > 1 {
		d.arrange()
		free := make([]offer.Slots, len(d.bare))
		for k, i := range d.at {
			if free[k] = d.bare[i-d.lo]; gone[i] != nil {
				free[k] = d.Nodes[i].Slots(gone[i])
			}
		}
		return offer.Roll(d.local.Tree, free, d.steps)[topology.Root] >= d.need
	}
	sum := d.sum
	for i, out := range gone {
		if i >= d.lo && i < d.hi {
			sum += d.Nodes[i].Slots(out) - d.bare[i-d.lo]
		}
	}
	return sum >= d.need
}

// countBare asks each node what it takes as it is.
func (d *domain) countBare() {
	if d.bare != nil {
		return
	}
	d.bare = make([]offer.Slots, d.hi-d.lo)
	for i := range d.bare {
		d.bare[i] = d.Nodes[d.lo+i].Slots(nil)
		d.sum += d.bare[i]
	}
}

// asCandidate makes a candidate of a set that makes room, with the plan that follows; nil if there is none.
func (d *domain) asCandidate(set victimSet) *candidate {
	if d.Placement != nil {
		p := &placement{domain: d}
		if !p.fits(set) {
			return nil
		}
		return &candidate{set: set, placed: p.placed}
	}
	w := d.World
	w.Free = make([]offer.Slots, len(d.Nodes))
	gone := byNode(set.picks)
	d.countBare()
	for i := d.lo; i < d.hi; i++ { // elsewhere the members would not gather, or need no victim
		if w.Free[i] = d.bare[i-d.lo]; gone[i] != nil {
			w.Free[i] = d.Nodes[i].Slots(gone[i])
		}
	}
	d.spend(d.hi - d.lo)
	p, _ := plan.Choose(w, d.Request)
	if p == nil {
		return nil
	}
	return &candidate{set: set, plan: p}
}

// passBothChecks has a set that makes room pass both checks and puts back what need not be evicted; nil if the set cannot pass.
func (d *domain) passBothChecks(set victimSet) *candidate {
	admits := func(set victimSet) bool { return d.Quota == nil || d.Quota.Check(set.picks) == Admitted }
	if d.Placement == nil {
		if set, ok := d.admit(set); ok {
			return d.asCandidate(d.putBack(set, func(set victimSet) bool { return d.takes(set.picks) && admits(set) }))
		}
		return nil
	}
	p := &placement{domain: d}
	if !p.fits(set) {
		return nil
	}
	set, ok := d.admit(p.near(set))
	if !ok || !p.holds(set) && !p.fits(set) { // what a quota needs may be what members must be near
		return nil
	}
	// First the plan stays as it is, which is asked quickly; then others are tried for what is left.
	set = d.putBack(set, func(set victimSet) bool { return p.holds(set) && admits(set) })
	set = d.putBack(set, func(set victimSet) bool { return admits(set) && (p.holds(set) || p.fits(set)) })
	return &candidate{set: set, placed: p.placed}
}

// nodesOf lists the nodes of some picks, rising, each once.
func nodesOf(picks []Pick) (nodes []int) {
	for _, p := range picks {
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// without lists the picks that are not among others; both are sorted.
func without(picks, others []Pick) (out []Pick) {
	for _, p := range picks {
		if _, found := slices.BinarySearchFunc(others, p, comparePicks); !found {
			out = append(out, p)
		}
	}
	return out
}
