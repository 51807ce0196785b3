package plan

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file is for members that cost nothing where several preferences decide, all of which charge
// by domain. What counts first is then known before what counts last is asked for:
//
//	spines, blocks        2, 11       found by curves of few steps
//	spines, blocks, nodes 2, 11, 130  of steps that may be part of 2, 11
//
// So a search has a coarser one, without its last preference. It says how many members others
// take for what a step leaves them of 2, 11, and most steps leave too little: of most domains no curve
// is made at all. No step is left out that is part of a first plan, so it is the same plan.

// coarser returns the search without the last preference.
func (s *Search) coarser() *Search {
	if s.coarse == nil {
		c := &Search{World: s.World, Request: s.Request, ground: s.ground, steps: s.steps}
		last := len(s.columns) - 1
		c.columns, c.digits, c.width, c.perDomain = s.columns[:last], s.digits[:last], s.width, true
		c.forFiner()
		s.coarse = c
	}
	return s.coarse
}

// forFiner empties a search that others ask what domains take.
func (s *Search) forFiner() {
	s.few, s.inner, s.wholes = map[topology.ID]offer.Curve{}, map[topology.ID]offer.Curve{}, nil
}

// aimsHigh says whether prices are one number, of preferences by domain.
func (s *Search) aimsHigh() bool { return s.charges == nil && s.width == 1 && s.perDomain }

// expect forgets what was found out for another number of members.
func (s *Search) expect(n offer.Slots) {
	if s.expected != n && s.aims != nil {
		s.coarse, s.worth, s.aims, s.wholes, s.curve = nil, nil, nil, nil, nil
	}
	s.expected = n
}

// fewest is rule 5: only those that touch the fewest domains of the upper layers are asked how many
// they touch of the lowest.
func (s *Search) fewest(domains []topology.ID, n offer.Slots) []topology.ID {
	if s.aimsHigh() && len(s.columns) > 1 {
		if domains = s.coarser().fewest(domains, n); len(domains) == 1 {
			return domains
		}
		if s.sharp(domains[0]) {
			domains = s.promising(domains, n)
		}
	}
	return fewest(s, domains, n)
}

// whole returns the curve of what is in a domain, as far as n need it.
func (s *Search) whole(d topology.ID, n offer.Slots) offer.Curve {
	c, ok := s.wholes[d]
	if ok {
		return c
	}
	switch layer := s.tree.Layer(d); {
	case s.alike(layer):
		c = s.inside(d, offer.Aim{})
	case s.sharp(d):
		c = s.sharpened(d, n)
	default:
		c = s.inside(d, s.aim(d, n))
	}
	if s.wholes == nil {
		s.wholes = map[topology.ID]offer.Curve{}
	}
	s.wholes[d] = c
	return c
}

// aim is what curves of the domains in d are merged for: to place n there, or as many as it was
// asked for with others.
func (s *Search) aim(d topology.ID, n offer.Slots) offer.Aim {
	switch {
	case s.budget != nil:
		return *s.budget
	case !s.aimsHigh():
		return offer.Aim{}
	}
	if _, ok := s.aims[d]; !ok {
		if s.sharp(d) {
			s.whole(d, n)
		} else {
			s.setAim(d, s.bluntAim(d, n))
		}
	}
	return s.aims[d]
}

// bluntAim is the aim of as few domains as must be touched of those that are known to matter more
// than the last preference.
func (s *Search) bluntAim(d topology.ID, n offer.Slots) offer.Aim {
	known, layer := s, s.tree.Layer(d)
	if !s.alike(layer) {
		known = s.coarser()
	}
	if known.lowest() <= layer {
		return offer.Aim{} // it charges for nothing there
	}
	whole := known.whole(d, n)
	price, ok := whole.Price(n)
	if !ok {
		return offer.Aim{}
	}
	return offer.NewAim(whole, n, price[0], known.shift())
}

// knowing is the search that knows what an aim for domains of a layer says; nil if it is this one.
func (s *Search) knowing(aim offer.Aim, layer int) *Search {
	switch {
	case aim.IsSharp():
		return s.worth
	case s.alike(layer - 1):
		return nil
	}
	return s.coarser()
}

// shift is where the last digit of prices is.
func (s *Search) shift() int { return s.digits[len(s.columns)-1].shift }

func (s *Search) setAim(d topology.ID, a offer.Aim) {
	if a.None() {
		return
	}
	if s.aims == nil {
		s.aims = map[topology.ID]offer.Aim{}
	}
	s.aims[d] = a
}

// What follows is for a preference for few nodes below others: nodes are many, and many sets of them
// touch the same blocks. With a number of members that a node should take at the least, each,
//
//	nodes = (members - what nodes take beyond each) / each, if each takes no less
//
// so with as much beyond it as so many blocks can have, no plan touches fewer nodes. That is what
// another coarse search says, to which blocks are as large as what their nodes take beyond each.
// It is nearly always the truth for the best of all such numbers, and tells which steps are part of it.

