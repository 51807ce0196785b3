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
type Rule string

// Rules, in the order in which they are asked.
const (
	Alone        Rule = "alone"           // no other domain is known to be possible
	ByBudgets    Rule = "budgets"         // fewest violated disruption budgets
	ByPods       Rule = "pods"            // fewest pods evicted
	ByHighest    Rule = "highestPriority" // lowest highest victim priority
	BySum        Rule = "sum"             // lowest sum of priorities
	ByMembers    Rule = "members"         // most members placed
	ByDepth      Rule = "depth"           // deepest domain that holds them all
	ByWishes     Rule = "wishes"          // fewest domains of the PreferGather layers
	ByAttraction Rule = "attraction"      // most attracting pods
	ByBinpack    Rule = "binpack"         // least room
	ByNames      Rule = "names"
	ByOrder      Rule = "order"   // package plan's order, of members that differ in whom they gather with
	NotAll       Rule = "not all" // not all ways were tried: the next best would have been better
)

// Patience says whether there is time to look into one domain more. Those that are left
// then are Untried. Nil is endless.
type Patience func() bool

// Consider explains what Choose found, from the same input.
func Consider(w plan.World, r plan.Request, nodes []Node, found *Eviction) Choice {
	c := considering{world: w, must: r.Must, prefer: r.Prefer, room: func(i int) offer.Slots { return nodes[i].Room }}
	return c.like(found, func(part plan.World, lo, hi int) *Eviction { return Choose(part, r, nodes[lo:hi]) })
}

// ConsiderAmongGangs explains what ChooseAmongGangs found, from the same input. All
// domains together take about as long as the search; where there are gangs, perhaps longer.
func ConsiderAmongGangs(w plan.World, r plan.Request, nodes []RawNode, gangs []Gang, found *Eviction, more Patience) Choice {
	c := considering{world: w, must: r.Must, prefer: r.Prefer, more: more}
	c.room = func(i int) offer.Slots { return nodes[i].Slots(indexes(len(nodes[i].Victims))) }
	return c.like(found, func(part plan.World, lo, hi int) *Eviction {
		return ChooseAmongGangs(part, r, nodes[lo:hi], gangs)
	})
}

// like is choice for members that need the same.
func (c *considering) like(found *Eviction, search func(part plan.World, lo, hi int) *Eviction) Choice {
	told := func(e *Eviction) draft {
		return draft{domain: e.Plan.Domain, places: e.Plan.Places, cost: e.Cost, full: true}
	}
	return c.choice(told(found), func(part plan.World, lo, hi int) (d draft, o Outcome) {
		e := search(part, lo, hi)
		if e == nil {
			return d, Impossible
		}
		return told(e), Possible
	})
}

