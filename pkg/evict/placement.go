package evict

import (
	"slices"
)

// placement is the last plan for members that are not alike, and the set that it was made for.
type placement struct {
	*domain
	placed Placed
	gone   []Pick
}

// fits plans anew. A plan costs as many steps as there are nodes; where members depend on one another each of them is tried on
// each node.
func (p *placement) fits(set victimSet) bool {
	if p.tired {
		return false
	}
	each := 8
	if p.Sought != nil {
		each = 8 * (p.hi - p.lo)
	}
	p.spend(p.hi - p.lo + each*int(p.Request.Want))
	placed, sure := p.Placement.Fits(set.picks)
	if placed == nil {
		p.skipped = p.skipped || !sure
		return false
	}
	p.placed, p.gone = placed, set.picks
	return true
}

// holds says whether the last plan holds for a smaller set.
func (p *placement) holds(set victimSet) bool {
	changed := nodesOf(without(p.gone, set.picks))
	p.spend(1 + len(changed))
	if p.Sought != nil {
		p.spend(8 * int(p.Request.Want))
	}
	return p.placed.Holds(set.picks, changed)
}

// near returns the part of a set that is on nodes of the plan, if the plan holds for that: mostly the rest is on nodes that the members do not need.
func (p *placement) near(set victimSet) victimSet {
	picks := slices.DeleteFunc(slices.Clone(set.picks), func(at Pick) bool { return !p.placed.Uses(at.Node) })
	if fewer, ok := p.closeWithin(picks); ok && len(fewer.picks) < len(set.picks) && p.holds(fewer) {
		return fewer
	}
	return set
}
