package evict

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Gang is a running gang of which members may be evicted. As long as no more than Spare
// of them leave, the rest is still a gang; if more do, all must.
type Gang struct {
	Spare int
	// Whole says that all of them may be evicted; Cost is what that costs, with those that
	// run on none of the nodes.
	Whole bool
	Cost  Cost
}

// RawNode is a node before anybody asked what it would take.
type RawNode struct {
	Victims []Victim
	// Slots is as for NewNode.
	Slots func(gone []int) offer.Slots
}

// ChooseAmongGangs is Choose where victims may belong to running gangs, which leave
// whole or by no more than they can spare. nodes is by node index.
func ChooseAmongGangs(w plan.World, r plan.Request, nodes []RawNode, gangs []Gang) *Eviction {
	plain := make([]Node, len(nodes))
	for i, n := range nodes {
		plain[i] = n.node(r.Want, branch{}, i)
	}
	s := branches{gangs: gangs, victims: func(i int) []Victim { return nodes[i].Victims }, nodes: len(nodes)}
	var last, best *Eviction
	s.choose(func(b branch) (Cost, []Pick, bool) {
		now := slices.Clone(plain)
		for i := range s.touched(b) {
			now[i] = nodes[i].node(r.Want, b, i)
			now[i].Room = plain[i].Room // whoever leaves in this branch
		}
		e := chooseAbove(w, r, now, s.floor(b))
		if e == nil {
			return Cost{}, nil, false
		}
		e.Victims = s.original(b, e.Victims)
		last = e
		return e.Cost, e.Victims, true
	}, func(cost Cost, picks []Pick) {
		best = last
		best.Cost, best.Victims = cost, picks
	})
	return best
}

// node asks what the node takes in a branch.
func (n RawNode) node(most offer.Slots, b branch, i int) Node {
	left, gone := b.split(i, n.Victims)
	return NewNode(pick(n.Victims, left), most, func(out []int) offer.Slots { return n.Slots(union(gone, left, out)) })
}

// ChooseJobAmongGangs is ChooseAmongGangs for members that differ.
func ChooseJobAmongGangs(w plan.JobWorld, j plan.Job, nodes []JobNode, gangs []Gang) (best *JobEviction, exact bool) {
	var last *JobEviction
	s := branches{gangs: gangs, victims: func(i int) []Victim { return nodes[i].Victims }, nodes: len(nodes)}
	exact = true
	s.choose(func(b branch) (Cost, []Pick, bool) {
		now := slices.Clone(nodes)
		for i := range s.touched(b) {
			left, gone := b.split(i, nodes[i].Victims)
			now[i] = JobNode{Victims: pick(nodes[i].Victims, left), Take: func(out []int, load []offer.Slots, kind int) offer.Slots {
				return nodes[i].Take(union(gone, left, out), load, kind)
			}}
		}
		e, ok := chooseJobAbove(w, j, now, s.floor(b))
		exact = exact && ok
		if e == nil {
			return Cost{}, nil, false
		}
		e.Victims = s.original(b, e.Victims)
		last = e
		return e.Cost, e.Victims, true
	}, func(cost Cost, picks []Pick) {
		best = last
		best.Cost, best.Victims = cost, picks
	})
	return best, exact
}

// branch is a part of all sets of victims: those gangs leave whole, and those pods stay.
type branch struct {
	whole map[int]bool
	stay  map[Pick]bool
}

// split says, of a node's victims, who may still be chosen and who has left.
func (b branch) split(node int, victims []Victim) (left, gone []int) {
	for v, victim := range victims {
		switch {
		case victim.Gang > 0 && b.whole[victim.Gang]:
			gone = append(gone, v)
		case !b.stay[Pick{node, v}]:
			left = append(left, v)
		}
	}
	return left, gone
}

func pick(victims []Victim, some []int) []Victim {
	out := make([]Victim, len(some))
	for i, v := range some {
		out[i] = victims[v]
	}
	return out
}

// union is gone and those of left that out names.
func union(gone, left, out []int) []int {
	all := slices.Clone(gone)
	for _, v := range out {
		all = append(all, left[v])
	}
	return sorted(all)
}

// branches looks for the cheapest set of victims that treats gangs as whole, by branch
// and bound: the cheapest set that knows no gangs costs no more than any other; where it
// leaves a gang with too few, either all of it goes, or one of those that it names stays (all
// of the gang, if it can spare nobody).
type branches struct {
	gangs   []Gang
	victims func(node int) []Victim
	nodes   int
}

// mostBranches bounds the searches.
const mostBranches = 64

type result struct {
	branch
	cost  Cost
	picks []Pick
}

