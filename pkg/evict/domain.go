package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// domain is the search for a victim set in one domain of the tree.
type domain struct {
	*search
	id      topology.ID
	lo, hi  int
	local   plan.World // the domain's nodes alone, see arranged; created on demand
	index   []int      // by index of a node in local, its index in the whole tree
	steps   []offer.Slots
	current []offer.Slots // by index of the domain's node, slots without evictions; computed on demand
	sum     offer.Slots   // sum of current
	listed  []Pick        // see all

	excluded func(Pick) bool // victims excluded from all sets now

	surplus, blocked []Pick // of a set that exceeds a quota: its victims that may not be evicted, and victims that may not follow
}

// domain returns the search in the domain id.
func (s *search) domain(id topology.ID) *domain {
	d := &domain{search: s, id: id, steps: s.Request.Multiple.Steps(s.World.Tree.Depth() + 1)}
	d.lo, d.hi = s.World.Tree.Nodes(id)
	return d
}

// arrange sets local and index, once.
func (d *domain) arrange() {
	if d.index == nil {
		d.local, d.index = d.arranged(d.id)
	}
}

// all returns the domain's victims that may be in a closed set (see bundles.go).
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

// inDomain returns the cheapest candidate found in a domain; nil if there is none.
func (s *search) inDomain(id topology.ID) *candidate {
	d := s.domain(id)
	var best *candidate
	before := s.skipped
	for _, allowed := range d.starts() {
		if c := d.shedSurplus(allowed); c != nil && (best == nil || s.compare(c, best) < 0) {
			best = c
		}
	}
	best, all := d.exhaust(best)
	s.skipped = s.skipped && (before || !all)
	return best
}

// mostRounds limits how often a set shrinks because it takes too much from a quota.
const mostRounds = 8

// shedSurplus returns the best candidate with allowed victims. If sets exceed a quota, it retries without the surplus victims. It also
// omits victims that may not be evicted after the others, as long as the members then fit.
func (d *domain) shedSurplus(allowed func(Pick) bool) (best *candidate) {
	kept, deferred := map[Pick]bool{}, map[Pick]bool{}
	for range mostRounds {
		d.surplus, d.blocked = nil, nil
		best = d.bestOfStarts(func(p Pick) bool { return kept[p] || deferred[p] || !allowed(p) })
		switch {
		case best != nil || d.stepsSpent:
			return best
		case len(d.surplus) > 0:
			for _, p := range d.surplus {
				kept[p] = true
			}
			deferred = map[Pick]bool{}
			for _, p := range d.blocked {
				deferred[p] = true
			}
		case len(deferred) > 0:
			deferred = map[Pick]bool{}
		default:
			return nil
		}
	}
	d.skipped = true
	return nil
}

// takes returns whether the domain has slots for the needed members after picks are evicted; always true with a placement check.
func (d *domain) takes(picks []Pick) bool {
	if d.Placement != nil {
		return true
	}
	d.countCurrent()
	gone := byNode(picks)
	d.spend(1 + len(gone)/8)
	if d.steps[0] > 1 || slices.Max(d.steps) > 1 {
		d.arrange()
		free := make([]offer.Slots, len(d.current))
		for k, i := range d.index {
			if free[k] = d.current[i-d.lo]; gone[i] != nil {
				free[k] = d.Nodes[i].Slots(gone[i])
			}
		}
		return offer.Roll(d.local.Tree, free, d.steps)[topology.Root] >= d.need
	}
	sum := d.sum
	for i, victims := range gone {
		if i >= d.lo && i < d.hi {
			sum += d.Nodes[i].Slots(victims) - d.current[i-d.lo]
		}
	}
	return sum >= d.need
}

// countCurrent sets current and sum: the slots of each node, and of the domain, without evictions.
func (d *domain) countCurrent() {
	if d.current != nil {
		return
	}
	d.current = make([]offer.Slots, d.hi-d.lo)
	for i := range d.current {
		d.current[i] = d.Nodes[d.lo+i].Slots(nil)
		d.sum += d.current[i]
	}
}

// asCandidate returns the set with the plan that it makes possible in the domain; nil if there is no such plan.
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
	d.countCurrent()
	for i := d.lo; i < d.hi; i++ { // other nodes keep 0 slots: members there would not gather, or need no victim
		if w.Free[i] = d.current[i-d.lo]; gone[i] != nil {
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

// passBothChecks returns a candidate made from set: it adds victims that the quotas need, and puts unneeded victims back. It returns nil if
// the set does not pass the placement check and the quota check.
func (d *domain) passBothChecks(set victimSet) *candidate {
	admitted := func(set victimSet) bool { return d.Quota == nil || d.Quota.Check(set.picks) == Admitted }
	if d.Placement == nil {
		if set, ok := d.admit(set); ok {
			return d.asCandidate(d.putBack(set, func(set victimSet) bool { return d.takes(set.picks) && admitted(set) }))
		}
		return nil
	}
	p := &placement{domain: d}
	if !p.fits(set) {
		return nil
	}
	set, ok := d.admit(p.near(set))
	if !ok || !p.holds(set) && !p.fits(set) { // members may need to be near a victim that a quota adds
		return nil
	}
	// First the plan stays unchanged, which is cheap; then new plans are tried.
	set = d.putBack(set, func(set victimSet) bool { return p.holds(set) && admitted(set) })
	set = d.putBack(set, func(set victimSet) bool { return admitted(set) && (p.holds(set) || p.fits(set)) })
	return &candidate{set: set, placed: p.placed}
}

// nodesOf returns the node indexes of picks, ascending and unique.
func nodesOf(picks []Pick) (nodes []int) {
	for _, p := range picks {
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// without returns the picks that are not in excluded. excluded must be sorted.
func without(picks, excluded []Pick) (out []Pick) {
	for _, p := range picks {
		if _, found := slices.BinarySearchFunc(excluded, p, comparePicks); !found {
			out = append(out, p)
		}
	}
	return out
}
