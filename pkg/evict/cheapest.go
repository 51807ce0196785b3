// Package evict searches for the cheapest victim set that frees enough capacity for the members of a gang.
//
// Cheapest is the search. It asks what each node takes without some of its pods, and passes each victim set through a
// placement check and a quota check. Its first step is Choose: the cheapest set by the prices of single pods.
//
//	cheapest.go   the problem, the bounds of domains, the loop over domains
//	domain.go     the search in one domain
//	starts.go     the starting sets of a domain; greedy.go the set that grows by cost per slot
//	placement.go  the placement check for heterogeneous members; quotas.go the quota check
//	putback.go    puts victims back that need not be evicted
//	exhaust.go    all sets of a domain with few bundles
//	evict.go      Choose; options.go the victim sets of a node; prices.go and tariff.go costs as prices of package plan
//	bundles.go    which victims are evicted together, and their cost; gangs.go, budget.go, cost.go
//	consider.go   why a domain was chosen
//
// Sets are compared by cost (cost.go). Ties are decided by the rules of package plan for the resulting plan, then by age, then by name. The
// package knows slots, costs and domains, but no pods, clocks or locks. Invariant: equal input gives equal output.
package evict

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Problem is the input of Cheapest: which victims to evict so that the members fit.
type Problem struct {
	World plan.World // World.Free is not read
	// Request is the request of members with equal requirements. For heterogeneous members it assumes the largest requirements;
	// then it only guides the search, and Placement decides.
	Request   plan.Request
	Nodes     []RawNode // by node index
	Gangs     []Gang
	Placement Placement // nil for members with equal requirements
	Quota     Quota     // nil without quotas
	// SeeksVictim returns whether some member must be near a victim's pod, or near a similar pod; nil if no member must.
	SeeksVictim       func(Pick) bool
	GathersSeparately bool // some members gather by themselves, so the rules for equal members are incomplete
}

// Placement is the placement check for heterogeneous members.
type Placement interface {
	// Fits plans the members as if gone were evicted. placed is nil if they do not fit, sure false if the planner reached its limit.
	Fits(gone []Pick) (placed Placed, sure bool)
}

// Placed is a plan for heterogeneous members.
type Placed interface {
	// Uses returns whether a member is placed on the node.
	Uses(node int) bool
	// Holds returns whether the same node assignments fit if only gone is evicted. changed are the nodes with fewer victims than planned.
	Holds(gone []Pick, changed []int) bool
	// Places returns the number of members per node. All returns whether every member has a node.
	Places() []plan.Place
	All() bool
}

// Found is the answer to a Problem.
type Found struct {
	Plan    *plan.Plan // for members with equal requirements
	Placed  Placed     // for heterogeneous members
	Cost    Cost
	Victims []Pick // a closed set
	// Freeable says, without victims, that some set frees enough capacity and that every such set fails the quota check.
	Freeable bool
	// Conclusive says, without victims, that no set passes both checks; with victims, that the step limit was not reached.
	// A cheaper set may still exist in a domain with more than a few bundles.
	Conclusive bool

	nodeOptions []Node // of search; for Consider
	rank        []int
}

// defaultSteps limits one search to about a second: a step is about a microsecond.
const defaultSteps = 600_000

// search is one run of Cheapest.
type search struct {
	Problem
	*bundles
	need        offer.Slots // for members with equal requirements
	stepsLeft   int         // remaining steps
	stepsSpent  bool        // the step limit is reached
	freeable    bool        // some set freed enough capacity
	skipped     bool        // some set was not tried: a gang was cut to its spare members, or a limit was reached
	judge       *plan.Judge
	unevictable map[Pick]bool // victims in no closed set

	nodeOptions []Node // by node index, with all victims of closed sets; nil before rankNodes
	rank        []int  // by node index, position in the order of preferred nodes; see rankNodes
}

// Cheapest returns the cheapest victim set that frees enough capacity, or a Found without victims if none is found.
//
// It searches the domains in the order of a lower bound of their cost, until the next bound exceeds the best set. In a domain it starts
// from a few sets, which are exact for pods without gangs, shared budgets and quotas. It closes them over bundles and puts back what need
// not be evicted. It tries all sets of a domain with few bundles. Each set passes the placement check and the quota check.
func Cheapest(p Problem) Found {
	s := newSearch(p)
	if !s.possible() {
		return Found{Conclusive: true}
	}
	found, ok := s.cheapestPods()
	if !ok {
		found = s.overDomains()
	}
	found.nodeOptions, found.rank = s.nodeOptions, s.rank
	return found
}

