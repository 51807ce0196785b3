package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file is for members that cost nothing where several preferences decide, all of which charge by domain. What the
// upper ones charge is known before the last one, which counts in the most domains, is asked: it bounds the price.
//
// If the last preference is for few nodes, a lower bound for them is known, too. With a number of members that a node
// should take at the least, each,
//
//	nodes ≥ (members - what nodes take beyond each) / each
//
// so with as much beyond it as so many blocks can have, no plan touches fewer nodes. This is nearly always the truth for
// the best of all such numbers.

// withoutLast returns the search without the last preference; nil if there is no other, or members cost something.
func (s *Search) withoutLast() *Search {
	last := len(s.columns) - 1
	if s.upper == nil && last > 0 && s.charges == nil {
		s.upper = &Search{World: s.World, Request: s.Request, Ground: s.Ground, steps: s.steps, digits: s.digits}
		s.upper.columns, s.upper.soft = s.columns[:last], false
	}
	return s.upper
}

// fewest is rule 5: the last preference is only asked about domains that are equal by those before it, and that may
// touch no more nodes than the best.
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
			best = min(best, s.nodesOf(s.touched(domains[i], n)))
		}
		slices.Sort(domains)
	}
	return Cheapest(domains, func(d topology.ID) offer.Price { return s.withoutSoft(s.touched(d, n)) })
}

func (s *Search) softest(domains []topology.ID, n offer.Slots) []topology.ID {
	if !s.soft {
		return domains
	}
	return Cheapest(domains, func(d topology.ID) offer.Price { return s.touched(d, n) })
}

// nodesLast says whether the last preference is for few nodes, and another one is for domains below d.
func (s *Search) nodesLast(d topology.ID) bool {
	c := s.withoutLast()
	return c != nil && s.width == 1 && s.perDomain && s.lowest() == s.tree.Depth() && c.lowest() > s.tree.Layer(d)
}

// nodesOf is the last digit of a price.
func (s *Search) nodesOf(p offer.Price) int64 {
	last := len(s.columns) - 1
	return p[0] & (1<<s.digit[last-1].shift - 1) >> s.digit[last].shift
}

// look is what is known of n members in one domain.
type look struct {
	price   offer.Price // of all, as preferences charge for what is in it
	dearest int64       // bounds it
	aim     *offer.Aim  // what curves of the domains in it are merged for; nil if that is not known
}

// lookInto finds out what n members touch in d. From then on curves of the domains in it are for that.
func (s *Search) lookInto(d topology.ID, n offer.Slots) look {
	l, ok := s.looks[d]
	if !ok {
		l.dearest = s.dearest(d, n)
		s.merger.Dearest = l.dearest
		if s.nodesLast(d) {
			l = s.aimed(d, n, l)
		}
		if l.price == nil {
			if s.aim = nil; s.soft && s.upper != nil && s.upper.looks[d].aim != nil {
				aim := *s.upper.looks[d].aim
				aim.Price = l.dearest
				l.aim, s.aim = &aim, &aim
			}
			curve := s.inside(d)
			if s.tree.IsNode(d) {
				curve = s.at(d) // soft preferences charge on the node itself
			}
			l.price, _ = curve.Price(n)
		}
		if s.looks == nil {
			s.looks = map[topology.ID]look{}
		}
		s.looks[d] = l
	}
	s.merger.Dearest, s.aim = l.dearest, l.aim
	return l
}

// dearest is a price of one number that n members in d do not exceed.
func (s *Search) dearest(d topology.ID, n offer.Slots) int64 {
	c := s.withoutLast()
	if c == nil || s.width > 1 {
		return math.MaxInt64
	}
	below := int64(1)<<s.digit[len(c.columns)-1].shift - 1
	if p := c.touched(d, n); p != nil {
		return p[0] | below
	}
	return below
}

// aimed looks into a domain for a plan that touches no more nodes than must be, and if there is none, than some more; there
// is no price if that is not true either.
func (s *Search) aimed(d topology.ID, n offer.Slots, l look) look {
	last := len(s.columns) - 1
	least, upper := s.leastNodes(d, n), s.upper.touched(d, n)[0]
	for more := int64(0); more < farOff; more = 2*more + 1 {
		s.aim = &offer.Aim{
			Members: n, Each: least.each, Price: upper | (least.nodes+more)<<s.digit[last].shift,
			Shift: s.digit[last-1].shift, Unit: s.digit[last].shift, Beyond: least.beyond,
		}
		if p, ok := s.inside(d).Price(n); ok && p[0] <= s.aim.Price {
			return look{price: p, dearest: l.dearest, aim: s.aim}
		}
		s.forget(d)
	}
	return l
}

// forget forgets the curves of the domains in d.
func (s *Search) forget(d topology.ID) {
	maps.DeleteFunc(s.curve, func(x topology.ID, _ offer.Curve) bool { return d <= x && x < s.tree.End(d) })
}

// farOff is how many nodes more than there must be are not looked for.
const farOff = 4

// leastNodes is the least nodes that members touch in a domain, by the number each that says so, and what nodes take
// beyond it.
type leastNodes struct {
	each   offer.Slots
	nodes  int64
	beyond offer.Curve
}

// leastNodes finds the number that says most in the first domain; in others it is much the same.
func (s *Search) leastNodes(d topology.ID, n offer.Slots) leastNodes {
	if l, ok := s.least[d]; ok {
		return l
	}
	upper := s.upper.touched(d, n)[0]
	by := func(each offer.Slots) leastNodes {
		l, most := leastNodes{each: each, beyond: s.beyond(d, n, each, upper)}, offer.Slots(0)
		for price, upTo := range l.beyond.Steps() {
			if price[0] <= upper {
				most = upTo
			}
		}
		l.nodes = int64(max(0, n-most+each-1) / each)
		return l
	}
	lo, hi := s.tree.Nodes(d)
	best := by(cmp.Or(s.each, 1+s.size[d]/offer.Slots(hi-lo)))
	for _, step := range []offer.Slots{1, -1} {
		for s.each == 0 && best.each+step > 0 {
			next := by(best.each + step)
			if next.nodes <= best.nodes {
				break
			}
			best = next
		}
	}
	if s.least == nil {
		s.least = map[topology.ID]leastNodes{}
	}
	s.each, s.least[d] = best.each, best
	return best
}

// beyond returns what nodes in d take beyond so many each, by what the upper preferences charge up to a price.
func (s *Search) beyond(d topology.ID, n, each offer.Slots, upper int64) offer.Curve {
	if s.worth == nil {
		s.worth = &Search{World: s.World, Request: s.Request, Ground: s.Ground, digits: s.upper.digits}
		s.worth.steps = offer.Multiples(nil).Steps(s.tree.Depth() + 1)
		s.worth.size = make([]offer.Slots, s.tree.Len())
	}
	w := s.worth
	w.Want = n // more beyond a number than there are members says no more
	w.merger.Dearest = upper
	w.forget(d)
	for block := range s.Below(d, w.lowest()) {
		w.size[block] = 0
		lo, hi := s.tree.Nodes(block)
		for i := lo; i < hi; i++ {
			if node := s.tree.Node(i); s.BoundIn(node) > 0 {
				w.size[block] += s.size[node] // it is touched anyway
			} else {
				w.size[block] += max(0, s.size[node]-each)
			}
		}
	}
	return w.inside(d)
}
