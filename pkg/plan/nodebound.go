package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file speeds up searches without charges in which several preferences decide, all charging by domain.
// The prices of the upper preferences are found first, and bound the price of the last one, which counts the most domains.
//
// If the last preference is for few nodes, a lower bound helps. For any number of members perNode,
//
//	nodes ≥ (members - capacity of nodes beyond perNode) / perNode
//
// with the most capacity that the allowed blocks have. The bound for the best perNode is nearly always exact.

// withoutLast returns the search without the last preference; nil if there is only one, or members have a cost.
func (s *Search) withoutLast() *Search {
	last := len(s.columns) - 1
	if s.upper == nil && last > 0 && s.charges == nil {
		s.upper = &Search{World: s.World, Request: s.Request, Ground: s.Ground, steps: s.steps, digits: s.digits}
		s.upper.columns, s.upper.soft = s.columns[:last], false
	}
	return s.upper
}

// fewest is ByPreferences: it returns the domains in which preferences charge n the least. It evaluates the last preference only for
// domains that are equal by the earlier ones and may touch as few nodes as the best.
func (s *Search) fewest(domains []topology.ID, n offer.Slots) []topology.ID {
	if c := s.withoutLast(); c != nil {
		if domains = c.fewest(domains, n); len(domains) == 1 {
			return domains
		}
	}
	if s.soft && s.charges == nil {
		return domains // the search without the last column has decided
	}
	if s.nodesLast(domains[0]) {
		nodes := func(d topology.ID) int64 { return s.leastNodes(d, n).nodes }
		slices.SortStableFunc(domains, func(a, b topology.ID) int { return cmp.Compare(nodes(a), nodes(b)) })
		for i, best := 0, int64(math.MaxInt64); i < len(domains); i++ {
			if nodes(domains[i]) > best {
				domains = domains[:i]
				break
			}
			best = min(best, s.nodesOf(s.insidePrice(domains[i], n)))
		}
		slices.Sort(domains)
	}
	return Cheapest(domains, func(d topology.ID) offer.Price { return s.withoutSoft(s.insidePrice(d, n)) })
}

// softest returns the domains in which soft preferences charge n the least.
func (s *Search) softest(domains []topology.ID, n offer.Slots) []topology.ID {
	if !s.soft {
		return domains
	}
	return Cheapest(domains, func(d topology.ID) offer.Price { return s.insidePrice(d, n) })
}

// nodesLast returns whether the last preference is for few nodes, and another one is for domains below d.
func (s *Search) nodesLast(d topology.ID) bool {
	c := s.withoutLast()
	return c != nil && s.width == 1 && s.perDomain && s.lowest() == s.tree.Depth() && c.lowest() > s.tree.Layer(d)
}

// nodesOf returns the number of touched nodes in a price: its last digit.
func (s *Search) nodesOf(p offer.Price) int64 {
	last := len(s.columns) - 1
	return p[0] & (1<<s.digit[last-1].shift - 1) >> s.digit[last].shift
}

// lookup is what is known about n members in one domain.
type lookup struct {
	price   offer.Price // of all members, charged inside the domain
	dearest int64       // upper bound of the price
	aim     *offer.Aim  // target of the merged curves; nil if unknown
}

// lookUp returns the lookup of n members in d. Afterwards the curves inside d are merged for that lookup.
func (s *Search) lookUp(d topology.ID, n offer.Slots) lookup {
	l, ok := s.lookups[d]
	if !ok {
		l.dearest = s.dearest(d, n)
		s.merger.Dearest = l.dearest
		if s.nodesLast(d) {
			l = s.searchAimed(d, n, l)
		}
		if l.price == nil {
			if s.aim = nil; s.soft && s.upper != nil && s.upper.lookups[d].aim != nil {
				aim := *s.upper.lookups[d].aim
				aim.Price = l.dearest
				l.aim, s.aim = &aim, &aim
			}
			curve := s.inside(d)
			if s.tree.IsNode(d) {
				curve = s.curveOf(d) // soft preferences charge on the node itself
			}
			l.price, _ = curve.Price(n)
		}
		if s.lookups == nil {
			s.lookups = map[topology.ID]lookup{}
		}
		s.lookups[d] = l
	}
	s.merger.Dearest, s.aim = l.dearest, l.aim
	return l
}

