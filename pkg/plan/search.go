package plan

import (
	"math"
	"slices"
	"sort"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Search finds the first plan of one request on one world, for members with equal requirements.
//
// ByMembers and ByDepth need only the offer of each domain. ByPreferences and the cost of members need a curve for each domain.
// A price is a row of numbers. First comes what the world charges, which is nothing without evictions. Then comes the charge of each
// preference from the top down, as digits of one number if they fit. Comparing rows from the left gives the order of the rules.
type Search struct {
	World
	Request
	Ground
	digits
	steps     []offer.Slots               // by layer
	charges   []offer.Curve               // cost of members by node index; nil without cost
	curve     map[topology.ID]offer.Curve // computed on demand
	places    []Place                     // of the plan under construction
	penalised []offer.Slots               // by domain ID, nodes with penalties; nil without penalties
	sizes     []offer.Slots               // scratch space of largest
	merger    offer.Merger                // its Dearest bounds the prices of merged curves
	members   offer.Slots                 // members for which Dearest is valid
	// For members without cost, see nodebound.go:
	upper        *Search // without the last preference
	lookups      map[topology.ID]lookup
	aim          *offer.Aim
	least        map[topology.ID]leastNodes
	perNode      offer.Slots // the number of members per node with the best bound in the first domain
	beyondSearch *Search     // the size of blocks is the capacity of their nodes beyond perNode
	// worldSearch is the search without preferences, by the world's charge alone; nil until needed. It mostly decides and is faster.
	worldSearch *Search
}

// NewSearch returns a search. charges replaces w.Free: by node index, the cost of members in prices of width numbers; nil is no cost.
func NewSearch(w World, r Request, width int, charges []offer.Curve) *Search {
	if charges != nil {
		w.Free = make([]offer.Slots, len(charges))
		for i, c := range charges {
			w.Free[i] = c.Most()
		}
	}
	return newSearch(w, r, width, charges, nil)
}

// newSearch is NewSearch with the sum of Free by domain, or nil.
func newSearch(w World, r Request, width int, charges []offer.Curve, sum []offer.Slots) *Search {
	s := &Search{World: w, Request: r, charges: charges, steps: r.Multiple.Steps(w.Tree.Depth() + 1)}
	s.Ground = NewGround(w, s.steps, r.Must, sum)
	s.digits = s.newDigits(width)
	s.merger.Dearest = math.MaxInt64
	return s
}

// Within removes the roots outside the given domains, which are ascending and disjoint.
func (s *Search) Within(domains []topology.ID) {
	i := 0
	s.Roots = slices.DeleteFunc(s.Roots, func(d topology.ID) bool {
		for i < len(domains) && s.tree.End(domains[i]) <= d {
			i++
		}
		return i == len(domains) || d < domains[i]
	})
}

// Most returns how many members, at most Want, can be placed if the world charges at most budget; 0 for a split job. Min is ignored.
func (s *Search) Most(budget offer.Price) (n offer.Slots) {
	if s.Split {
		return 0
	}
	for _, d := range s.Roots {
		if s.charged == 0 {
			n = max(n, min(s.size[d], s.limit()))
			continue
		}
		for price, upTo := range s.worldOnly().curveOf(d).Steps() {
			if price.Compare(budget) <= 0 {
				n = max(n, upTo)
			}
		}
	}
	return n - n%s.steps[0]
}

// Possible returns whether the needed members can be placed at any price. It uses only sums.
func (s *Search) Possible() bool {
	return !s.Split && slices.ContainsFunc(s.Roots, func(d topology.ID) bool {
		n := min(s.size[d], s.limit())
		return n-n%s.steps[0] >= max(s.Min, 1)
	})
}

// limit returns the most members that a plan may have: Want, rounded down to the multiples.
func (s *Search) limit() offer.Slots { return s.Want - s.Want%s.steps[0] }

// EachCharge calls do for each root that takes n members, with the lowest charge of the world there. For a split job it calls nothing.
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

// Charge returns the lowest charge of the world for n members; ok is false if they cannot be placed. More than Want never can.
func (s *Search) Charge(n offer.Slots) (least offer.Price, ok bool) {
	s.EachCharge(n, func(_ topology.ID, p offer.Price) {
		if !ok || p.Compare(least) < 0 {
			least, ok = p, true
		}
	})
	return least, ok
}

// Plan returns the first plan for n members. Invariant: Charge(n) returned ok, or Most returned n. Cached results are only for the last n.
func (s *Search) Plan(n offer.Slots) *Plan {
	if n != s.members {
		s.members = n
		s.curve = nil
		s.upper = nil
		s.lookups = nil
		s.least = nil
	}
	var d topology.ID
	if s.charges == nil { // the domain is chosen by size, and perhaps by prices of nodes
		d = narrow(&s.Ground, s.chooser(), s.largeEnough(n), n)
		if s.soft || s.nodesLast(d) {
			s.lookUp(d, n) // merges the curves in d, for Fill
		} else { // Fill may pay no more than dearest in a domain
			s.merger.Dearest, s.aim = s.dearest(d, n), nil
		}
	} else { // each node has a charge, which comes before all rules
		least, _ := s.Charge(n)
		d = First(&s.Ground, s.chooser(), n, least)
	}
	s.places = nil
	Fill(&s.Ground, Filler[offer.Slots]{Price: s.price, Takes: s.takes, Rest: s.rest, Share: s.share, Put: s.put}, d, n)
	return &Plan{Domain: d, Places: s.places}
}

// chooser returns the functions by which narrow compares domains for this search.
func (s *Search) chooser() Chooser[offer.Slots] {
	return Chooser[offer.Slots]{Charge: s.charge, Fewest: s.fewest, Softest: s.softest}
}

// largeEnough returns the candidates for n members without cost: the deepest domains of sufficient size. If no preference compares them,
// only the first by the domain rules remains.
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

// worldOnly returns the search with the world's charge but without preferences.
func (s *Search) worldOnly() *Search {
	if len(s.columns) == 0 {
		return s
	}
	if s.worldSearch == nil {
		s.worldSearch = &Search{World: s.World, Request: s.Request, Ground: s.Ground, steps: s.steps, charges: s.charges}
		s.worldSearch.digits = digits{charged: s.charged, width: s.charged}
		s.worldSearch.merger.Dearest = math.MaxInt64
	}
	return s.worldSearch
}

// charge returns the lowest charge of the world for n members in d; ok is false if d does not take them.
func (s *Search) charge(d topology.ID, n offer.Slots) (offer.Price, bool) {
	if s.charged == 0 || s.size[d] < n {
		return nil, s.size[d] >= n
	}
	return s.worldOnly().curveOf(d).Price(n)
}

// insidePrice returns the price of n members in d for ByPreferences; nil if no preference is for a layer below d.
func (s *Search) insidePrice(d topology.ID, n offer.Slots) (p offer.Price) {
	switch {
	case s.lowest() <= s.tree.Layer(d):
		return nil
	case s.charges != nil:
		p, _ = s.curveOf(d).Price(n)
		return p
	}
	return s.lookUp(d, n).price
}

// curveOf returns the curve of a domain: the price of each number of members, charges for the domain itself included.
func (s *Search) curveOf(d topology.ID) offer.Curve {
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

// newCurve computes the result of curveOf.
func (s *Search) newCurve(d topology.ID) offer.Curve {
	return s.aim.Useful(s.chargeFor(d, s.inside(d).Round(s.steps[s.tree.Layer(d)])))
}

// inside returns the curve of a domain before the charge for the domain itself.
func (s *Search) inside(d topology.ID) offer.Curve {
	columns := s.columnsIn(d)
	switch lo, _ := s.tree.Nodes(d); {
	case s.charges == nil && (s.tree.IsNode(d) || s.tree.Layer(d) >= lowest(columns)):
		return offer.Free(min(s.size[d], s.limit()), s.width)
	case s.uniform(s.tree.Layer(d), columns):
		number, by := s.weight(len(columns) - 1)
		free, sizes := s.largest(d, lowest(columns))
		return offer.Free(free, s.width).Each(sizes, number, by).Cap(s.limit())
	case !s.tree.IsNode(d):
		return s.curveOfAll(s.children(d))
	case s.lift > 0:
		return s.charges[lo].Cap(s.limit()).Scale(1 << s.lift)
	case s.width > s.charged:
		return s.charges[lo].Cap(s.limit()).Widen(s.width)
	default:
		return s.charges[lo].Cap(s.limit())
	}
}

// curveOfAll returns the curve of several domains, merged in pairs so that curves of similar size meet.
func (s *Search) curveOfAll(domains []topology.ID) offer.Curve {
	switch n := len(domains); n {
	case 0:
		return offer.Free(0, s.width)
	case 1:
		return s.curveOf(domains[0])
	default:
		return s.merge(s.curveOfAll(domains[:n/2]), s.curveOfAll(domains[n/2:]), s.limit())
	}
}

// merge returns the curve of two domains together, up to most members.
func (s *Search) merge(a, b offer.Curve, most offer.Slots) offer.Curve {
	s.merger.Most = most
	return s.aim.Useful(s.merger.Merge(a, b))
}

// chargeFor returns curve c of domain d, plus what preferences for the layer of d charge for the domain itself.
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

// chargePenalty returns curve c, plus what soft preferences charge if d is a node.
func (s *Search) chargePenalty(d topology.ID, c offer.Curve, number int) offer.Curve {
	node, _ := s.tree.Nodes(d)
	if !s.tree.IsNode(d) || s.Penalty[node] == 0 {
		return c
	}
	return c.Charge(s.steps[s.tree.Depth()], number, func(n offer.Slots) int64 { return s.Penalty[node] * int64(n) })
}

// uniform returns whether below layer only the deepest column matters: no layer in between charges or rounds.
func (s *Search) uniform(layer int, columns []Preference) bool {
	above, last := 0, lowest(columns) // the deepest preference but one, and the deepest
	if n := len(columns); n > 1 {
		above = columns[n-2].Layer
	}
	return s.charges == nil && s.perDomain && last <= s.tree.Depth() && layer >= above && layer < last && s.steps[layer+1] == s.steps[last]
}

// largest returns the sizes of d's domains of a layer without bound members, largest first. free is the total size of the other ones.
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

// price returns the price of n members in d; ok is false if d does not take them.
func (s *Search) price(d topology.ID, n offer.Slots) (offer.Price, bool) {
	return s.curveOf(d).Price(n)
}

// takes returns the domains of at least size n. domains is sorted by falling size.
func (s *Search) takes(domains []topology.ID, n offer.Slots) []topology.ID {
	return domains[:sort.Search(len(domains), func(i int) bool { return s.size[domains[i]] < n })]
}

// rest implements Filler.Rest. It omits the domains that take no member, which are the last.
func (s *Search) rest(domains []topology.ID, n offer.Slots) func(int, offer.Slots) (offer.Price, bool) {
	t := NewTails(s.takes(domains, 1), offer.Free(0, s.width), func(tail offer.Curve, d topology.ID) offer.Curve {
		return s.merge(tail, s.curveOf(d), n)
	})
	return func(i int, n offer.Slots) (offer.Price, bool) { return t.From(i).Price(n) }
}

// share implements Filler.Share: the most members for d such that rest takes the others and both together cost due.
func (s *Search) share(d topology.ID, rest func(offer.Slots) (offer.Price, bool), n offer.Slots, due offer.Price) (most offer.Slots) {
	for price, upTo := range s.curveOf(d).Steps() {
		x := min(upTo, n)
		if p, ok := rest(n - x); ok && price.Add(p).Compare(due) == 0 {
			most = x
		}
	}
	return most
}

// put distributes n members over d's nodes by size if only sizes decide: nothing charges below d, or each child equally. Else it is false.
func (s *Search) put(d topology.ID, n offer.Slots) bool {
	below := lowest(s.columnsIn(d)) - s.tree.Layer(d) // distance to the last preference
	sizesDecide := s.charges == nil && (below <= 0 || below == 1 && s.perDomain && s.BoundIn(d) == 0)
	if sizesDecide || s.tree.IsNode(d) {
		s.spread(d, n)
		return true
	}
	return false
}

// spread adds n members to places: it fills the largest child first, until one child takes the rest; then the first of the smallest.
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
	sufficient := s.takes(kids, n)
	least := s.size[sufficient[len(sufficient)-1]]
	s.spread(sufficient[len(s.takes(sufficient, least+1))], n)
}

// refuse returns the refusal with the size of each root.
func (s *Search) refuse() *Refusal {
	r := s.Ground.Refuse(s.Must, func(d topology.ID) offer.Slots { return s.size[d] })
	r.Want = max(s.Min, 1)
	r.AddMultiples(s.tree, s.Multiple)
	return r
}

// Choose returns the first plan by the order of the rules, or why there is none.
func Choose(w World, r Request) (*Plan, *Refusal) { return ChooseFrom(w, r, nil) }

// ChooseFrom is Choose with sum: offer.Sum of w.Free, or nil. It does not change sum.
func ChooseFrom(w World, r Request, sum []offer.Slots) (*Plan, *Refusal) {
	s := newSearch(w, r, 0, nil, sum)
	n := s.Most(nil)
	if n < max(r.Min, 1) {
		return nil, s.refuse()
	}
	return s.Plan(n), nil
}