// sharp says whether that is worth the while for a domain.
func (s *Search) sharp(d topology.ID) bool {
	if !s.aimsHigh() || s.budget != nil || len(s.columns) < 2 || s.lowest() < s.tree.Depth() {
		return false
	}
	layer, blocks := s.columns[len(s.columns)-2].Layer, 0
	if layer <= s.tree.Layer(d) {
		return false
	}
	for range s.below(d, layer) {
		blocks++
	}
	lo, hi := s.tree.Nodes(d)
	return hi-lo >= manyNodes*blocks
}

// manyNodes is how many a block has on average for which it is worth the while.
const manyNodes = 4

// bound is the least that n touch of the lowest layer, by the number that says so.
type bound struct {
	each  offer.Slots
	least int64
}

// atLeast finds it.
func (s *Search) atLeast(d topology.ID, n offer.Slots) bound {
	if b, ok := s.bounds[d]; ok {
		return b
	}
	lo, hi := s.tree.Nodes(d)
	each := s.each
	if each == 0 {
		each = 1 + s.size[d]/offer.Slots(hi-lo)
	}
	beyond := func(each offer.Slots) offer.Slots { // members that are not beyond it
		w, most := s.worthBy(d, n, each), offer.Slots(0)
		for price, upTo := range w.whole(d, n).Steps() {
			if price.Compare(w.known) <= 0 {
				most = upTo
			}
		}
		return n - most
	}
	left, more := beyond(each), true
	for _, by := range []offer.Slots{1, -1} {
		for more = true; more && each+by > 0; {
			if next := beyond(each + by); next > 0 && next*each > left*(each+by) {
				each, left = each+by, next
			} else {
				more = false
			}
		}
	}
	s.each = each // others are much the same
	b := bound{each, int64(max(0, left+each-1) / each)}
	if s.bounds == nil {
		s.bounds = map[topology.ID]bound{}
	}
	s.bounds[d] = b
	return b
}

// worthBy returns the coarser search to which domains are as large as what their nodes take beyond
// a number each.
func (s *Search) worthBy(d topology.ID, n, each offer.Slots) *Search {
	c := s.coarser()
	if s.worth == nil {
		w := &Search{World: s.World, Request: s.Request, ground: s.ground, steps: offer.Multiples(nil).Steps(s.tree.Depth() + 1)}
		w.columns, w.digits, w.width, w.perDomain = c.columns, c.digits, c.width, true
		w.size = make([]offer.Slots, s.tree.Len())
		s.worth = w
	}
	w := s.worth
	if w.of == d && w.each == each {
		return w
	}
	w.of, w.each = d, each
	w.Want = n // more beyond a number than there are members says no more
	w.forFiner()
	for block := range s.below(d, c.lowest()) {
		beyond := offer.Slots(0)
		lo, hi := s.tree.Nodes(block)
		for i := lo; i < hi; i++ {
			node := s.tree.Node(i)
			if s.boundIn(node) > 0 {
				beyond += s.size[node] // it is touched anyway
			} else {
				beyond += max(0, s.size[node]-each)
			}
		}
		w.size[block] = beyond
	}
	w.known, _ = c.whole(d, n).Price(n)
	budget := offer.NewAim(offer.Free(0, 1), 0, w.known[0], c.shift())
	w.budget = &budget
	return w
}

// promising leaves out domains that touch more than another one.
func (s *Search) promising(domains []topology.ID, n offer.Slots) (out []topology.ID) {
	order := slices.SortedStableFunc(slices.Values(domains), func(a, b topology.ID) int {
		return int(s.atLeast(a, n).least - s.atLeast(b, n).least)
	})
	best := int64(-1)
	for _, d := range order {
		if best < 0 || s.atLeast(d, n).least <= best {
			out = append(out, d)
			price, _ := s.whole(d, n).Price(n)
			if touched := price[0] & (1<<s.coarser().shift() - 1) >> s.shift(); best < 0 || touched < best {
				best = touched
			}
		}
	}
	slices.Sort(out)
	return out
}

// sharpened returns the curve of what is in a domain, of steps that may be part of a plan which touches no
// more than must be; if there is none, than some more; and if that is not true either, of all that are of use.
func (s *Search) sharpened(d topology.ID, n offer.Slots) offer.Curve {
	b, blunt := s.atLeast(d, n), s.bluntAim(d, n)
	for more := int64(0); more < farOff; more = 2*more + 1 {
		w := s.worthBy(d, n, b.each)
		price, _ := s.coarser().whole(d, n).Price(n)
		aim := offer.NewAim(w.whole(d, n), n, price[0], s.coarser().shift()).Sharp(b.each, b.least+more, s.shift())
		s.setAim(d, aim)
		c := s.inside(d, aim)
		if found, ok := c.Price(n); ok && found[0] <= price[0]+(b.least+more)<<s.shift() {
			return c
		}
		s.forget(d)
	}
	s.setAim(d, blunt)
	return s.inside(d, blunt)
}

// farOff is how many domains more than there must be are not looked for.
const farOff = 4

// forget forgets what was found out about the domains in d.
func (s *Search) forget(d topology.ID) {
	for x := d + 1; x < s.tree.End(d); x++ {
		delete(s.aims, x)
		if s.curve != nil {
			s.curve[x] = nil
		}
	}
}
