// Package evict searches for the cheapest victim set that makes room for the members of a gang.
//
// Cheapest is the search. It asks what each node could take if some of its pods were gone, and passes each victim set through a
// placement check and a quota check. Choose is its first step: the cheapest set by the prices of single pods.
//
//	cheapest.go   the problem, the bounds of domains, the loop over domains
//	domain.go     the search in one domain
//	starts.go     the sets from which the search in a domain starts; greedy.go the one that grows by cost per slot
//	placement.go  the placement check for members that are not alike; quotas.go the quota check
//	putback.go    what need not be evicted is put back
//	exhaust.go    all sets of a domain with few bundles
//	evict.go      Choose; options.go the ways to make room on a node; prices.go and tariff.go costs as prices of package plan
//	bundles.go    which victims are evicted together, and what that costs; gangs.go, budget.go, cost.go
//	consider.go   why a domain was chosen
//
// Sets are compared by the rules for costs (cost.go), then by the rules of package plan for the plan that follows, then the set of
// the younger victims comes first, then names. The package knows slots, costs and domains. It knows no pods, clocks and locks. Equal
// input gives equal output.
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

// Problem is one question to Cheapest: which victims to evict so that the members fit.
type Problem struct {
	World plan.World // Free is not read
	// Request is what like members ask for. For other members it says so many as if each needed as much as the
	// neediest; then it only guides the search, and Placement decides.
	Request   plan.Request
	Nodes     []RawNode // by node index
	Gangs     []Gang
	Placement Placement // nil for like members
	Quota     Quota     // nil if no quota has a say
	// Sought says whether some member must be near a victim's pod, or near one like it; nil if no member must.
	Sought func(Pick) bool
	Apart  bool // some of the members gather by themselves, so the rules for like members do not say all
}

// Placement is the placement check for members that are not alike.
type Placement interface {
	// Fits plans the members as if the victims had terminated; placed is nil if they do not fit. sure is false if the
	// planner reached its own bound first.
	Fits(gone []Pick) (placed Placed, sure bool)
}

// Placed is a plan for members that are not alike.
type Placed interface {
	// Uses says whether a member is placed on the node.
	Uses(node int) bool
	// Holds says whether the same node assignments hold if only these victims have terminated. changed are the nodes
	// on which fewer have than in the plan.
	Holds(gone []Pick, changed []int) bool
	// Places says how many members each node gets, and All whether every member gets one.
	Places() []plan.Place
	All() bool
}

// Found is the answer to a Problem.
type Found struct {
	Plan    *plan.Plan // of like members
	Placed  Placed     // of others
	Cost    Cost
	Victims []Pick // a closed set
	// Room says, without victims, that some set makes room and that no such set passes the quota check.
	Room bool
	// Sure says, without victims, that no set passes both checks; with victims, that the steps did not run out. A cheaper set may
	// exist all the same where a domain has more than a few bundles.
	Sure bool

	asked []Node // see search; for Consider
	rank  []int
}

// defaultSteps bounds one search to about a second: a step is about a microsecond.
const defaultSteps = 600_000

// search is one run of Cheapest.
type search struct {
	Problem
	*bundles
	need        offer.Slots // of like members
	left        int         // steps
	tired       bool        // steps have run out
	room        bool        // a set made room
	skipped     bool        // some set was not tried: a gang was cut to what it can spare, the planner or a number of attempts reached its bound
	judge       *plan.Judge
	unevictable map[Pick]bool // victims that no closed set holds

	asked []Node // by node index, with all victims that a closed set may hold; see ask
	rank  []int  // by node index
}

// Cheapest returns the cheapest victim set that makes room for the members, or a Found without victims if none is known.
//
// It looks at the domains in which the members may gather, in the order of a lower bound of their cost, until the next
// bound exceeds the best set. In a domain it starts from a few sets that make room (exact for pods without gangs, shared budgets and quotas), closes
// them over bundles, and puts back what need not be evicted. Where a domain has few bundles it tries all sets.
// Each set passes the placement check and the quota check.
func Cheapest(p Problem) Found {
	s := newSearch(p)
	if !s.possible() {
		return Found{Sure: true}
	}
	found, ok := s.plain()
	if !ok {
		found = s.overDomains()
	}
	found.asked, found.rank = s.asked, s.rank
	return found
}

// overDomains looks for the cheapest set in each domain.
func (s *search) overDomains() Found {
	var best *candidate
	for _, b := range s.bounds() {
		if s.tired || best != nil && b.known && b.cost.compareCount(best.set.cost) > 0 {
			break
		}
		if c := s.inDomain(b.domain); c != nil && (best == nil || s.compare(c, best) < 0) {
			best = c
		}
	}
	if best == nil {
		return Found{Room: s.room, Sure: !s.tired && !s.skipped}
	}
	return Found{Plan: best.plan, Placed: best.placed, Cost: best.set.cost, Victims: best.set.picks, Sure: !s.tired}
}

