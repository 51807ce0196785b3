package plan

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Search looks for the first plan of one request on one world.
//
// Rules 3 and 4 need no more than each domain's offer. Rule 5, and what members may
// cost, need to know how that adds up: a curve of every domain, merged up the tree
// from those of its children. A price is a row of what the world charges (nothing,
// if nobody is evicted) and then, for each PreferGather layer from the top down, the
// domains touched; compared from the left, it is the order that is asked for.
type Search struct {
	World
	Request
	steps []offer.Slots // by layer
	roots []topology.ID // all members must be in one of these
	split bool          // bound members are in several of them already

	// By ID:
	offer   []offer.Slots // what the domain takes at any price, rounded to its step
	room    []offer.Slots // not rounded
	attract []offer.Slots
	bound   []offer.Slots // nil if no member is bound
	curve   []offer.Curve // made when asked for

	charges []offer.Curve // by node index, what members cost; nil if nothing
	charged int           // how many numbers of a price the world charges
	columns []int         // the layers of the others
}

// NewSearch prepares a search. If there are charges, by node index, members cost what
// their nodes charge, in prices of the given width, and Free is not read.
func NewSearch(w World, r Request, width int, charges []offer.Curve) *Search {
	s := &Search{World: w, Request: r, charges: charges, charged: width}
	if charges != nil {
		s.Free = make([]offer.Slots, len(charges))
		for i, c := range charges {
			s.Free[i] = c.Most()
		}
	}
	s.steps = r.Multiple.Steps(w.Tree.Depth() + 1)
	s.offer = offer.Roll(w.Tree, s.Free, s.steps)
	if s.Room == nil {
		s.Room = s.Free
	}
	s.room = offer.Sum(w.Tree, s.Room)
	if w.Attract != nil {
		s.attract = offer.Sum(w.Tree, w.Attract)
	}
	if slices.ContainsFunc(w.Bound, func(n offer.Slots) bool { return n > 0 }) {
		s.bound = offer.Sum(w.Tree, w.Bound)
	}
	s.curve = make([]offer.Curve, w.Tree.Len())
	for _, l := range slices.Compact(slices.Sorted(slices.Values(r.Prefer))) {
		if l > r.Must { // members share the domain of the other layers
			s.columns = append(s.columns, l)
		}
	}
	s.findRoots()
	return s
}

// findRoots lists the domains of the Must layer, or the one that bound members have
// already chosen.
func (s *Search) findRoots() {
	for d := topology.Root; int(d) < s.Tree.Len(); {
		if s.Tree.Layer(d) < s.Must {
			d++
			continue
		}
		s.roots = append(s.roots, d)
		d = s.Tree.End(d)
	}
	if s.bound == nil {
		return
	}
	s.roots = slices.DeleteFunc(s.roots, func(d topology.ID) bool { return s.bound[d] == 0 })
	s.split = len(s.roots) > 1
}

// Most returns how many members can be placed for a price that the world charges of
// at most the budget, up to Want.
func (s *Search) Most(budget offer.Price) (n offer.Slots) {
	if s.split {
		return 0
	}
	for _, d := range s.roots {
		if s.charged == 0 {
			n = max(n, min(s.offer[d], s.limit()))
			continue
		}
		for price, upTo := range s.at(d).Steps() {
			if price[:s.charged].Compare(budget) <= 0 {
				n = max(n, upTo)
			}
		}
	}
	return n - n%s.steps[0]
}

// limit is the most members that are of interest; every multiple divides it.
func (s *Search) limit() offer.Slots { return s.Want - s.Want%s.steps[0] }

// Charge returns the lowest price that the world charges for n members; ok is false
// if they cannot be placed, as more than Want never can.
func (s *Search) Charge(n offer.Slots) (least offer.Price, ok bool) {
	if s.split {
		return nil, false
	}
	for _, d := range s.roots {
		if p, can := s.chargeIn(d, n); can && (!ok || p.Compare(least) < 0) {
			least, ok = p, true
		}
	}
	return least, ok
}

func (s *Search) chargeIn(d topology.ID, n offer.Slots) (offer.Price, bool) {
	if s.charged == 0 || s.offer[d] < n {
		return nil, s.offer[d] >= n
	}
	p, ok := s.at(d).Price(n)
	if !ok {
		return nil, false
	}
	return p[:s.charged], true
}

// Plan returns the first plan for n members, which must have a price.
func (s *Search) Plan(n offer.Slots) *Plan {
	candidates := s.candidates(n)
	best := candidates[0]
	for _, d := range candidates[1:] {
		if cmp.Or(s.compareTouched(d, best, n), s.compareDomains(d, best)) < 0 {
			best = d
		}
	}
	p := &Plan{Domain: best}
	s.fill(p, best, n)
	return p
}

// candidates returns the deepest domains that take n members at the lowest price and
// hold those already bound.
func (s *Search) candidates(n offer.Slots) (out []topology.ID) {
	least, _ := s.Charge(n)
	deepest := -1
	for _, root := range s.roots {
		for d := root; d < s.Tree.End(root); {
			if p, ok := s.chargeIn(d, n); !ok || p.Compare(least) != 0 || !s.holdsBound(d) {
				d = s.Tree.End(d) // nor does any domain below
				continue
			}
			if l := s.Tree.Layer(d); l > deepest {
				deepest, out = l, out[:0]
			}
			if s.Tree.Layer(d) == deepest {
				out = append(out, d)
			}
			d++
		}
	}
	return out
}

