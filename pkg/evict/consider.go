package evict

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Choice says why the eviction is in its domain.
type Choice struct {
	// Considered are the compared domains: the winner, then the rest, best first; domains without a plan are last.
	// They belong to the layer in which all members must gather, else to the topmost layer with several domains.
	// If a plan spans several of these, the cluster is the winner.
	Considered []Considered
	Rule       Rule
}

// Considered is the cost of the cheapest eviction in a domain.
type Considered struct {
	Domain  topology.ID
	Outcome Outcome
	Cost    Cost // set if Outcome is Possible
}

// Outcome says whether an eviction in a domain makes a plan possible.
type Outcome int

// Outcomes, best first.
const (
	Possible Outcome = iota
	Untried          // too many combinations, or the limit was reached
	Impossible
)

// Rule is the word for the rule that decided between the winner and the next best domain.
type Rule = plan.Rule

// The rules for costs, then the rules of package plan.
const (
	ByBudgets  Rule = "budgets"         // fewest violated disruption budgets
	ByPods     Rule = "pods"            // fewest pods evicted
	ByRequeued Rule = "sentBack"        // fewest requeued pods to the queue
	ByHighest  Rule = "highestPriority" // lowest highest victim priority
	BySum      Rule = "sum"             // lowest sum of priorities

	ByLeaders  Rule = "leaders"  // fewest leaders of running gangs
	ByReleased Rule = "released" // least released capacity among equal costs and plans
	ByAge      Rule = "age"      // youngest victims

	ByMembers     = plan.ByMembers
	ByDepth       = plan.ByDepth
	ByPreferences = plan.ByPreferences
	ByAttraction  = plan.ByAttraction
	BySoft        = plan.BySoft
	ByBinpack     = plan.ByBinpack
	ByNames       = plan.ByNames
)

// Further values of Choice.Rule, if no rule decided.
const (
	Alone   Rule = "alone"   // no other domain is known to be possible
	ByOrder Rule = "order"   // the order of package plan, for members with different topology constraints
	NotAll  Rule = "not all" // the search was incomplete: the next best would have been better
)

// Comparing controls the search for an explanation.
type Comparing struct {
	// More returns whether there is time for one more domain. Remaining domains are Untried. Nil is no limit.
	More func() bool
	// Each calls look for each index below domains, in any order or in parallel: no two domains share a node, but More
	// must allow parallel calls. Nil is sequential.
	Each func(domains int, look func(i int))
}

// Consider explains what Cheapest found for a problem.
func Consider(p Problem, found Found, how Comparing) Choice {
	c := considering{search: newSearch(p), world: p.World, must: p.Request.Must, prefer: p.Request.Prefer, more: how.More, each: how.Each}
	c.world.Capacity = c.search.World.Capacity
	c.search.nodeOptions, c.search.rank = found.nodeOptions, found.rank
	c.search.rankNodes() // before domains are searched in parallel
	return c.choice(draftOf(&candidate{victimSet{picks: found.Victims, cost: found.Cost}, found.Plan, found.Placed}, p))
}

// draftOf returns what the rules compare of a candidate for problem p.
func draftOf(c *candidate, p Problem) draft {
	if c.plan != nil {
		return draft{plan: *c.plan, cost: c.set.cost, set: c.set, full: true}
	}
	d := draft{cost: c.set.cost, set: c.set, full: c.placed.All() && !p.GathersSeparately}
	d.plan.Places = c.placed.Places()
	return d
}

// considering is one comparison of all domains.
type considering struct {
	search *search
	world  plan.World
	must   int
	prefer []plan.Preference
	more   func() bool
	each   func(domains int, look func(i int))

	bound []offer.Slots // by domain ID
	judge *plan.Judge   // created on demand
}

// draft is an eviction and its plan, as the rules compare them.
type draft struct {
	plan plan.Plan
	cost Cost
	set  victimSet
	full bool // all rules of package plan apply; otherwise only the number of members counts
}

// considered is one compared domain, with the draft of its eviction.
type considered struct {
	Considered
	draft draft
}

