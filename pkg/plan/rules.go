package plan

import (
	"cmp"
	"iter"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Rule is the name of a rule that orders plans.
type Rule string

// The rules in order.
const (
	ByMembers     Rule = "members"         // most members placed
	ByDepth       Rule = "depth"           // deepest domain around all members, bound ones included
	ByPreferences Rule = "preferences"     // lowest charge by preferences, from the top down
	ByAttraction  Rule = "attraction"      // most attracting pods in the domain, then in its parents
	BySoft        Rule = "softPreferences" // lowest penalty by soft preferences
	ByBinpack     Rule = "binpack"         // fewest slots in the domain, then in its parents
	ByFill        Rule = "fill"            // inside the domain, layer by layer: the largest child first, and last the smallest that suffices
	ByNames       Rule = "names"
)

// rules is the order of valid plans. Invariant: no other code defines this order. Choose narrows the domains by it and fills the remaining
// one; Judge compares plans by it.
var rules = []rule{
	{name: ByMembers, plans: func(_ *Ground, a, b *Draft) int { return cmp.Compare(b.Members, a.Members) }},
	{name: ByDepth, domains: func(g *Ground, a, b topology.ID) int { return cmp.Compare(g.tree.Layer(b), g.tree.Layer(a)) }},
	{name: ByPreferences, plans: func(_ *Ground, a, b *Draft) int { return a.compareCharged(b) }},
	{
		name:     ByAttraction,
		domains:  func(g *Ground, a, b topology.ID) int { return g.CompareAttraction(a, b) },
		inactive: func(g *Ground) bool { return g.attract == nil },
	},
	{name: BySoft, plans: func(_ *Ground, a, b *Draft) int { return cmp.Compare(a.Penalty(), b.Penalty()) }},
	{name: ByBinpack, domains: func(g *Ground, a, b topology.ID) int { return g.compareUpwards(g.capacity, a, b) }},
	{name: ByFill, plans: func(g *Ground, a, b *Draft) int { return g.compareSpread(a, b) }},
	{name: ByNames, domains: func(_ *Ground, a, b topology.ID) int { return cmp.Compare(a, b) }},
}

// rule compares two plans that are equal by earlier rules: either by their domains alone (domains), or by more of them (plans).
type rule struct {
	name     Rule
	domains  func(g *Ground, a, b topology.ID) int
	plans    func(g *Ground, a, b *Draft) int
	inactive func(g *Ground) bool // returns whether the rule cannot decide; nil if it always may
}

// domainRules returns the rules that compare only domains and may decide within a layer.
func (g *Ground) domainRules() (out []func(g *Ground, a, b topology.ID) int) {
	for _, r := range rules {
		if r.domains != nil && r.name != ByDepth && (r.inactive == nil || !r.inactive(g)) {
			out = append(out, r.domains)
		}
	}
	return out
}

// Draft is the properties of a plan that the rules compare.
type Draft struct {
	Domain  topology.ID
	Members int
	Charged []func() int64       // by preference
	Penalty func() int64         // for soft preferences
	spread  func() []offer.Slots // members by domain ID; nil if not compared
}

// compareCharged returns a negative number if d is charged less than other by the first preference in which they differ.
func (d *Draft) compareCharged(other *Draft) int {
	for i := range d.Charged {
		if o := cmp.Compare(d.Charged[i](), other.Charged[i]()); o != 0 {
			return o
		}
	}
	return 0
}

// compareSpread compares two plans by ByFill; it returns 0 if they are in different domains, or their distributions are unknown.
func (g *Ground) compareSpread(a, b *Draft) int {
	if a.Domain != b.Domain || a.spread == nil {
		return 0
	}
	return g.compareFills(a.Domain, a.spread(), b.spread())
}

// Order compares two plans by the rules up to last ("" for all). order is negative if a is first, and decides is the deciding rule; 0 and
// "" if the plans are equal.
func (g *Ground) Order(a, b *Draft, last Rule) (decides Rule, order int) {
	for _, r := range rules {
		switch {
		case r.domains != nil:
			order = r.domains(g, a.Domain, b.Domain)
		case r.plans != nil:
			order = r.plans(g, a, b)
		}
		if order != 0 {
			return r.name, order
		}
		if r.name == last {
			break
		}
	}
	return "", 0
}

// CompareDomains compares two domains of one layer by the rules that compare only domains: negative if a is first, 0 if they are equal.
func (g *Ground) CompareDomains(a, b topology.ID) int {
	for _, compare := range g.byDomain {
		if o := compare(g, a, b); o != 0 {
			return o
		}
	}
	return 0
}

// narrow returns the first of domains by the rules. domains must not be empty, and each must take n. Rules for the number of members and
// for their distribution are not applied.
func narrow[N Members](g *Ground, c Chooser[N], domains []topology.ID, n N) topology.ID {
	for _, r := range rules {
		switch {
		case len(domains) == 1:
			return domains[0]
		case r.domains != nil:
			domains = keepFirst(domains, func(a, b topology.ID) int { return r.domains(g, a, b) })
		case r.name == ByPreferences:
			domains = c.Fewest(domains, n)
		case r.name == BySoft:
			domains = c.Softest(domains, n)
		}
	}
	return domains[0]
}

// keepFirst returns, in place, the domains before which compare orders no other one.
func keepFirst(domains []topology.ID, compare func(a, b topology.ID) int) []topology.ID {
	out := domains[:1]
	for _, d := range domains[1:] {
		switch o := compare(d, out[0]); {
		case o < 0:
			out = append(out[:0], d)
		case o == 0:
			out = append(out, d)
		}
	}
	return out
}

// compareFills is ByFill: it compares two distributions of equally many members over d. a and b are member counts by domain ID. It returns
// a negative number if Fill would choose a. Fill takes the largest child first. For the last members it takes the smallest child that takes
// them all.
func (g *Ground) compareFills(d topology.ID, a, b []offer.Slots) int {
	if g.tree.IsNode(d) {
		return 0
	}
	kids := g.LargestFirst(d)
	remaining := a[d]
	for i, k := range kids {
		childA, allInChildA := domainWithAll(kids[i:], a, remaining)
		childB, allInChildB := domainWithAll(kids[i:], b, remaining)
		if allInChildA && allInChildB {
			if o := cmp.Or(cmp.Compare(g.size[childA], g.size[childB]), cmp.Compare(childA, childB)); o != 0 {
				return o
			}
			break
		}
		if allInChildA != allInChildB {
			if allInChildA {
				return -1
			}
			return 1
		}
		if o := -cmp.Compare(a[k], b[k]); o != 0 {
			return o
		}
		remaining -= a[k]
	}
	for _, k := range kids {
		if a[k] > 0 {
			if o := g.compareFills(k, a, b); o != 0 {
				return o
			}
		}
	}
	return 0
}

// domainWithAll returns the first of domains that has all of the members; ok is false if there is none.
func domainWithAll(domains []topology.ID, members []offer.Slots, all offer.Slots) (topology.ID, bool) {
	i := slices.IndexFunc(domains, func(d topology.ID) bool { return members[d] == all })
	if i < 0 {
		return topology.Root, false
	}
	return domains[i], true
}

// Ground is the data of a search that does not depend on the kinds of members.
type Ground struct {
	tree  *topology.Tree
	Roots []topology.ID // all members must be in one of these
	Split bool          // bound members are in several roots

	// By domain ID:
	size     []offer.Slots // the size of a domain: the members that it takes, rounded down to the multiples
	capacity []offer.Slots // total capacity, not rounded: binpack compares it
	attract  []offer.Slots // nil without attracting pods
	bound    []offer.Slots // nil without bound members

	byDomain []func(g *Ground, a, b topology.ID) int // see domainRules
}

// NewGround returns the Ground of a world. Members share a domain of layer must. steps is by layer, see offer.Multiples.Steps. sum is the
// sum of Free by domain, or nil.
func NewGround(w World, steps []offer.Slots, must int, sum []offer.Slots) Ground {
	g := Ground{tree: w.Tree, size: sum}
	if sum == nil || steps[0] > 1 {
		g.size = offer.Roll(w.Tree, w.Free, steps)
	}
	switch {
	case w.Capacity != nil:
		g.capacity = offer.Sum(w.Tree, w.Capacity)
	case sum != nil:
		g.capacity = sum
	case steps[0] > 1:
		g.capacity = offer.Sum(w.Tree, w.Free)
	default:
		g.capacity = g.size // nothing was rounded
	}
	if anyPositive(w.Attract) {
		g.attract = offer.Sum(w.Tree, w.Attract)
	}
	if anyPositive(w.Bound) {
		g.bound = offer.Sum(w.Tree, w.Bound)
	}
	g.byDomain = g.domainRules()
	g.Roots = DomainsAt(w.Tree, must)
	if g.bound != nil {
		g.Roots = slices.DeleteFunc(g.Roots, func(d topology.ID) bool { return g.bound[d] == 0 })
		g.Split = len(g.Roots) > 1
	}
	return g
}

func anyPositive(counts []offer.Slots) bool {
	return slices.ContainsFunc(counts, func(n offer.Slots) bool { return n > 0 })
}

// DomainsAt returns the domains of a layer in the order of the tree.
func DomainsAt(t *topology.Tree, layer int) []topology.ID {
	return slices.Collect((&Ground{tree: t}).Below(topology.Root, layer))
}

// Below yields the domains of a layer in d, in the order of the tree: d itself for its own layer, nothing for a layer above d.
func (g *Ground) Below(d topology.ID, layer int) iter.Seq[topology.ID] {
	return func(yield func(topology.ID) bool) {
		for x := d; x < g.tree.End(d); {
			if g.tree.Layer(x) < layer {
				x++
				continue
			}
			if g.tree.Layer(x) == layer && !yield(x) {
				return
			}
			x = g.tree.End(x)
		}
	}
}

// AnyBound returns whether any member is bound.
func (g *Ground) AnyBound() bool { return g.bound != nil }

// BoundIn returns how many members are bound to nodes in a domain.
func (g *Ground) BoundIn(d topology.ID) offer.Slots {
	if g.bound == nil {
		return 0
	}
	return g.bound[d]
}

// HoldsBound returns whether all bound members run in domain d; true if none is bound.
func (g *Ground) HoldsBound(d topology.ID) bool { return g.BoundIn(d) == g.BoundIn(topology.Root) }

// Members counts members: a number of equal members, or a packed number of members per class.
type Members interface{ ~int | ~uint64 }

// Chooser is the functions by which narrow compares domains. They depend on the kinds of members.
type Chooser[N Members] struct {
	// Charge returns what the world charges for n in d; ok is false if d cannot take them.
	Charge func(d topology.ID, n N) (p offer.Price, ok bool)
	// Fewest returns the domains in which preferences charge n the least: ByPreferences.
	Fewest func(domains []topology.ID, n N) []topology.ID
	// Softest returns the domains in which soft preferences charge n the least. The domains must be equal by ByPreferences.
	Softest func(domains []topology.ID, n N) []topology.ID
}

// First returns the first domain for n members. Candidates take n at the price least, and contain all bound members. There must be one.
func First[N Members](g *Ground, c Chooser[N], n N, least offer.Price) topology.ID {
	var candidates []topology.ID
	for _, root := range g.Roots {
		for d := root; d < g.tree.End(root); {
			if p, ok := c.Charge(d, n); !ok || p.Compare(least) != 0 || !g.HoldsBound(d) {
				d = g.tree.End(d) // neither does any domain below
				continue
			}
			candidates = append(candidates, d)
			d++
		}
	}
	return narrow(g, c, candidates, n)
}

// Cheapest returns all candidates with the lowest price, in their order; nil without candidates.
func Cheapest(candidates []topology.ID, price func(topology.ID) offer.Price) (out []topology.ID) {
	var least offer.Price
	for _, d := range candidates {
		p := price(d)
		if len(out) == 0 || p.Compare(least) < 0 {
			least, out = p, out[:0]
		}
		if p.Compare(least) == 0 {
			out = append(out, d)
		}
	}
	return out
}

// CompareAttraction compares two domains of one layer by attracting pods, then their parents in the same way: negative if a has more.
func (g *Ground) CompareAttraction(a, b topology.ID) int { return -g.compareUpwards(g.attract, a, b) }

// compareUpwards compares the counts of two domains of one layer, then of their parents; 0 for nil counts.
func (g *Ground) compareUpwards(counts []offer.Slots, a, b topology.ID) int {
	if counts == nil {
		return 0
	}
	for a != b {
		if o := cmp.Compare(counts[a], counts[b]); o != 0 {
			return o
		}
		a, b = g.tree.Parent(a), g.tree.Parent(b)
	}
	return 0
}

// Filler is the functions by which Fill distributes members over the children of a domain.
type Filler[N Members] struct {
	// Price returns the cost of n in d, preferences included.
	Price func(d topology.ID, n N) (p offer.Price, ok bool)
	// Takes returns the domains that take n at any price. The input is sorted by falling size.
	Takes func(domains []topology.ID, n N) []topology.ID
	// Rest returns a function: the cost of some of the n members in domains[i:] together.
	Rest func(domains []topology.ID, n N) func(i int, n N) (p offer.Price, ok bool)
	// Share returns the most members for d such that the remainder fits after d, and the sum of both prices is due.
	Share func(d topology.ID, after func(N) (offer.Price, bool), n N, due offer.Price) N
	// Put distributes n over the nodes of d if prices do not matter, as for a node. Otherwise it returns false.
	Put func(d topology.ID, n N) bool
}

// Fill is ByFill: it distributes n members over the nodes of d, which must take them, layer by layer. The largest child is first, until one
// child takes the rest; then the smallest such child is used. Each child gets as many members as the lowest price allows.
func Fill[N Members](g *Ground, f Filler[N], d topology.ID, n N) {
	if f.Put(d, n) {
		return
	}
	kids := g.LargestFirst(d)
	rest := f.Rest(kids, n)
	for i, k := range kids {
		due, _ := rest(i, n)
		if last, ok := smallest(g, f, f.Takes(kids[i:], n), n, due); ok {
			Fill(g, f, last, n)
			return
		}
		restAfter := func(n N) (offer.Price, bool) { return rest(i+1, n) }
		if x := f.Share(k, restAfter, n, due); x != 0 {
			Fill(g, f, k, x)
			n -= x
		}
	}
}

// LargestFirst lists the children of d by falling size.
func (g *Ground) LargestFirst(d topology.ID) []topology.ID {
	kids := g.children(d)
	slices.SortFunc(kids, func(a, b topology.ID) int { return cmp.Or(cmp.Compare(g.size[b], g.size[a]), cmp.Compare(a, b)) })
	return kids
}

// children lists the children of d by name.
func (g *Ground) children(d topology.ID) []topology.ID {
	n := 0
	for range g.tree.Children(d) {
		n++
	}
	return slices.AppendSeq(make([]topology.ID, 0, n), g.tree.Children(d))
}

// smallest returns the first of the smallest domains that take all of n at the price due. domains is sorted by falling size.
func smallest[N Members](g *Ground, f Filler[N], domains []topology.ID, n N, due offer.Price) (best topology.ID, ok bool) {
	for _, d := range domains {
		if ok && g.size[d] == g.size[best] {
			continue
		}
		if p, fits := f.Price(d, n); fits && p.Compare(due) == 0 {
			best, ok = d, true
		}
	}
	return best, ok
}
