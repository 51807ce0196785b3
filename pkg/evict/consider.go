package evict

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Choice says why an eviction is where it is.
type Choice struct {
	// Considered are the domains that it might have been in: the one that won, then the
	// others, best first, those in which none makes a plan last.
	//
	// They are those of the layer in which all members must gather. Where they need not,
	// they are those of the topmost layer that has more than one: few, and what people
	// call their network by. A plan that spans several of these won in the cluster.
	Considered []Considered
	Rule       Rule
}

// Considered is what the cheapest eviction in a domain costs.
type Considered struct {
	Domain  topology.ID
	Outcome Outcome
	Cost    Cost // if it is possible
}

// Outcome says whether an eviction in a domain makes a plan.
type Outcome int

// Outcomes, the best first.
const (
	Possible Outcome = iota
	Untried          // there are too many ways to look at all of them, or it took too long
	Impossible
)

// Rule is what decided between the winner and the next best domain, in a word.
type Rule = plan.Rule

// The rules for costs, and after them those of package plan.
const (
	ByBudgets Rule = "budgets"         // fewest violated disruption budgets
	ByPods    Rule = "pods"            // fewest pods evicted
	ByBack    Rule = "sentBack"        // fewest that only go back to the queue
	ByHighest Rule = "highestPriority" // lowest highest victim priority
	BySum     Rule = "sum"             // lowest sum of priorities

	ByLeaders  Rule = "leaders"  // fewest leaders of gangs that run on
	ByReleased Rule = "released" // least released, where costs and plans are equal
	ByAge      Rule = "age"      // youngest victims

	ByMembers     = plan.ByMembers
	ByDepth       = plan.ByDepth
	ByPreferences = plan.ByPreferences
	ByAttraction  = plan.ByAttraction
	BySoft        = plan.BySoft
	ByBinpack     = plan.ByBinpack
	ByNames       = plan.ByNames
)

// What else may be said where no rule says it.
const (
	Alone   Rule = "alone"   // no other domain is known to be possible
	ByOrder Rule = "order"   // package plan's order, of members that differ in whom they gather with
	NotAll  Rule = "not all" // not all ways were tried: the next best would have been better
)

// Comparing is how domains are looked into, only to tell about them.
type Comparing struct {
	// More says whether there is time for one domain more. Those that are left then are Untried. Nil is endless.
	More func() bool
	// Each looks into so many domains, in any order, several at a time if it can: no two of them ask about one node, but
	// More may be asked by several. Nil is one after the other.
	Each func(domains int, look func(i int))
}

// Consider explains what Cheapest found for a problem.
func Consider(p Problem, found Found, by Comparing) Choice {
	c := considering{search: newSearch(p), world: p.World, must: p.Request.Must, prefer: p.Request.Prefer, more: by.More, each: by.Each}
	c.world.Room = c.search.World.Room
	c.search.asked, c.search.rank = found.asked, found.rank
	c.search.ask() // before several domains are looked into at a time
	return c.choice(drafted(&candidate{victimSet{picks: found.Victims, cost: found.Cost}, found.Plan, found.Placed}, p))
}

// drafted is a candidate as far as the rules compare candidates.
func drafted(c *candidate, p Problem) draft {
	if c.plan != nil {
		return draft{plan: *c.plan, cost: c.set.cost, set: c.set, full: true}
	}
	d := draft{cost: c.set.cost, set: c.set, full: c.placed.All() && !p.Apart}
	d.plan.Places = c.placed.Places()
	return d
}

// considering is one look at all domains.
type considering struct {
	search *search
	world  plan.World
	must   int
	prefer []plan.Preference
	more   func() bool
	each   func(domains int, look func(i int))

	bound []offer.Slots // by ID
	judge *plan.Judge   // made when asked for
}

// draft is an eviction and the plan that follows, as far as the rules compare them.
type draft struct {
	plan plan.Plan
	cost Cost
	set  victimSet
	full bool // the rules for like members tell all that there is to tell
}

type considered struct {
	Considered
	draft draft
}

