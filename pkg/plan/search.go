package plan

import (
	"math"
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
	Ground
	digits
	steps     []offer.Slots               // by layer
	charges   []offer.Curve               // by node index, what members cost; nil if nothing
	curve     map[topology.ID]offer.Curve // made when asked for
	places    []Place                     // of the plan that is being made
	penalised []offer.Slots               // by ID, nodes on which soft preferences charge; nil if none does
	sizes     []offer.Slots               // those that were listed last
	merger    offer.Merger                // whose Dearest bounds what curves are asked for
	members   offer.Slots                 // for which it does
	// For members that cost nothing, see few.go:
	upper *Search // without the last preference
	looks map[topology.ID]look
	aim   *offer.Aim
	least map[topology.ID]leastNodes
	each  offer.Slots // that says most in the first domain
	worth *Search     // to which blocks are as large as what their nodes take beyond it
	// bare is the search without preferences, in which prices are what the world charges; nil until it is asked
	// for. Mostly it decides, and has less to add up.
	bare *Search
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
	s := &Search{World: w, Request: r, charges: charges, steps: r.Multiple.Steps(w.Tree.Depth() + 1)}
	s.Ground = NewGround(w, s.steps, r.Must, sum)
	s.digits = s.newDigits(width)
	s.merger.Dearest = math.MaxInt64
	return s
}

// Within leaves, of the domains in which all members may be, those that are among some others or below them; these are in
// rising order, and none is below another one.
func (s *Search) Within(some []topology.ID) {
	i := 0
	s.Roots = slices.DeleteFunc(s.Roots, func(d topology.ID) bool {
		for i < len(some) && s.tree.End(some[i]) <= d {
			i++
		}
		return i == len(some) || d < some[i]
	})
}

