package evict

import (
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Gang is a running gang of which members may be evicted. As long as no more than Spare
// of them leave, the rest is still a gang; if more do, all must, and with them all gangs of
// its group, unless those may run on without.
type Gang struct {
	// Gangs of whose members nobody may be evicted must be listed, too, where others of their group are.
	bundle.Gang
	// Whole says that all of them may be evicted; Cost is what that costs, with those that
	// run on none of the nodes: the sum of CostOf.
	Whole bool
	Cost  Cost
	// Budgets are those of all members, one after the other: a budget is in it as often as
	// members count towards it.
	Budgets []Budget
}

// Bundles returns the gangs as package bundle sees them.
func Bundles(gangs []Gang) []bundle.Gang {
	out := make([]bundle.Gang, len(gangs))
	for i, g := range gangs {
		out[i] = g.Gang
	}
	return out
}

// RawNode is a node before anybody asked what it would take.
type RawNode struct {
	Victims []Victim
	// Slots is as for NewNode.
	Slots func(gone []int) offer.Slots
}

// ChooseAmongGangs is Choose where victims may belong to running gangs, which leave
// whole or by no more than they can spare, and may share budgets. nodes is by node index.
// If there is none, exact says that there can be none; else not all ways were tried.
func ChooseAmongGangs(w plan.World, r plan.Request, nodes []RawNode, gangs []Gang) (e *Eviction, exact bool) {
	return chooseAmongGangs(w, r, nodes, gangs, branchesFor(len(nodes)))
}

func chooseAmongGangs(w plan.World, r plan.Request, nodes []RawNode, gangs []Gang, most int) (e *Eviction, exact bool) {
	e, tied, exact := searchAmongGangs(w, r, nodes, gangs, most)
	if !tied {
		return e, exact
	}
	// How a branch fills a domain depends on who stays in it, so sets that lead to the plan
	// may have come behind others in theirs. Where there is room for nothing else they do not.
	only := make([]RawNode, len(nodes))
	for i, n := range nodes {
		only[i] = RawNode{Victims: n.Victims, Slots: func([]int) offer.Slots { return 0 }}
	}
	for _, at := range e.Plan.Places {
		only[at.Node].Slots = func(gone []int) offer.Slots { return min(nodes[at.Node].Slots(gone), at.Count) }
	}
	exactly := plan.Request{Want: e.Plan.Count(), Min: e.Plan.Count(), Must: r.Must, Multiple: r.Multiple}
	if other, _, _ := searchAmongGangs(w, exactly, only, gangs, most); other != nil && other.Cost == e.Cost && leadsTo(w, r, nodes, other.Victims, e.Plan) {
		e.Victims = other.Victims
	}
	return e, true
}

// leadsTo says whether a plan follows when some victims have left.
func leadsTo(w plan.World, r plan.Request, nodes []RawNode, victims []Pick, p *plan.Plan) bool {
	gone := make([][]int, len(nodes))
	for _, at := range victims {
		gone[at.Node] = append(gone[at.Node], at.Victim)
	}
	w.Free, w.Room = make([]offer.Slots, len(nodes)), make([]offer.Slots, len(nodes))
	for i, n := range nodes {
		w.Free[i], w.Room[i] = n.Slots(gone[i]), n.Slots(indexes(len(n.Victims)))
	}
	follows, _ := plan.Choose(w, r)
	return follows != nil && follows.Domain == p.Domain && slices.Equal(follows.Places, p.Places)
}

// searchAmongGangs looks for the first eviction; tied says that there are others at its cost, and
// exact that there is none if none was found.
func searchAmongGangs(w plan.World, r plan.Request, nodes []RawNode, gangs []Gang, most int) (e *Eviction, tied, exact bool) {
	victims := make([][]Victim, len(nodes))
	for i, n := range nodes {
		victims[i] = n.Victims
	}
	s := newBranches[*plan.Plan](gangs, victims, most)
	nodes, w.Room = withRoom(nodes)
	if !possible(w, r, nodes, s.start) {
		return nil, false, true
	}
	plain, m := make([]Node, len(nodes)), &nodeMaker{piece: pieceOfMaker}
	for i, n := range nodes {
		plain[i] = n.node(m, r.Want, s.start, i)
		plain[i].Room = w.Room[i]
	}
	var shared *memory // from the second look on: mostly there is none
	looked := false
	s.guessed = slices.ContainsFunc(plain, func(n Node) bool { return n.guessed != nil })
	s.look = func(b branch) (picks []Pick, p *plan.Plan, ok bool) {
		now := slices.Clone(plain)
		changed := slices.Sorted(maps.Keys(s.touched(b)))
		for _, i := range changed {
			now[i] = nodes[i].node(m, r.Want, b, i)
			now[i].Room = w.Room[i] // whoever leaves in this branch
		}
		if looked && shared == nil {
			shared = newMemory(w.Tree, plain)
		}
		looked = true
		e := chooseAbove(w, r, now, s.floor(b), shared, changed)
		if e == nil {
			return nil, nil, false
		}
		return e.Victims, e.Plan, true
	}
	s.compare = func(a, b *plan.Plan) int { return plan.Compare(w, r, a, b) }
	found := s.choose()
	if found == nil {
		return nil, false, !s.gaveUp
	}
	return &Eviction{Plan: found.plan, Cost: found.cost, Victims: s.all(found)}, s.tied, true
}

// withRoom asks what nodes take when all victims have gone, once for all.
func withRoom(nodes []RawNode) (asked []RawNode, room []offer.Slots) {
	asked, room = slices.Clone(nodes), make([]offer.Slots, len(nodes))
	most := 0
	for _, n := range nodes {
		most = max(most, len(n.Victims))
	}
	everybody := indexes(most)
	for i, n := range nodes {
		room[i] = n.Slots(everybody[:len(n.Victims)])
		asked[i].Slots = func(gone []int) offer.Slots {
			if len(gone) == len(n.Victims) {
				return room[i]
			}
			return n.Slots(gone)
		}
	}
	return asked, room
}

// possible asks the sums, before any search: whether there is a plan when every victim has
// gone that may leave in a branch.
func possible(w plan.World, r plan.Request, nodes []RawNode, b branch) bool {
	w.Free = make([]offer.Slots, len(nodes))
	for i, n := range nodes {
		if w.Free[i] = w.Room[i]; !b.leaves(i, n.Victims) {
			left, _ := b.split(i, n.Victims)
			w.Free[i] = n.Slots(left)
		}
	}
	return plan.NewSearch(w, r, 0, nil).Possible()
}

// node asks what the node takes in a branch.
func (n RawNode) node(m *nodeMaker, most offer.Slots, b branch, i int) Node {
	if b.leaves(i, n.Victims) {
		return m.node(n.Victims, most, n.Slots)
	}
	left, gone := b.split(i, n.Victims)
	return NewNode(b.pick(n.Victims, left), most, func(out []int) offer.Slots { return n.Slots(union(gone, left, out)) })
}

// possibleJob is possible for members that differ; where only a search can tell, it says
// that there may be a plan.
func possibleJob(w plan.JobWorld, j plan.Job, nodes []JobNode, b branch) bool {
	if w.Take = nil; !plan.Possible(w, j) {
		return false // whoever leaves
	}
	gone := make([][]int, len(nodes))
	for i, n := range nodes {
		gone[i], _ = b.split(i, n.Victims)
	}
	w.Take = func(node int, load []offer.Slots, kind int) offer.Slots {
		return nodes[node].Take(gone[node], load, kind)
	}
	return plan.Possible(w, j)
}

// ChooseJobAmongGangs is ChooseAmongGangs for members that differ.
func ChooseJobAmongGangs(w plan.JobWorld, j plan.Job, nodes []JobNode, gangs []Gang) (best *JobEviction, exact bool) {
	return chooseJobAmongGangs(w, j, nodes, gangs, branchesFor(len(nodes)), mostJobWork)
}

func chooseJobAmongGangs(w plan.JobWorld, j plan.Job, nodes []JobNode, gangs []Gang, most, work int) (best *JobEviction, exact bool) {
	victims := make([][]Victim, len(nodes))
	for i, n := range nodes {
		victims[i] = n.Victims
	}
	s := newBranches[*plan.JobPlan](gangs, victims, most)
	if !possibleJob(w, j, nodes, s.start) {
		return nil, true
	}
	s.guessed = slices.ContainsFunc(victims, func(here []Victim) bool {
		_, every := everySet(here)
		return !every
	})
	exact = true
	plain := slices.Clone(nodes)
	for at := range s.start.stay {
		plain[at.Node] = nodes[at.Node].node(s.start, at.Node)
	}
	shared := newJobMemory(plain, work)
	s.tired = shared.work.Spent
	s.rested = func() { shared.work.Allow(work / lastShare) }
	s.look = func(b branch) (picks []Pick, p *plan.JobPlan, ok bool) {
		now := slices.Clone(plain)
		changed := s.touched(b)
		for i := range changed {
			now[i] = nodes[i].node(b, i)
		}
		e, ok := chooseJobAbove(w, j, now, s.floor(b), shared, changed)
		exact = exact && ok
		if e == nil {
			return nil, nil, false
		}
		return e.Victims, e.Plan, true
	}
	s.compare = func(a, b *plan.JobPlan) int { return plan.CompareJob(w, j, a, b) }
	found := s.choose()
	if found == nil {
		return nil, exact && !s.gaveUp
	}
	return &JobEviction{Plan: found.plan, Cost: found.cost, Victims: s.all(found)}, exact
}

// node is what is left of the node in a branch.
func (n JobNode) node(b branch, i int) JobNode {
	left, gone := b.split(i, n.Victims)
	return JobNode{Victims: b.pick(n.Victims, left), Take: func(out []int, load []offer.Slots, kind int) offer.Slots {
		return n.Take(union(gone, left, out), load, kind)
	}}
}
