package plan

import (
	"slices"
	"sort"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Search looks for the first plan of one request on one world, for members that need
// the same.
//
// Rules 3 and 4 need no more than each domain's offer. Rule 5, and what members may
// cost, need to know how that adds up: a curve of every domain, merged up the tree
// from those of its children. A price is a row of what the world charges (nothing,
// if nobody is evicted) and then, for each preference from the top down, what
// it charges, as digits of one number if they fit; compared from the left, it is the
// order that is asked for.
type Search struct {
	World
	Request
	ground
	steps []offer.Slots  // by layer
	curve []*offer.Curve // by ID, made when asked for
	// bare is the search without preferences, in which prices are what the world charges; nil until it is asked
	// for. Mostly it decides, and has less to add up.
	bare *Search
	// thorough says that curves are remembered of the domains below those that are asked for, too.
	thorough bool

	charges   []offer.Curve // by node index, what members cost; nil if nothing
	charged   int           // how many numbers of a price the world charges
	bits      int           // what the world charges in one number is less than 1<<bits; 0 if that is not known
	lift      int           // it is moved so many bits to the left, where preferences charge in the same number
	columns   []Preference  // that decide
	perDomain bool          // that is all that preferences charge for
	digits    []digit       // by column, where prices count it
	width     int           // how many numbers a price has
	places    []Place       // of the plan that is being made
	merger    offer.Merger
	sizes     []offer.Slots // those that were listed last

	kept    Kept
	changed []int // nodes on which the search differs from the others that use kept

	// Where only preferences charge, see coarser:
	coarse   *Search
	expected offer.Slots                 // what follows is for so many members
	aims     map[topology.ID]offer.Aim   // what the domains in one are merged for
	wholes   map[topology.ID]offer.Curve // what is in the domains that are compared
	// and for finer searches, nil if there are none:
	few   map[topology.ID]offer.Curve // instead of curve
	inner map[topology.ID]offer.Curve // what is in domains, before anything is charged for them
	// See sharp:
	worth  *Search
	each   offer.Slots // was the best so far, or is what domains are measured by
	bounds map[topology.ID]bound
	of     topology.ID // the domain that was measured
	known  offer.Price // what its members cost by what is known
	budget *offer.Aim  // is the aim of everything
}

// Kept are curves that several searches share, of one world and one request, whose
// charges differ on a few nodes. The zero value keeps nothing; make one with make.
type Kept map[span]offer.Curve

// span is so many domains, from the first on, of one parent; none is the first alone.
type span struct {
	first topology.ID
	more  int
	bare  bool
}

// Keep has a search take curves from kept, and leave them there, for domains in which
// none of the changed nodes is; they are by node index, in rising order.
func (s *Search) Keep(kept Kept, changed []int) { s.kept, s.changed = kept, changed }

// keeping makes a curve of domains, unless another search has.
func (s *Search) keeping(first, last topology.ID, more int, compute func() offer.Curve) offer.Curve {
	lo, _ := s.Tree.Nodes(first)
	_, hi := s.Tree.Nodes(last)
	if i, _ := slices.BinarySearch(s.changed, lo); s.kept == nil || i < len(s.changed) && s.changed[i] < hi {
		return compute()
	}
	key := span{first, more, len(s.columns) == 0}
	c, ok := s.kept[key]
	if !ok {
		c = compute()
		s.kept[key] = c
	}
	return c
}

// Below says that what the world charges for all members together is less than 1<<bits, in prices of one number
// that are not negative. Searches that share what is kept must say the same.
func (s *Search) Below(bits int) {
	s.bits = bits
	s.addColumns()
}

// Within leaves, of the domains in which all members may be, those that are among some others or below them; these are in
// rising order, and none is below another one.
func (s *Search) Within(some []topology.ID) {
	i := 0
	s.roots = slices.DeleteFunc(s.roots, func(d topology.ID) bool {
		for i < len(some) && s.tree.End(some[i]) <= d {
			i++
		}
		return i == len(some) || d < some[i]
	})
}

// Cheapest lists the domains in which all members may be where n of them have such a price of what the world charges.
func (s *Search) Cheapest(n offer.Slots, such func(offer.Price) bool) (roots []topology.ID) {
	for _, d := range s.roots {
		if p, ok := s.charge(d, n); ok && such(p) {
			roots = append(roots, d)
		}
	}
	return roots
}

// world is the search that knows what the world charges, and nothing of preferences.
func (s *Search) world() *Search {
	if len(s.columns) == 0 {
		return s
	}
	if s.bare == nil {
		s.bare = &Search{
			World: s.World, Request: s.Request, ground: s.ground, steps: s.steps, charges: s.charges, charged: s.charged,
			width: s.charged, kept: s.kept, changed: s.changed,
		}
		s.bare.Prefer = nil
	}
	return s.bare
}

// NewSearch prepares a search. If there are charges, by node index, members cost what
// their nodes charge, in prices of the given width, and Free is not read.
func NewSearch(w World, r Request, width int, charges []offer.Curve) *Search {
	if charges != nil {
		w.Free = make([]offer.Slots, len(charges))
		for i, c := range charges {
			w.Free[i] = c.Most()
		}
	}
	return newSearch(w, r, width, charges, nil)
}

// newSearch is NewSearch where the sum of Free may be known; nil if it is not.
func newSearch(w World, r Request, width int, charges []offer.Curve, sum []offer.Slots) *Search {
	s := &Search{World: w, Request: r, charges: charges, charged: width}
	s.steps = r.Multiple.Steps(w.Tree.Depth() + 1)
	s.ground = newGround(w, s.steps, r.Must, sum)
	s.addColumns()
	return s
}

// Most returns how many members can be placed for a price that the world charges of
// at most the budget, up to Want.
func (s *Search) Most(budget offer.Price) (n offer.Slots) {
	if s.split {
		return 0
	}
	for _, d := range s.roots {
		if s.charged == 0 {
			n = max(n, min(s.size[d], s.limit()))
			continue
		}
		for price, upTo := range s.world().at(d).Steps() {
			if price.Compare(budget) <= 0 {
				n = max(n, upTo)
			}
		}
	}
	return n - n%s.steps[0]
}

// Possible says whether so many members as are needed can be placed, at any price: the
// question that needs only sums.
func (s *Search) Possible() bool {
	return !s.split && slices.ContainsFunc(s.roots, func(d topology.ID) bool {
		n := min(s.size[d], s.limit())
		return n-n%s.steps[0] >= max(s.Min, 1)
	})
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
		if p, can := s.charge(d, n); can && (!ok || p.Compare(least) < 0) {
			least, ok = p, true
		}
	}
	return least, ok
}