// choice returns the explanation for the found eviction. It searches every domain except the winner's in isolation.
func (c *considering) choice(found draft) Choice {
	layer := c.layer()
	found = c.withDomain(found)
	c.bound = sum(c.world.Tree, c.world.Bound)
	winner := considered{Considered{Domain: topology.Root, Cost: found.cost}, found}
	if c.world.Tree.Layer(found.plan.Domain) >= layer {
		winner.Domain = c.world.Tree.Ancestor(found.plan.Domain, layer)
	}
	var rivals []considered
	for d := topology.Root; int(d) < c.world.Tree.Len(); d++ {
		if c.world.Tree.Layer(d) != layer || d == winner.Domain || c.bound[d] < c.bound[topology.Root] {
			continue // the members must join the bound members
		}
		rivals = append(rivals, considered{Considered: Considered{Domain: d, Outcome: Untried}})
	}
	if c.each == nil {
		c.each = sequentially
	}
	steps := max(defaultSteps/max(len(rivals), 1), 4*len(c.search.Nodes))
	c.each(len(rivals), func(i int) {
		if c.more != nil && !c.more() {
			return
		}
		rival, s := &rivals[i], *c.search
		s.stepsLeft, s.stepsSpent = steps, false
		best := s.inDomain(rival.Domain)
		switch {
		case best != nil && !c.isIn(best, rival.Domain):
			// The placement check plans in the whole cluster. The result for the domain alone is unknown.
		case best != nil:
			rival.Outcome = Possible
			rival.draft = c.withDomain(draftOf(best, s.Problem))
			rival.Cost = best.set.cost
		case !s.stepsSpent && !s.skipped:
			rival.Outcome = Impossible
		}
	})
	slices.SortStableFunc(rivals, func(a, b considered) int {
		if a.Outcome != b.Outcome || a.Outcome != Possible {
			return cmp.Compare(a.Outcome, b.Outcome)
		}
		_, o := c.decide(a.draft, b.draft)
		return o
	})
	choice := Choice{Considered: []Considered{winner.Considered}, Rule: Alone}
	for _, o := range rivals {
		choice.Considered = append(choice.Considered, o.Considered)
	}
	if len(rivals) > 0 && rivals[0].Outcome == Possible {
		choice.Rule = c.decidingRule(winner.draft, rivals[0].draft)
	}
	return choice
}

// sequentially calls look for each index below n, in order.
func sequentially(n int, look func(i int)) {
	for i := range n {
		look(i)
	}
}

// layer returns the layer of the compared domains: Must, else the topmost one above the nodes with several domains, else the root's.
func (c *considering) layer() int {
	if c.must > 0 {
		return c.must
	}
	t := c.world.Tree
	d := topology.Root
	for t.Layer(d) < t.Depth()-1 {
		if d++; t.End(d) < topology.ID(t.Len()) {
			return t.Layer(d)
		}
	}
	return 0
}

// isIn returns whether all members of a candidate are placed in domain d.
func (c *considering) isIn(best *candidate, d topology.ID) bool {
	lo, hi := c.world.Tree.Nodes(d)
	return !slices.ContainsFunc(c.search.planOf(best).Places, func(place plan.Place) bool { return place.Node < lo || place.Node >= hi })
}

// withDomain returns d with plan.Domain set to the deepest domain around its members and the bound members.
func (c *considering) withDomain(d draft) draft {
	d.plan.Domain, _ = c.world.Tree.Enclosing(func(yield func(int) bool) {
		for _, place := range d.plan.Places {
			if !yield(place.Node) {
				return
			}
		}
		for i, n := range c.world.Bound {
			if n > 0 && !yield(i) {
				return
			}
		}
	})
	return d
}

// decide returns the rule that decides between two drafts, and a negative number if a is first; "" and 0 if they are equal.
func (c *considering) decide(a, b draft) (Rule, int) {
	if rule, o := a.cost.decide(b.cost); o != 0 {
		return rule, o
	}
	if c.judge == nil {
		c.judge = plan.NewJudge(c.world, plan.Request{Must: c.must, Prefer: c.prefer})
	}
	if c.judge.Last = ""; !a.full || !b.full {
		c.judge.Last = plan.ByMembers
	}
	return c.search.decideEqual(c.judge, &a.plan, &b.plan, a.set, b.set)
}

// sum is offer.Sum; zeros for nil.
func sum(t *topology.Tree, nodes []offer.Slots) []offer.Slots {
	if nodes == nil {
		return make([]offer.Slots, t.Len())
	}
	return offer.Sum(t, nodes)
}

// decidingRule returns the rule by which the winner precedes other. NotAll means that other costs less; ByOrder means that no rule decides.
func (c *considering) decidingRule(winner, other draft) Rule {
	switch rule, o := c.decide(winner, other); {
	case o < 0:
		return rule
	case o > 0 && winner.cost != other.cost:
		return NotAll
	default:
		return ByOrder
	}
}