func (s *Search) holdsBound(d topology.ID) bool {
	return s.bound == nil || s.bound[d] == s.bound[topology.Root]
}

// compareTouched is rule 5 for two candidates, which are of one layer.
func (s *Search) compareTouched(a, b topology.ID, n offer.Slots) int {
	if len(s.columns) == 0 || s.columns[len(s.columns)-1] <= s.Tree.Layer(a) {
		return 0
	}
	p, _ := s.at(a).Price(n)
	q, _ := s.at(b).Price(n)
	return p.Compare(q)
}

// compareDomains is rules 6, 7 and 9 for two candidates.
func (s *Search) compareDomains(a, b topology.ID) int {
	return cmp.Or(
		-s.compareUpwards(s.attract, a, b),
		s.compareUpwards(s.room, a, b),
		cmp.Compare(a, b),
	)
}

// compareUpwards compares what two domains of one layer have, then their parents.
func (s *Search) compareUpwards(have []offer.Slots, a, b topology.ID) int {
	if have == nil {
		return 0
	}
	for a != b {
		if o := cmp.Compare(have[a], have[b]); o != 0 {
			return o
		}
		a, b = s.Tree.Parent(a), s.Tree.Parent(b)
	}
	return 0
}

// at returns the curve of a domain.
func (s *Search) at(d topology.ID) offer.Curve {
	if s.curve[d].Made() {
		return s.curve[d]
	}
	width := s.charged + len(s.columns)
	c := offer.Free(0, width)
	switch lo, _ := s.Tree.Nodes(d); {
	case !s.Tree.IsNode(d):
		c = s.together(slices.Collect(s.Tree.Children(d)))
	case s.charges != nil:
		c = offer.Merge(c, s.charges[lo].Widen(width), s.limit())
	default:
		c = offer.Free(min(s.Free[lo], s.limit()), width)
	}
	c = c.Round(s.steps[s.Tree.Layer(d)])
	if i := slices.Index(s.columns, s.Tree.Layer(d)); i >= 0 && (s.bound == nil || s.bound[d] == 0) {
		c = c.Charge(s.charged + i)
	}
	s.curve[d] = c
	return c
}

// together returns the curve of several domains, merged in pairs: small curves with
// small ones.
func (s *Search) together(domains []topology.ID) offer.Curve {
	switch n := len(domains); n {
	case 0:
		return offer.Free(0, s.charged+len(s.columns))
	case 1:
		return s.at(domains[0])
	default:
		return offer.Merge(s.together(domains[:n/2]), s.together(domains[n/2:]), s.limit())
	}
}

// fill spreads n members over the nodes of d, which must offer that many: layer by
// layer, the largest child first, until one child takes the rest; of those that do,
// the smallest. It is rule 8. Each child gets as many as the lowest price allows.
func (s *Search) fill(p *Plan, d topology.ID, n offer.Slots) {
	if s.Tree.IsNode(d) {
		lo, _ := s.Tree.Nodes(d)
		p.Places = append(p.Places, Place{Node: lo, Count: n})
		return
	}
	kids := s.largestFirst(d)
	rest := s.tailsOf(kids, n)
	for i, k := range kids {
		due, _ := rest.from(i).Price(n)
		if last, ok := s.smallest(kids[i:], n, due); ok {
			s.fill(p, last, n)
			return
		}
		if x := s.share(k, rest.from(i+1), n, due); x > 0 {
			s.fill(p, k, x)
			n -= x
		}
	}
}

// largestFirst returns the children of d that offer anything, by falling offer.
func (s *Search) largestFirst(d topology.ID) (kids []topology.ID) {
	for k := range s.Tree.Children(d) {
		if s.offer[k] > 0 {
			kids = append(kids, k)
		}
	}
	slices.SortStableFunc(kids, func(a, b topology.ID) int { return cmp.Compare(s.offer[b], s.offer[a]) })
	return kids
}

// smallest returns the first of the smallest domains that take all n members for the
// price; domains are sorted by falling offer.
func (s *Search) smallest(domains []topology.ID, n offer.Slots, due offer.Price) (best topology.ID, ok bool) {
	for _, d := range domains {
		if s.offer[d] < n {
			break
		}
		if ok && s.offer[d] == s.offer[best] {
			continue
		}
		if p, can := s.at(d).Price(n); can && p.Compare(due) == 0 {
			best, ok = d, true
		}
	}
	return best, ok
}

// share returns how many of n members d takes when the rest goes to others and all of
// it costs what is due: as many as possible.
func (s *Search) share(d topology.ID, others offer.Curve, n offer.Slots, due offer.Price) (most offer.Slots) {
	for price, upTo := range s.at(d).Steps() {
		x := min(upTo, n)
		if p, ok := others.Price(n - x); ok && price.Add(p).Compare(due) == 0 {
			most = x
		}
	}
	return most
}