// dearest returns an upper bound, of one number, of the price of n members in d.
func (s *Search) dearest(d topology.ID, n offer.Slots) int64 {
	c := s.withoutLast()
	if c == nil || s.width > 1 {
		return math.MaxInt64
	}
	below := int64(1)<<s.digit[len(c.columns)-1].shift - 1
	if p := c.insidePrice(d, n); p != nil {
		return p[0] | below
	}
	return below
}

// searchAimed returns the lookup of a plan that touches the least possible nodes or slightly more; if there is none, l without a price.
func (s *Search) searchAimed(d topology.ID, n offer.Slots, l lookup) lookup {
	last := len(s.columns) - 1
	least, upper := s.leastNodes(d, n), s.upper.insidePrice(d, n)[0]
	for extra := int64(0); extra < maxExtraNodes; extra = 2*extra + 1 {
		s.aim = &offer.Aim{
			Members: n, Each: least.perNode, Price: upper | (least.nodes+extra)<<s.digit[last].shift,
			Shift: s.digit[last-1].shift, Unit: s.digit[last].shift, Beyond: least.beyond,
		}
		if p, ok := s.inside(d).Price(n); ok && p[0] <= s.aim.Price {
			return lookup{price: p, dearest: l.dearest, aim: s.aim}
		}
		s.forgetCurves(d)
	}
	return l
}

// forgetCurves deletes the curves of the domains in d.
func (s *Search) forgetCurves(d topology.ID) {
	maps.DeleteFunc(s.curve, func(x topology.ID, _ offer.Curve) bool { return d <= x && x < s.tree.End(d) })
}

// maxExtraNodes bounds the nodes above the lower bound that searchAimed tries.
const maxExtraNodes = 4

// leastNodes is a lower bound of the touched nodes, with the members per node for which it holds, and the capacity of nodes beyond that.
type leastNodes struct {
	perNode offer.Slots
	nodes   int64
	beyond  offer.Curve
}

// leastNodes returns the lower bound for n members in d. It finds the best perNode in the first domain; later domains use the same.
func (s *Search) leastNodes(d topology.ID, n offer.Slots) leastNodes {
	if l, ok := s.least[d]; ok {
		return l
	}
	upper := s.upper.insidePrice(d, n)[0]
	boundFor := func(perNode offer.Slots) leastNodes {
		l, most := leastNodes{perNode: perNode, beyond: s.beyond(d, n, perNode, upper)}, offer.Slots(0)
		for price, upTo := range l.beyond.Steps() {
			if price[0] <= upper {
				most = upTo
			}
		}
		l.nodes = int64(max(0, n-most+perNode-1) / perNode)
		return l
	}
	lo, hi := s.tree.Nodes(d)
	best := boundFor(cmp.Or(s.perNode, 1+s.size[d]/offer.Slots(hi-lo)))
	for _, step := range []offer.Slots{1, -1} {
		for s.perNode == 0 && best.perNode+step > 0 {
			next := boundFor(best.perNode + step)
			if next.nodes <= best.nodes {
				break
			}
			best = next
		}
	}
	if s.least == nil {
		s.least = map[topology.ID]leastNodes{}
	}
	s.perNode, s.least[d] = best.perNode, best
	return best
}

// beyond returns the capacity of nodes in d beyond perNode members each, by the price of the upper preferences.
func (s *Search) beyond(d topology.ID, n, perNode offer.Slots, upper int64) offer.Curve {
	if s.beyondSearch == nil {
		s.beyondSearch = &Search{World: s.World, Request: s.Request, Ground: s.Ground, digits: s.upper.digits}
		s.beyondSearch.steps = offer.Multiples(nil).Steps(s.tree.Depth() + 1)
		s.beyondSearch.size = make([]offer.Slots, s.tree.Len())
	}
	search := s.beyondSearch
	search.Want = n // more capacity than members has no effect
	search.merger.Dearest = upper
	search.forgetCurves(d)
	for block := range s.Below(d, search.lowest()) {
		search.size[block] = 0
		lo, hi := s.tree.Nodes(block)
		for i := lo; i < hi; i++ {
			if node := s.tree.Node(i); s.BoundIn(node) > 0 {
				search.size[block] += s.size[node] // it is touched anyway
			} else {
				search.size[block] += max(0, s.size[node]-perNode)
			}
		}
	}
	return search.inside(d)
}
