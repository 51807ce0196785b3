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

	ByMembers     = plan.ByMembers
	ByDepth       = plan.ByDepth
	ByPreferences = plan.ByPreferences
	ByAttraction  = plan.ByAttraction
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

// Consider explains what Choose found, from the same input.
func Consider(w plan.World, r plan.Request, nodes []Node, found *Eviction) Choice {
	c := considering{world: w, must: r.Must, prefer: r.Prefer, room: func(i int) offer.Slots { return nodes[i].Room }}
	return c.like(found, func(part plan.World, lo, hi int) (*Eviction, bool) { return Choose(part, r, nodes[lo:hi]), true })
}

// ConsiderAmongGangs explains what ChooseAmongGangs found, from the same input. All
// domains together take about as long as the search; where there are gangs, perhaps longer.
func ConsiderAmongGangs(w plan.World, r plan.Request, nodes []RawNode, gangs []Gang, found *Eviction, by Comparing) Choice {
	c := considering{world: w, must: r.Must, prefer: r.Prefer, more: by.More, each: by.Each}
	c.room = func(i int) offer.Slots { return nodes[i].Slots(indexes(len(nodes[i].Victims))) }
	return c.like(found, func(part plan.World, lo, hi int) (*Eviction, bool) {
		e, _, exact := searchAmongGangs(part, r, nodes[lo:hi], gangs, branchesFor(hi-lo)) // of sets at one cost any will do
		return e, exact
	})
}

// like is choice for members that need the same.
func (c *considering) like(found *Eviction, search func(part plan.World, lo, hi int) (e *Eviction, exact bool)) Choice {
	told := func(e *Eviction) draft {
		return draft{plan: *e.Plan, cost: e.Cost, full: true}
	}
	return c.choice(told(found), func(part plan.World, lo, hi int) (d draft, o Outcome) {
		e, exact := search(part, lo, hi)
		switch {
		case e != nil:
			return told(e), Possible
		case exact:
			return d, Impossible
		default:
			return d, Untried
		}
	})
}

// ConsiderJobAmongGangs explains what ChooseJobAmongGangs found, from the same input.
func ConsiderJobAmongGangs(w plan.JobWorld, j plan.Job, nodes []JobNode, gangs []Gang, found *JobEviction, by Comparing) Choice {
	c := considering{world: w.World, must: j.All.Must, prefer: j.All.Prefer, more: by.More, each: by.Each}
	c.room = func(i int) offer.Slots { return w.Room[i] }
	c.world.Bound = make([]offer.Slots, len(nodes))
	for _, g := range j.Gangs {
		for i, n := range g.Bound {
			c.world.Bound[i] += n
		}
	}
	members := 0
	for _, class := range j.Classes {
		members += len(class.Ranks)
	}
	told := func(e *JobEviction) draft {
		d := draft{cost: e.Cost, full: len(e.Plan.Puts) == members && !slices.ContainsFunc(j.Sets, func(s plan.Set) bool { return len(s.Prefer) > 0 })}
		d.plan.Domain = e.Plan.Domain
		for _, put := range e.Plan.Puts {
			d.plan.Places = append(d.plan.Places, plan.Place{Node: put.Node, Count: 1})
		}
		return d
	}
	work := c.workInEach()
	return c.choice(told(found), func(part plan.World, lo, hi int) (d draft, o Outcome) {
		jobPart := j
		jobPart.Gangs = slices.Clone(j.Gangs)
		for g := range j.Gangs {
			jobPart.Gangs[g].Bound = within(j.Gangs[g].Bound, lo, hi)
		}
		e, exact := chooseJobAmongGangs(plan.JobWorld{World: part}, jobPart, nodes[lo:hi], gangs, branchesFor(hi-lo), work)
		switch {
		case e != nil:
			return told(e), Possible
		case exact:
			return d, Impossible
		default:
			return d, Untried
		}
	})
}

// considering is one look at all domains.
type considering struct {
	world  plan.World
	must   int
	prefer []plan.Preference
	room   func(node int) offer.Slots // with every victim gone
	more   func() bool
	each   func(domains int, look func(i int))

	bound []offer.Slots // by ID
	judge *plan.Judge   // made when asked for
}

// draft is an eviction and the plan that follows, as far as the rules compare them.
type draft struct {
	plan plan.Plan
	cost Cost
	full bool // the rules for like members tell all that there is to tell
}

type considered struct {
	Considered
	draft draft
}

// choice searches in every domain but the winner's as if there were no others.
func (c *considering) choice(found draft, search func(part plan.World, lo, hi int) (draft, Outcome)) Choice {
	layer := c.layer()
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
	c.each(len(others), func(i int) {
		if c.more != nil && !c.more() {
			return
		}
		other := &others[i]
		lo, hi := c.world.Tree.Nodes(other.Domain)
		var best draft
		if best, other.Outcome = search(c.part(other.Domain), lo, hi); other.Outcome == Possible {
			other.draft = c.original(best, lo)
			other.Cost = best.cost
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

// workInEach is how much a search may do in a domain for members that differ.
func (c *considering) workInEach() int {
	layer, domains := c.layer(), 0
	for d := topology.Root; int(d) < c.world.Tree.Len(); d++ {
		if c.world.Tree.Layer(d) == layer {
			domains++
		}
	}
	return max(mostJobWork/lastShare/domains, easyWork)
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

// part is the world of one domain: its nodes are those of the whole world, in the same
// order, and all above them are its own.
func (c *considering) part(d topology.ID) plan.World {
	t := c.world.Tree
	lo, hi := t.Nodes(d)
	nodes := make([]topology.Node, hi-lo)
	for i := range nodes {
		leaf := t.Node(lo + i)
		nodes[i] = topology.Node{Name: t.Name(leaf), Path: make([]string, t.Depth()-1)}
		for up := t.Parent(leaf); up != topology.Root; up = t.Parent(up) {
			nodes[i].Path[t.Layer(up)-1] = t.Name(up)
		}
	}
	return plan.World{
		Tree: topology.Build(t.LayerNames()[1:t.Depth()], nodes),
		Free: within(c.world.Free, lo, hi), Room: within(c.world.Room, lo, hi),
		Bound: within(c.world.Bound, lo, hi), Attract: within(c.world.Attract, lo, hi),
	}
}

// within cuts a slice by node index that may be nil.
func within(all []offer.Slots, lo, hi int) []offer.Slots {
	if all == nil {
		return nil
	}
	return all[lo:hi]
}

// original translates a draft on the part of the world that begins at node lo.
func (c *considering) original(d draft, lo int) draft {
	d.plan.Places = slices.Clone(d.plan.Places)
	for i := range d.plan.Places {
		d.plan.Places[i].Node += lo
	}
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
	return c.judge.Decide(&a.plan, &b.plan)
}

// newJudge prepares to compare plans. Room is what there is when all victims have gone.
func (c *considering) newJudge() *plan.Judge {
	w := c.world
	w.Room = make([]offer.Slots, w.Tree.NumNodes())
	for i := range w.Room {
		w.Room[i] = c.room(i)
	}
	return plan.NewJudge(w, plan.Request{Must: c.must, Prefer: c.prefer})
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
