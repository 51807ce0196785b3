package evict

import (
	"slices"
)

// placement is the last plan for heterogeneous members, and its victim set.
type placement struct {
	*domain
	placed Placed
	gone   []Pick
}

// fits returns whether the members fit without the set, and records the plan and the set if they do. A plan costs one step per node;
// interdependent members cost more, because each is tried on each node.
func (p *placement) fits(set victimSet) bool {
	if p.stepsSpent {
		return false
	}
	perMember := 8
	if p.SeeksVictim != nil {
		perMember = 8 * (p.hi - p.lo)
	}
	p.spend(p.hi - p.lo + perMember*int(p.Request.Want))
	placed, sure := p.Placement.Fits(set.picks)
	if placed == nil {
		p.skipped = p.skipped || !sure
		return false
	}
	p.placed, p.gone = placed, set.picks
	return true
}

// holds returns whether the node assignments of the last plan also fit with a smaller victim set.
func (p *placement) holds(set victimSet) bool {
	changed := nodesOf(without(p.gone, set.picks))
	p.spend(1 + len(changed))
	if p.SeeksVictim != nil {
		p.spend(8 * int(p.Request.Want))
	}
	return p.placed.Holds(set.picks, changed)
}

// near returns the victims of a set on nodes of the plan, if the plan fits with these alone; else the set.
func (p *placement) near(set victimSet) victimSet {
	picks := slices.DeleteFunc(slices.Clone(set.picks), func(pick Pick) bool { return !p.placed.Uses(pick.Node) })
	if fewer, ok := p.closeWithin(picks); ok && len(fewer.picks) < len(set.picks) && p.holds(fewer) {
		return fewer
	}
	return set
}