// overDomains returns the cheapest set of all domains.
func (s *search) overDomains() Found {
	var best *candidate
	for _, b := range s.bounds() {
		if s.stepsSpent || best != nil && b.known && b.cost.compareCount(best.set.cost) > 0 {
			break
		}
		if c := s.inDomain(b.domain); c != nil && (best == nil || s.compare(c, best) < 0) {
			best = c
		}
	}
	if best == nil {
		return Found{Freeable: s.freeable, Conclusive: !s.stepsSpent && !s.skipped}
	}
	return Found{Plan: best.plan, Placed: best.placed, Cost: best.set.cost, Victims: best.set.picks, Conclusive: !s.stepsSpent}
}

// candidate is a victim set that passes both checks.
type candidate struct {
	set    victimSet
	plan   *plan.Plan
	placed Placed
}

// newSearch returns a search with bundles, capacities, and the victims that can never be evicted.
func newSearch(p Problem) *search {
	victims := make([][]Victim, len(p.Nodes))
	for i, n := range p.Nodes {
		victims[i] = n.Victims
	}
	s := &search{Problem: p, bundles: newBundles(p.Gangs, victims), stepsLeft: defaultSteps, unevictable: map[Pick]bool{}}
	s.Nodes, s.World.Capacity = countCapacity(p.Nodes)
	s.need, _ = offer.Up(max(p.Request.Min, 1), p.Request.Multiple.Steps(p.World.Tree.Depth() + 1)[0])
	for g := range p.Gangs {
		if p.Gangs[g].Spare > 0 || len(s.members[g+1]) == 0 {
			continue
		}
		if _, ok := s.bundleOf(s.members[g+1][0]); !ok {
			for _, m := range s.members[g+1] {
				s.unevictable[m] = true
			}
		}
	}
	return s
}

// spend subtracts steps from the step limit, and sets stepsSpent if none is left.
func (s *search) spend(steps int) {
	s.stepsLeft -= steps
	s.stepsSpent = s.stepsSpent || s.stepsLeft < 0
}

// possible returns whether the members fit if all possible victims are evicted. It uses sums only.
func (s *search) possible() bool {
	if s.Placement != nil {
		return s.placementPossible()
	}
	w := s.World
	w.Free = slices.Clone(w.Capacity)
	for _, i := range nodesOf(slices.Collect(maps.Keys(s.unevictable))) {
		var gone []int
		for v := range s.victims[i] {
			if !s.unevictable[Pick{i, v}] {
				gone = append(gone, v)
			}
		}
		w.Free[i] = s.Nodes[i].Slots(gone)
	}
	return s.need > 0 && plan.NewSearch(w, s.Request, 0, nil).Possible()
}

// placementPossible returns whether the members pass the placement check if all victims are evicted. It also returns true if that is
// inconclusive: a smaller set may fit, or the planner reached its limit.
func (s *search) placementPossible() bool {
	d := s.domain(topology.Root)
	if s.SeeksVictim != nil || len(d.all()) == 0 {
		return true
	}
	set, ok := d.closeWithin(d.all())
	if s.skipped = false; !ok {
		return true
	}
	p := &placement{domain: d}
	fits := p.fits(set)
	unsure := s.skipped
	s.skipped = false
	return fits || unsure || len(set.picks) < len(d.all())
}

// cheapestPods returns the cheapest set by prices of single pods. ok: it is closed, exceeds no budget and passes the quotas.
func (s *search) cheapestPods() (found Found, ok bool) {
	if s.Placement != nil {
		return found, false
	}
	d := s.domain(topology.Root)
	e, picks := d.byTariff(nil, nil, false)
	if e == nil {
		return found, false
	}
	set, _, ok := s.closure(picks)
	if !ok || set.cost != e.Cost || s.Quota != nil && s.Quota.Check(set.picks) != Admitted {
		return found, false
	}
	c := d.asCandidate(set)
	if c == nil {
		return found, false
	}
	return Found{Plan: c.plan, Cost: set.cost, Victims: set.picks, Conclusive: true}, true
}