// Plan returns the first plan for n members, which must have a price.
func (s *Search) Plan(n offer.Slots) *Plan {
	s.expect(n)
	least, _ := s.Charge(n)
	s.thorough, s.world().thorough = true, true // most of the domains below will be asked for
	d := s.first(n, least)
	s.places = nil
	fill(&s.ground, s, d, n)
	return &Plan{Domain: d, Places: s.places}
}

// first is the domain for n that comes first.
func (s *Search) first(n offer.Slots, least offer.Price) topology.ID {
	if s.charges != nil {
		return first(&s.ground, s, n, least)
	}
	return narrow(&s.ground, s, s.largeEnough(n), n)
}

func (s *Search) charge(d topology.ID, n offer.Slots) (offer.Price, bool) {
	if s.charged == 0 || s.size[d] < n {
		return nil, s.size[d] >= n
	}
	return s.world().at(d).Price(n)
}

func (s *Search) touched(d topology.ID, n offer.Slots) offer.Price {
	layer := s.tree.Layer(d)
	if s.lowest() <= layer {
		return nil
	}
	if s.charges != nil {
		p, _ := s.at(d).Price(n)
		return p
	}
	p, _ := s.whole(d, n).Price(n)
	return p
}

// at returns the curve of a domain.
func (s *Search) at(d topology.ID) offer.Curve {
	if s.few != nil {
		c, ok := s.few[d]
		if !ok {
			c = s.newCurve(d)
			s.few[d] = c
		}
		return c
	}
	if s.curve == nil {
		s.curve = make([]*offer.Curve, s.Tree.Len())
	}
	if s.curve[d] == nil {
		height := s.merger.Height()
		c := s.keeping(d, d, 0, func() offer.Curve { return s.newCurve(d) })
		if s.lends() && !s.tree.IsNode(d) {
			c = c.Clone()
		}
		s.merger.Drop(height)
		s.curve[d] = &c
	}
	return *s.curve[d]
}

// lends says whether curves that are needed only for others lie on the merger's stack.
func (s *Search) lends() bool { return s.charges != nil && s.width == 1 && s.kept == nil }

// lent is at for who needs the curve no longer than the merger's stack is as high as it is then.
func (s *Search) lent(d topology.ID) offer.Curve {
	known := s.curve != nil && s.curve[d] != nil
	if !known && s.charges != nil && s.tree.IsNode(d) || !known && !s.thorough && s.lends() {
		return s.newCurve(d)
	}
	return s.at(d)
}

