package evict

import (
	"slices"
)

// placement is the last plan for heterogeneous members in a domain, and the victim set of that plan.
type placement struct {
	*domain
	placed Placed
	gone   []Pick
}

// fits returns whether the members fit after the set is evicted. If so, it records the plan and the set. A plan costs one step per node;
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

// holds returns whether the last plan is still valid if only the smaller victim set is evicted.
func (p *placement) holds(set victimSet) bool {
	changed := nodesOf(without(p.gone, set.picks))
	p.spend(1 + len(changed))
	if p.SeeksVictim != nil {
		p.spend(8 * int(p.Request.Want))
	}
	return p.placed.Holds(set.picks, changed)
}

// near returns the victims of a set on nodes of the last plan, if that plan is valid with these victims alone. Otherwise it returns set.
func (p *placement) near(set victimSet) victimSet {
	picks := slices.DeleteFunc(slices.Clone(set.picks), func(pick Pick) bool { return !p.placed.Uses(pick.Node) })
	if fewer, ok := p.closeWithin(picks); ok && len(fewer.picks) < len(set.picks) && p.holds(fewer) {
		return fewer
	}
	return set
}