// bound is a domain and, if known, a lower bound of the cost of its victim sets.
type bound struct {
	domain   topology.ID
	cost     Cost
	known    bool
	capacity offer.Slots
}

// bounds returns the domains in which the members may be, lowest bound first. With a placement check all bounds are unknown.
func (s *search) bounds() (out []bound) {
	boundIn := offer.Sum(s.World.Tree, s.boundCounts())
	capacities := offer.Sum(s.World.Tree, s.World.Capacity)
	var d topology.ID
	for ; int(d) < s.World.Tree.Len(); d++ {
		if s.World.Tree.Layer(d) == s.Request.Must && boundIn[d] == boundIn[topology.Root] {
			out = append(out, bound{domain: d, capacity: capacities[d]})
		}
	}
	if len(out) > 1 {
		s.price(out)
	}
	if s.Placement == nil && len(out) > 1 {
		out = slices.DeleteFunc(out, func(b bound) bool { return !b.known })
	}
	slices.SortStableFunc(out, func(x, y bound) int {
		if x.known != y.known {
			return cmp.Compare(btoi(y.known), btoi(x.known))
		}
		return cmp.Or(x.cost.compareCount(y.cost), cmp.Compare(x.capacity, y.capacity))
	})
	if s.Placement != nil { // the order is a guess
		for i := range out {
			out[i].known = false
		}
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// boundCounts returns the number of bound members by node index.
func (s *search) boundCounts() []offer.Slots {
	if s.World.Bound != nil {
		return s.World.Bound
	}
	return make([]offer.Slots, len(s.Nodes))
}

// price sets cost and known of the domains: the cost of the cheapest set by the prices of single pods, ignoring gangs.
func (s *search) price(domains []bound) {
	s.rankNodes()
	t := newTariff(s.World.Tree, s.nodeOptions)
	w := s.World
	search := plan.NewSearch(w, s.Request, t.width(), t.under(math.MaxInt32, everywhere))
	prices := map[topology.ID]offer.Price{}
	search.EachCharge(s.need, func(id topology.ID, price offer.Price) { prices[id] = price })
	for i := range domains {
		if price, ok := prices[domains[i].domain]; ok {
			domains[i].cost, domains[i].known = t.cost(price), true
		}
	}
	s.spend(len(s.Nodes))
}

// compare returns a negative number if x is the better candidate: by cost, then by decideEqual.
func (s *search) compare(x, y *candidate) int {
	if o := x.set.cost.Compare(y.set.cost); o != 0 {
		return o
	}
	if s.judge == nil {
		s.judge = plan.NewJudge(s.World, s.Request)
	}
	_, o := s.decideEqual(s.judge, s.planOf(x), s.planOf(y), x.set, y.set)
	return o
}

// decideEqual returns the rule that decides between two sets of equal cost, and a negative number if x is first: package plan's rules, with
// fewer leaders of running gangs, less released capacity and younger victims before the last rules ByBinpack and ByNames.
func (b *bundles) decideEqual(judge *plan.Judge, x, y *plan.Plan, xSet, ySet victimSet) (Rule, int) {
	last := judge.Last
	if last == "" {
		judge.Last = plan.ByBinpack
	}
	rule, o := judge.Decide(x, y)
	if judge.Last = last; o != 0 {
		return rule, o
	}
	if o := cmp.Compare(b.leaders(xSet.picks, xSet.whole), b.leaders(ySet.picks, ySet.whole)); o != 0 {
		return ByLeaders, o
	}
	if o := cmp.Compare(xSet.cost.Released, ySet.cost.Released); o != 0 {
		return ByReleased, o
	}
	if o := b.compareAges(xSet.picks, ySet.picks); o != 0 {
		return ByAge, o
	}
	if rule, o = judge.Decide(x, y); o != 0 {
		return rule, o
	}
	return ByNames, b.compareSets(xSet.picks, ySet.picks, compareVictims)
}

// planOf returns the plan of a candidate; for heterogeneous members, the number of members per node and the domain around them.
func (s *search) planOf(c *candidate) *plan.Plan {
	if c.plan != nil {
		return c.plan
	}
	p := &plan.Plan{Places: c.placed.Places()}
	p.Domain, _ = s.World.Tree.Enclosing(func(yield func(int) bool) {
		for _, place := range p.Places {
			if !yield(place.Node) {
				return
			}
		}
	})
	return p
}