func (s *Search) newCurve(d topology.ID) offer.Curve {
	layer, in := s.tree.Layer(d), offer.Aim{}
	if s.budget != nil {
		in = *s.budget
	}
	aim, aimed := s.aims[s.tree.Parent(d)]
	if aimed && layer < s.lowest() {
		known := s.knowing(aim, layer)
		if known != nil && !aim.Uses(known.at(d)) && !(aim.IsSharp() && aim.UsesNone(s.chargedFor(d))) {
			return offer.Free(0, s.width)
		}
		if !s.alike(layer) {
			in = s.merger.Within(aim, known.inner[d], s.chargedFor(d))
			s.setAim(d, in)
		}
	}
	c := s.inside(d, in)
	if s.inner != nil {
		s.inner[d] = c
	}
	if c = s.chargeFor(d, c.Round(s.steps[layer])); aimed {
		c = aim.Useful(c)
	}
	return c
}

// inside returns the curve of what is in a domain, before anything is charged for the domain.
func (s *Search) inside(d topology.ID, aim offer.Aim) offer.Curve {
	layer := s.tree.Layer(d)
	switch lo, _ := s.tree.Nodes(d); {
	case s.charges == nil && layer >= s.lowest():
		return offer.Free(min(s.size[d], s.limit()), s.width)
	case s.alike(layer):
		number, by := s.weight(len(s.columns) - 1)
		free, sizes := s.largest(d, s.lowest())
		return offer.Free(free, s.width).Each(sizes, number, by).Cap(s.limit())
	case !s.tree.IsNode(d):
		return s.together(s.children(d), aim)
	case s.lift > 0:
		return s.charges[lo].Cap(s.limit()).Scale(1 << s.lift)
	case s.width > s.charged:
		return s.charges[lo].Cap(s.limit()).Widen(s.width)
	default:
		return s.charges[lo].Cap(s.limit())
	}
}

// together returns the curve of several domains, merged in pairs: small curves with
// small ones.
func (s *Search) together(domains []topology.ID, aim offer.Aim) offer.Curve {
	switch n := len(domains); n {
	case 0:
		return offer.Free(0, s.width)
	case 1:
		return s.lent(domains[0])
	default:
		return s.keeping(domains[0], domains[n-1], n, func() offer.Curve {
			height := s.merger.Height()
			a, b := s.together(domains[:n/2], aim), s.together(domains[n/2:], aim)
			if s.lends() {
				s.merger.Most, s.merger.Aim = s.limit(), aim
				return s.merger.MergeDown(height, a, b)
			}
			return s.merge(a, b, s.limit(), aim)
		})
	}
}

func (s *Search) price(d topology.ID, n offer.Slots) (offer.Price, bool) { return s.at(d).Price(n) }

func (s *Search) takes(domains []topology.ID, n offer.Slots) []topology.ID {
	return domains[:sort.Search(len(domains), func(i int) bool { return s.size[domains[i]] < n })]
}

// rest leaves out the domains that take nobody: they are the last.
func (s *Search) rest(domains []topology.ID, n offer.Slots) rest[offer.Slots] {
	aim := s.aim(s.tree.Parent(domains[0]), n)
	return curves{newTails(s.takes(domains, 1), offer.Free(0, s.width), func(after offer.Curve, d topology.ID) offer.Curve {
		return s.merge(after, s.at(d), n, aim)
	})}
}

// curves is the rest of domains as their curves tell it.
type curves struct{ tails *tails[offer.Curve] }

func (c curves) price(i int, n offer.Slots) (offer.Price, bool) { return c.tails.from(i).Price(n) }

func (s *Search) share(d topology.ID, after func(offer.Slots) (offer.Price, bool), n offer.Slots, due offer.Price) (most offer.Slots) {
	for price, upTo := range s.at(d).Steps() {
		x := min(upTo, n)
		if p, ok := after(n - x); ok && price.Add(p).Compare(due) == 0 {
			most = x
		}
	}
	return most
}

func (s *Search) minus(n, share offer.Slots) offer.Slots { return n - share }

func (s *Search) nobody(n offer.Slots) bool { return n == 0 }

func (s *Search) put(d topology.ID, n offer.Slots) bool {
	if !s.plain(d) && !s.tree.IsNode(d) {
		return false
	}
	s.spread(d, n)
	return true
}

func (s *Search) refuse() *Refusal {
	r := s.ground.refuse(s.Must, func(d topology.ID) offer.Slots { return s.size[d] })
	r.Want = max(s.Min, 1)
	r.multiples(s.tree, s.Multiple)
	return r
}

// Choose returns the first plan by the order of the rules, or nil and why
// there is none.
func Choose(w World, r Request) (*Plan, *Refusal) { return ChooseFrom(w, r, nil) }

// ChooseFrom is Choose where somebody has added up already what is free: sum is offer.Sum of Free, and is only read;
// nil if nobody has.
func ChooseFrom(w World, r Request, sum []offer.Slots) (*Plan, *Refusal) {
	s := newSearch(w, r, 0, nil, sum)
	n := s.Most(nil)
	if n < max(r.Min, 1) {
		return nil, s.refuse()
	}
	return s.Plan(n), nil
}