// choose looks into branches, cheapest first, until the cheapest that is left holds. It
// looks into that one last, and hands over its cost and victims, gangs that leave whole
// included. If there are too many branches, it tries two more: no gang is touched, or
// every gang leaves whole of which somebody would.
func (s branches) choose(look func(branch) (Cost, []Pick, bool), found func(Cost, []Pick)) {
	var open []result
	var seen int
	try := func(b branch) {
		seen++
		if cost, picks, ok := look(b); ok {
			for g := range b.whole {
				cost = cost.Add(s.gangs[g-1].Cost)
			}
			open = append(open, result{b, cost, picks})
		}
	}
	finish := func(r result) {
		if _, _, ok := look(r.branch); ok {
			found(r.cost, s.all(r))
		}
	}
	tried := map[string]bool{} // the same pods may be told to stay in another order
	tryOnce := func(b branch) {
		if name := fmt.Sprint(b); !tried[name] {
			tried[name] = true
			try(b)
		}
	}
	try(branch{})
	for len(open) > 0 && seen < mostBranches {
		slices.SortStableFunc(open, func(a, b result) int { return a.cost.Compare(b.cost) })
		r := open[0]
		open = open[1:]
		g, named := s.broken(r)
		if g == 0 {
			finish(r)
			return
		}
		if s.mayLeave(g, r.branch) {
			tryOnce(r.with(g))
		}
		if s.gangs[g-1].Spare == 0 {
			tryOnce(r.without(s.members(g)...))
			continue
		}
		for _, p := range named {
			tryOnce(r.without(p))
		}
	}
	if len(open) == 0 {
		return
	}
	s.giveUp(open[0], try, func() []result { return open }, finish)
}

// giveUp takes the cheaper of two sets that are easy to find.
func (s branches) giveUp(r result, try func(branch), open func() []result, finish func(result)) {
	var sets []result
	before := len(open())
	nobody := branch{stay: map[Pick]bool{}}
	for i := range s.nodes {
		for v, victim := range s.victims(i) {
			if victim.Gang > 0 {
				nobody.stay[Pick{i, v}] = true
			}
		}
	}
	try(nobody)
	sets = append(sets, open()[before:]...)
	for {
		g, named := s.broken(r)
		if g == 0 {
			sets = append(sets, r)
			break
		}
		before = len(open())
		if s.gangs[g-1].Whole {
			try(r.with(g))
		} else {
			try(r.without(named[0]))
		}
		if len(open()) == before {
			break
		}
		r = open()[before]
	}
	if len(sets) > 0 {
		finish(slices.MinFunc(sets, func(a, b result) int { return a.cost.Compare(b.cost) }))
	}
}

func (b branch) with(gang int) branch {
	whole := maps.Clone(b.whole)
	if whole == nil {
		whole = map[int]bool{}
	}
	whole[gang] = true
	return branch{whole, b.stay}
}

func (b branch) without(some ...Pick) branch {
	stay := maps.Clone(b.stay)
	if stay == nil {
		stay = map[Pick]bool{}
	}
	for _, p := range some {
		stay[p] = true
	}
	return branch{b.whole, stay}
}

// mayLeave says whether a gang may leave whole in a branch: nobody of it stays.
func (s branches) mayLeave(gang int, b branch) bool {
	return s.gangs[gang-1].Whole && !slices.ContainsFunc(s.members(gang), func(p Pick) bool { return b.stay[p] })
}

// members lists a gang's members on the nodes.
func (s branches) members(gang int) (all []Pick) {
	for i := range s.nodes {
		for v, victim := range s.victims(i) {
			if victim.Gang == gang {
				all = append(all, Pick{i, v})
			}
		}
	}
	return all
}

// broken returns a gang of which too many would leave, and who; 0 if there is none.
func (s branches) broken(r result) (gang int, named []Pick) {
	by := map[int][]Pick{}
	for _, p := range r.picks {
		if g := s.victims(p.Node)[p.Victim].Gang; g > 0 && !r.whole[g] {
			by[g] = append(by[g], p)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(by)) {
		if len(by[g]) > s.gangs[g-1].Spare && !s.isAll(g, len(by[g])) {
			return g, by[g]
		}
	}
	return 0, nil
}

// isAll says whether so many are all members of a gang.
func (s branches) isAll(gang, n int) bool {
	g := s.gangs[gang-1]
	return g.Whole && n == g.Cost.Pods
}

// all names the victims, those of whole gangs included.
func (s branches) all(r result) []Pick {
	picks := slices.Clone(r.picks)
	for i := range s.nodes {
		for v, victim := range s.victims(i) {
			if r.whole[victim.Gang] {
				picks = append(picks, Pick{i, v})
			}
		}
	}
	slices.SortFunc(picks, func(a, b Pick) int { return slices.Compare([]int{a.Node, a.Victim}, []int{b.Node, b.Victim}) })
	return picks
}

// touched lists the nodes on which a branch makes a difference.
func (s branches) touched(b branch) map[int]bool {
	nodes := map[int]bool{}
	for p := range b.stay {
		nodes[p.Node] = true
	}
	for i := range s.nodes {
		for _, v := range s.victims(i) {
			if b.whole[v.Gang] {
				nodes[i] = true
			}
		}
	}
	return nodes
}

// original translates picks of a branch into picks of all victims.
func (s branches) original(b branch, picks []Pick) []Pick {
	out := make([]Pick, len(picks))
	for i, p := range picks {
		left, _ := b.split(p.Node, s.victims(p.Node))
		out[i] = Pick{p.Node, left[p.Victim]}
	}
	return out
}

// floor is the highest priority of those that leave in any case: below it a ceiling
// makes no difference.
func (s branches) floor(b branch) int32 {
	floor := int32(math.MinInt32)
	for g := range b.whole {
		floor = max(floor, s.gangs[g-1].Cost.Highest)
	}
	return floor
}