// Most returns how many members can be placed for a price that the world charges of
// at most the budget, up to Want.
func (s *Search) Most(budget offer.Price) (n offer.Slots) {
	if s.Split {
		return 0
	}
	for _, d := range s.Roots {
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
	return !s.Split && slices.ContainsFunc(s.Roots, func(d topology.ID) bool {
		n := min(s.size[d], s.limit())
		return n-n%s.steps[0] >= max(s.Min, 1)
	})
}

// limit is the most members that are of interest; every multiple divides it.
func (s *Search) limit() offer.Slots { return s.Want - s.Want%s.steps[0] }

// EachCharge calls do with each domain in which all members may be, and the lowest price that the world charges there for n
// of them. Domains that cannot take n are left out.
func (s *Search) EachCharge(n offer.Slots, do func(d topology.ID, price offer.Price)) {
	if s.Split {
		return
	}
	for _, d := range s.Roots {
		if p, ok := s.charge(d, n); ok {
			do(d, p)
		}
	}
}

// Charge returns the lowest price that the world charges for n members; ok is false
// if they cannot be placed, as more than Want never can.
func (s *Search) Charge(n offer.Slots) (least offer.Price, ok bool) {
	s.EachCharge(n, func(_ topology.ID, p offer.Price) {
		if !ok || p.Compare(least) < 0 {
			least, ok = p, true
		}
	})
	return least, ok
}

// Plan returns the first plan for n members, which must have a price.
func (s *Search) Plan(n offer.Slots) *Plan {
	if n != s.members {
		s.members, s.curve, s.upper, s.looks, s.least = n, nil, nil, nil, nil
	}
	var d topology.ID
	if s.charges == nil {
		d = narrow(&s.Ground, s.chooser(), s.largeEnough(n), n)
		if s.soft || s.nodesLast(d) {
			s.lookInto(d, n)
		} else {
			s.merger.Dearest, s.aim = s.dearest(d, n), nil
		}
	} else {
		least, _ := s.Charge(n)
		d = First(&s.Ground, s.chooser(), n, least)
	}
	s.places = nil
	Fill(&s.Ground, Filler[offer.Slots]{Price: s.price, Takes: s.takes, Rest: s.rest, Share: s.share, Put: s.put}, d, n)
	return &Plan{Domain: d, Places: s.places}
}

func (s *Search) chooser() Chooser[offer.Slots] {
	return Chooser[offer.Slots]{Charge: s.charge, Fewest: s.fewest, Softest: s.softest}
}

// largeEnough lists the candidates of members that cost nothing, where only sizes are looked at:
// the deepest of them, and where no preference compares those, the
// one that comes first by the rules that look at domains.
func (s *Search) largeEnough(n offer.Slots) (out []topology.ID) {
	layer, lowest := -1, s.lowest()
	for _, root := range s.Roots {
		for d := root; d < s.tree.End(root); d++ {
			l := s.tree.Layer(d)
			if s.size[d] < n || l < layer || !s.HoldsBound(d) {
				continue
			}
			switch {
			case l > layer:
				layer, out = l, append(out[:0], d)
			case l < lowest:
				out = append(out, d)
			case s.CompareDomains(d, out[0]) < 0:
				out[0] = d
			}
		}
	}
	return out
}

// world is the search that knows what the world charges, and nothing of preferences.
func (s *Search) world() *Search {
	if len(s.columns) == 0 {
		return s
	}
	if s.bare == nil {
		s.bare = &Search{World: s.World, Request: s.Request, Ground: s.Ground, steps: s.steps, charges: s.charges}
		s.bare.digits = digits{charged: s.charged, width: s.charged}
		s.bare.merger.Dearest = math.MaxInt64
	}
	return s.bare
}

func (s *Search) charge(d topology.ID, n offer.Slots) (offer.Price, bool) {
	if s.charged == 0 || s.size[d] < n {
		return nil, s.size[d] >= n
	}
	return s.world().at(d).Price(n)
}

func (s *Search) touched(d topology.ID, n offer.Slots) (p offer.Price) {
	switch {
	case s.lowest() <= s.tree.Layer(d):
		return nil
	case s.charges != nil:
		p, _ = s.at(d).Price(n)
		return p
	}
	return s.lookInto(d, n).price
}

// at returns the curve of a domain.
func (s *Search) at(d topology.ID) offer.Curve {
	if s.charges != nil && s.tree.IsNode(d) {
		return s.newCurve(d)
	}
	c, ok := s.curve[d]
	if !ok {
		if c = s.newCurve(d); s.curve == nil {
			s.curve = map[topology.ID]offer.Curve{}
		}
		s.curve[d] = c
	}
	return c
}

func (s *Search) newCurve(d topology.ID) offer.Curve {
	return s.aim.Useful(s.chargeFor(d, s.inside(d).Round(s.steps[s.tree.Layer(d)])))
}

// inside returns the curve of what is in a domain, before anything is charged for the domain.
func (s *Search) inside(d topology.ID) offer.Curve {
	columns := s.columnsIn(d)
	switch lo, _ := s.tree.Nodes(d); {
	case s.charges == nil && (s.tree.IsNode(d) || s.tree.Layer(d) >= lowest(columns)):
		return offer.Free(min(s.size[d], s.limit()), s.width)
	case s.alike(s.tree.Layer(d), columns):
		number, by := s.weight(len(columns) - 1)
		free, sizes := s.largest(d, lowest(columns))
		return offer.Free(free, s.width).Each(sizes, number, by).Cap(s.limit())
	case !s.tree.IsNode(d):
		return s.together(s.children(d))
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
func (s *Search) together(domains []topology.ID) offer.Curve {
	switch n := len(domains); n {
	case 0:
		return offer.Free(0, s.width)
	case 1:
		return s.at(domains[0])
	default:
		return s.merge(s.together(domains[:n/2]), s.together(domains[n/2:]), s.limit())
	}
}

// merge returns the curve of two domains together, as far as so many members.
func (s *Search) merge(a, b offer.Curve, most offer.Slots) offer.Curve {
	s.merger.Most = most
	return s.aim.Useful(s.merger.Merge(a, b))
}

// chargeFor adds what the preferences for its layer cost to the curve of a domain.
func (s *Search) chargeFor(d topology.ID, c offer.Curve) offer.Curve {
	for i, p := range s.columns {
		bound := s.BoundIn(d)
		switch number, by := s.weight(i); {
		case p.Layer > s.tree.Depth():
			c = s.chargePenalty(d, c, number)
		case p.Layer != s.tree.Layer(d):
		case p.Charge != PerDomain:
			c = c.Charge(s.steps[p.Layer], number, func(n offer.Slots) int64 { return by * p.Charge.Of(bound, n) })
		case bound == 0:
			c = c.Raise(number, by)
		}
	}
	return c
}

// chargePenalty adds what soft preferences charge on a node.
func (s *Search) chargePenalty(d topology.ID, c offer.Curve, number int) offer.Curve {
	node, _ := s.tree.Nodes(d)
	if !s.tree.IsNode(d) || s.Penalty[node] == 0 {
		return c
	}
	return c.Charge(s.steps[s.tree.Depth()], number, func(n offer.Slots) int64 { return s.Penalty[node] * int64(n) })
}

// alike says whether of what is below a layer only the lowest of some columns matters: nothing in
// between costs anything or is rounded.
func (s *Search) alike(layer int, columns []Preference) bool {
	above, last := 0, lowest(columns) // the lowest preference but one, and the lowest
	if n := len(columns); n > 1 {
		above = columns[n-2].Layer
	}
	return s.charges == nil && s.perDomain && last <= s.tree.Depth() && layer >= above && layer < last && s.steps[layer+1] == s.steps[last]
}

// largest lists the sizes of the domains of a layer below d, largest first, but for those
// that are touched anyway, which are free.
func (s *Search) largest(d topology.ID, layer int) (free offer.Slots, sizes []offer.Slots) {
	s.sizes = s.sizes[:0]
	for k := range s.Below(d, layer) {
		switch {
		case s.BoundIn(k) > 0:
			free += s.size[k]
		case s.size[k] > 0:
			s.sizes = append(s.sizes, s.size[k])
		}
	}
	slices.Sort(s.sizes)
	slices.Reverse(s.sizes)
	return free, s.sizes
}

func (s *Search) price(d topology.ID, n offer.Slots) (offer.Price, bool) { return s.at(d).Price(n) }

func (s *Search) takes(domains []topology.ID, n offer.Slots) []topology.ID {
	return domains[:sort.Search(len(domains), func(i int) bool { return s.size[domains[i]] < n })]
}

// rest leaves out the domains that take nobody: they are the last.
func (s *Search) rest(domains []topology.ID, n offer.Slots) func(int, offer.Slots) (offer.Price, bool) {
	t := NewTails(s.takes(domains, 1), offer.Free(0, s.width), func(after offer.Curve, d topology.ID) offer.Curve {
		return s.merge(after, s.at(d), n)
	})
	return func(i int, n offer.Slots) (offer.Price, bool) { return t.From(i).Price(n) }
}

func (s *Search) share(d topology.ID, after func(offer.Slots) (offer.Price, bool), n offer.Slots, due offer.Price) (most offer.Slots) {
	for price, upTo := range s.at(d).Steps() {
		x := min(upTo, n)
		if p, ok := after(n - x); ok && price.Add(p).Compare(due) == 0 {
			most = x
		}
	}
	return most
}

// put spreads members over the nodes of d where the largest domains come first in any case: nothing below is charged, or
// only the children are, each as dear as any other.
func (s *Search) put(d topology.ID, n offer.Slots) bool {
	below := lowest(s.columnsIn(d)) - s.tree.Layer(d) // how far the last preference is
	plain := s.charges == nil && (below <= 0 || below == 1 && s.perDomain && s.BoundIn(d) == 0)
	if plain || s.tree.IsNode(d) {
		s.spread(d, n)
		return true
	}
	return false
}

// spread fills the largest child first, until one is large enough for the rest; of those that are, the first of the
// smallest.
func (s *Search) spread(d topology.ID, n offer.Slots) {
	if lo, _ := s.tree.Nodes(d); s.tree.IsNode(d) {
		s.places = append(s.places, Place{Node: lo, Count: n})
		return
	}
	kids := s.LargestFirst(d)
	for ; n > s.size[kids[0]]; kids = kids[1:] {
		s.spread(kids[0], s.size[kids[0]])
		n -= s.size[kids[0]]
	}
	enough := s.takes(kids, n)
	least := s.size[enough[len(enough)-1]]
	s.spread(enough[len(s.takes(enough, least+1))], n)
}

func (s *Search) refuse() *Refusal {
	r := s.Ground.Refuse(s.Must, func(d topology.ID) offer.Slots { return s.size[d] })
	r.Want = max(s.Min, 1)
	r.AddMultiples(s.tree, s.Multiple)
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