// ConsiderJobAmongGangs explains what ChooseJobAmongGangs found, from the same input.
func ConsiderJobAmongGangs(w plan.JobWorld, j plan.Job, nodes []JobNode, gangs []Gang, found *JobEviction, more Patience) Choice {
	c := considering{world: w.World, must: j.All.Must, prefer: j.All.Prefer, more: more}
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
		d := draft{domain: e.Plan.Domain, cost: e.Cost, full: len(e.Plan.Puts) == members && len(j.Each.Prefer) == 0}
		for _, put := range e.Plan.Puts {
			d.places = append(d.places, plan.Place{Node: put.Node, Count: 1})
		}
		return d
	}
	return c.choice(told(found), func(part plan.World, lo, hi int) (d draft, o Outcome) {
		jobPart := j
		jobPart.Gangs = slices.Clone(j.Gangs)
		for g := range j.Gangs {
			jobPart.Gangs[g].Bound = within(j.Gangs[g].Bound, lo, hi)
		}
		e, exact := ChooseJobAmongGangs(plan.JobWorld{World: part}, jobPart, nodes[lo:hi], gangs)
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
	prefer []int
	room   func(node int) offer.Slots // with every victim gone
	more   Patience

	rooms, attract, bound []offer.Slots // by ID
}

// draft is an eviction and the plan that follows, as far as the rules compare them.
type draft struct {
	domain topology.ID // the deepest that holds all members
	places []plan.Place
	cost   Cost
	full   bool // the rules for like members tell all that there is to tell
}

type considered struct {
	Considered
	row []step
}

// step is what a rule compares, the lower the better.
type step struct {
	rule  Rule
	value int64
}

// choice searches in every domain but the winner's as if there were no others.
func (c *considering) choice(found draft, search func(part plan.World, lo, hi int) (draft, Outcome)) Choice {
	layer := c.layer()
	c.bound, c.attract = sum(c.world.Tree, c.world.Bound), sum(c.world.Tree, c.world.Attract)
	winner := considered{Considered{Domain: topology.Root, Cost: found.cost}, c.row(found)}
	if c.world.Tree.Layer(found.domain) >= layer {
		winner.Domain = c.world.Tree.Ancestor(found.domain, layer)
	}
	var others []considered
	for d := topology.Root; int(d) < c.world.Tree.Len(); d++ {
		if c.world.Tree.Layer(d) != layer || d == winner.Domain || c.bound[d] < c.bound[topology.Root] {
			continue // the members must be with those that are bound
		}
		others = append(others, considered{Considered: Considered{Domain: d, Outcome: Untried}})
		if c.more != nil && !c.more() {
			continue
		}
		other := &others[len(others)-1]
		lo, hi := c.world.Tree.Nodes(d)
		var best draft
		if best, other.Outcome = search(c.part(d), lo, hi); other.Outcome == Possible {
			best = c.original(best, lo)
			other.Cost, other.row = best.cost, c.row(best)
		}
	}
	slices.SortStableFunc(others, func(a, b considered) int {
		return cmp.Or(cmp.Compare(a.Outcome, b.Outcome), slices.CompareFunc(a.row, b.row, compareSteps))
	})
	choice := Choice{Considered: []Considered{winner.Considered}, Rule: Alone}
	for _, o := range others {
		choice.Considered = append(choice.Considered, o.Considered)
	}
	if len(others) > 0 && others[0].Outcome == Possible {
		choice.Rule = decided(winner.row, others[0].row)
	}
	return choice
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
	d.places = slices.Clone(d.places)
	for i := range d.places {
		d.places[i].Node += lo
	}
	d.domain = c.world.Tree.Node(d.places[0].Node)
	for _, at := range d.places {
		d.domain = c.world.Tree.Common(d.domain, c.world.Tree.Node(at.Node))
	}
	for c.bound[d.domain] < c.bound[topology.Root] {
		d.domain = c.world.Tree.Parent(d.domain)
	}
	return d
}

// row is what the rules compare, in their order.
func (c *considering) row(d draft) []step {
	t := c.world.Tree
	members := offer.Slots(0)
	for _, at := range d.places {
		members += at.Count
	}
	row := []step{
		{ByBudgets, int64(d.cost.Violations)},
		{ByPods, int64(d.cost.Pods)},
		{ByHighest, int64(d.cost.Highest)},
		{BySum, d.cost.Sum},
		{ByMembers, -int64(members)},
	}
	if !d.full {
		return row
	}
	row = append(row, step{ByDepth, -int64(t.Layer(d.domain))})
	for _, l := range slices.Compact(slices.Sorted(slices.Values(c.prefer))) {
		touched := map[topology.ID]bool{}
		for _, at := range d.places {
			if up := t.Ancestor(t.Node(at.Node), l); c.bound[up] == 0 {
				touched[up] = true
			}
		}
		row = append(row, step{ByWishes, int64(len(touched))})
	}
	for l := t.Layer(d.domain); l >= 0; l-- {
		row = append(row, step{ByAttraction, -int64(c.attract[t.Ancestor(d.domain, l)])})
	}
	for l := t.Layer(d.domain); l >= 0; l-- {
		row = append(row, step{ByBinpack, int64(c.roomIn(t.Ancestor(d.domain, l)))})
	}
	return append(row, step{ByNames, int64(d.domain)})
}

// roomIn is the room in a domain when all victims have gone.
func (c *considering) roomIn(d topology.ID) offer.Slots {
	if c.rooms == nil {
		nodes := make([]offer.Slots, c.world.Tree.NumNodes())
		for i := range nodes {
			nodes[i] = c.room(i)
		}
		c.rooms = offer.Sum(c.world.Tree, nodes)
	}
	return c.rooms[d]
}

// sum is offer.Sum, also of nothing.
func sum(t *topology.Tree, nodes []offer.Slots) []offer.Slots {
	if nodes == nil {
		return make([]offer.Slots, t.Len())
	}
	return offer.Sum(t, nodes)
}

func compareSteps(a, b step) int { return cmp.Compare(a.value, b.value) }

// decided is the first rule by which the winner is better.
func decided(winner, other []step) Rule {
	for i := range min(len(winner), len(other)) {
		switch w, o := winner[i], other[i]; {
		case w.value < o.value:
			return w.rule
		case w.value > o.value && slices.Contains([]Rule{ByBudgets, ByPods, ByHighest, BySum}, w.rule):
			return NotAll
		case w.value > o.value:
			return ByOrder
		}
	}
	return ByOrder
}