// choice searches in every domain but the winner's as if there were no others.
func (c *considering) choice(found draft) Choice {
	layer := c.layer()
	found = c.enclosed(found)
	c.bound = sum(c.world.Tree, c.world.Bound)
	winner := considered{Considered{Domain: topology.Root, Cost: found.cost}, found}
	if c.world.Tree.Layer(found.plan.Domain) >= layer {
		winner.Domain = c.world.Tree.Ancestor(found.plan.Domain, layer)
	}
	var others []considered
	for d := topology.Root; int(d) < c.world.Tree.Len(); d++ {
		if c.world.Tree.Layer(d) != layer || d == winner.Domain || c.bound[d] < c.bound[topology.Root] {
			continue // the members must be with those that are bound
		}
		others = append(others, considered{Considered: Considered{Domain: d, Outcome: Untried}})
	}
	if c.each == nil {
		c.each = inTurn
	}
	steps := max(defaultSteps/max(len(others), 1), 4*len(c.search.Nodes))
	c.each(len(others), func(i int) {
		if c.more != nil && !c.more() {
			return
		}
		other, s := &others[i], *c.search
		s.left, s.tired = steps, false
		best := s.inDomain(other.Domain)
		switch {
		case best != nil && !c.isIn(best, other.Domain):
			// the placement check plans in the whole cluster; what is possible in the domain alone is not known
		case best != nil:
			other.Outcome, other.draft, other.Cost = Possible, c.enclosed(drafted(best, s.Problem)), best.set.cost
		case !s.tired && !s.skipped:
			other.Outcome = Impossible
		}
	})
	slices.SortStableFunc(others, func(a, b considered) int {
		if a.Outcome != b.Outcome || a.Outcome != Possible {
			return cmp.Compare(a.Outcome, b.Outcome)
		}
		_, o := c.decide(a.draft, b.draft)
		return o
	})
	choice := Choice{Considered: []Considered{winner.Considered}, Rule: Alone}
	for _, o := range others {
		choice.Considered = append(choice.Considered, o.Considered)
	}
	if len(others) > 0 && others[0].Outcome == Possible {
		choice.Rule = c.decided(winner.draft, others[0].draft)
	}
	return choice
}

func inTurn(n int, look func(i int)) {
	for i := range n {
		look(i)
	}
}

// layer is the layer of the domains to look at; the root's if no layer above the nodes
// has more than one.
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

// isIn says whether all members of a candidate are placed in a domain.
func (c *considering) isIn(best *candidate, d topology.ID) bool {
	lo, hi := c.world.Tree.Nodes(d)
	return !slices.ContainsFunc(c.search.planOf(best).Places, func(at plan.Place) bool { return at.Node < lo || at.Node >= hi })
}

// enclosed is a draft with the deepest domain that holds its members and those that are bound.
func (c *considering) enclosed(d draft) draft {
	d.plan.Domain, _ = c.world.Tree.Enclosing(func(yield func(int) bool) {
		for _, at := range d.plan.Places {
			if !yield(at.Node) {
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

// decide says which of two drafts comes first, and by which rule; "" if they are equal.
func (c *considering) decide(a, b draft) (Rule, int) {
	if rule, o := a.cost.decide(b.cost); o != 0 {
		return rule, o
	}
	if c.judge == nil {
		c.judge = c.newJudge()
	}
	if c.judge.Last = ""; !a.full || !b.full {
		c.judge.Last = plan.ByMembers
	}
	return c.search.decideEqual(c.judge, &a.plan, &b.plan, a.set, b.set)
}

// newJudge prepares to compare plans. Room is what there is when all victims have gone.
func (c *considering) newJudge() *plan.Judge {
	return plan.NewJudge(c.world, plan.Request{Must: c.must, Prefer: c.prefer})
}

// sum is offer.Sum, also of nothing.
func sum(t *topology.Tree, nodes []offer.Slots) []offer.Slots {
	if nodes == nil {
		return make([]offer.Slots, t.Len())
	}
	return offer.Sum(t, nodes)
}

// decided is the first rule by which the winner is better.
func (c *considering) decided(winner, other draft) Rule {
	switch rule, o := c.decide(winner, other); {
	case o < 0:
		return rule
	case o > 0 && winner.cost != other.cost:
		return NotAll
	default:
		return ByOrder
	}
}