// candidate is a victim set that passes both checks.
type candidate struct {
	set    victimSet
	plan   *plan.Plan
	placed Placed
}

func newSearch(p Problem) *search {
	victims := make([][]Victim, len(p.Nodes))
	for i, n := range p.Nodes {
		victims[i] = n.Victims
	}
	s := &search{Problem: p, bundles: newBundles(p.Gangs, victims), left: defaultSteps, unevictable: map[Pick]bool{}}
	s.Nodes, s.World.Room = withRoom(p.Nodes)
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

// spend counts steps.
func (s *search) spend(steps int) {
	s.left -= steps
	s.tired = s.tired || s.left < 0
}

// possible says whether the members fit if all victims are evicted that may be. Only sums are asked.
func (s *search) possible() bool {
	if s.Placement != nil {
		return s.placementPossible()
	}
	w := s.World
	w.Free = slices.Clone(w.Room)
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

// placementPossible asks the placement check of a set of all victims. It returns true also if that says too little: if a
// set of fewer may do, or the planner reached its bound.
func (s *search) placementPossible() bool {
	d := s.domain(topology.Root)
	if s.Sought != nil || len(d.all()) == 0 {
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

// plain is the whole search where the cheapest set by the prices of single pods is closed, exceeds no budget and is
// admitted by the quotas: nothing is cheaper then.
func (s *search) plain() (found Found, ok bool) {
	if s.Placement != nil {
		return found, false
	}
	d := s.domain(topology.Root)
	e, picks := d.byTariff(nil, nil, false)
	if e == nil {
		return found, false
	}
	set, _, ok := s.close(picks)
	if !ok || set.cost != e.Cost || s.Quota != nil && s.Quota.Check(set.picks) != Admitted {
		return found, false
	}
	c := d.asCandidate(set)
	if c == nil {
		return found, false
	}
	return Found{Plan: c.plan, Cost: set.cost, Victims: set.picks, Sure: true}, true
}

// bound is a domain, and a cost that no victim set in it is below, as far as one is known.
type bound struct {
	domain topology.ID
	cost   Cost
	known  bool
	room   offer.Slots
}

// bounds lists the domains in which the members may be, the lowest bound first.
func (s *search) bounds() (out []bound) {
	bound0 := offer.Sum(s.World.Tree, s.bound0())
	rooms := offer.Sum(s.World.Tree, s.World.Room)
	var d topology.ID
	for ; int(d) < s.World.Tree.Len(); d++ {
		if s.World.Tree.Layer(d) == s.Request.Must && bound0[d] == bound0[topology.Root] {
			out = append(out, bound{domain: d, room: rooms[d]})
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
		return cmp.Or(x.cost.compareCount(y.cost), cmp.Compare(x.room, y.room))
	})
	if s.Placement != nil { // the order is a guess, no bound
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

func (s *search) bound0() []offer.Slots {
	if s.World.Bound != nil {
		return s.World.Bound
	}
	return make([]offer.Slots, len(s.Nodes))
}

// price fills in the bounds of the domains: the cheapest set by the prices of single pods, whatever their gangs.
func (s *search) price(domains []bound) {
	s.ask()
	t := newTariff(s.World.Tree, s.asked)
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

// compare puts the better of two candidates first: the cheaper one, then by the rules of package plan for the plans that
// follow, then the one of the younger victims.
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

// decideEqual says which of two sets of equal cost comes first, and by which rule: by the rules of package plan for the plans, and before
// those that only tell places apart, the set with fewer leaders of gangs that run on, then the one that releases less, then the one of the younger victims.
func (b *bundles) decideEqual(judge *plan.Judge, x, y *plan.Plan, of, other victimSet) (Rule, int) {
	last := judge.Last
	if last == "" {
		judge.Last = plan.ByBinpack
	}
	rule, o := judge.Decide(x, y)
	if judge.Last = last; o != 0 {
		return rule, o
	}
	if o := cmp.Compare(b.leaders(of.picks, of.whole), b.leaders(other.picks, other.whole)); o != 0 {
		return ByLeaders, o
	}
	if o := cmp.Compare(of.cost.Released, other.cost.Released); o != 0 {
		return ByReleased, o
	}
	if o := b.compareAges(of.picks, other.picks); o != 0 {
		return ByAge, o
	}
	if rule, o = judge.Decide(x, y); o != 0 {
		return rule, o
	}
	return ByNames, b.compareSets(of.picks, other.picks, compareVictims)
}

// planOf is the plan of a candidate as the rules for like members compare plans.
func (s *search) planOf(c *candidate) *plan.Plan {
	if c.plan != nil {
		return c.plan
	}
	p := &plan.Plan{Places: c.placed.Places()}
	p.Domain, _ = s.World.Tree.Enclosing(func(yield func(int) bool) {
		for _, at := range p.Places {
			if !yield(at.Node) {
				return
			}
		}
	})
	return p
}
