package evict

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Where costs and plans are equal, package plan takes the first domain and node of the tree. Trees that the search plans in are
// therefore in the order in which nodes are rather taken: by what their cheapest victims release, the younger ones first, then by
// name. For single victims this is exact; for sets on several nodes it is near.

// ask asks each node what it takes without some of its victims, once for all domains, and ranks the nodes.
func (s *search) ask() {
	if s.asked != nil {
		return
	}
	s.asked, _ = (&domain{search: s, hi: len(s.Nodes)}).nodes(nil, nil, false)
	type key struct {
		free     bool // of victims
		leads    bool
		released int64
		started  int64
		rank     int
	}
	keys := make([]key, len(s.Nodes))
	for i := range s.asked {
		k := &keys[i]
		if k.free = len(s.asked[i].Options) < 2; k.free {
			continue
		}
		k.started, k.rank = math.MaxInt64, math.MaxInt
		for _, v := range s.asked[i].Options[1].Gone {
			victim := &s.asked[i].Victims[v]
			k.leads = k.leads || victim.Leads
			k.started, k.rank = min(k.started, victim.second()), min(k.rank, victim.Rank)
			if g := victim.Gang; g > 0 && s.gangs[g-1].Spare == 0 {
				k.released += s.gangs[g-1].Cost.Released
			} else {
				k.released += victim.Size
			}
		}
	}
	order := indexes(len(s.Nodes))
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := keys[x], keys[y]
		return cmp.Or(cmp.Compare(btoi(a.free), btoi(b.free)), cmp.Compare(btoi(a.leads), btoi(b.leads)), cmp.Compare(a.released, b.released), cmp.Compare(b.started, a.started), cmp.Compare(b.rank, a.rank))
	})
	s.rank = make([]int, len(order))
	for place, i := range order {
		s.rank[i] = place
	}
}

// arranged returns the world of one domain, in which nodes and domains are in the order of their ranks. at is the index in the whole
// tree of each of its nodes.
func (s *search) arranged(id topology.ID) (w plan.World, at []int) {
	s.ask()
	t := s.World.Tree
	lo, hi := t.Nodes(id)
	first := map[topology.ID]int{} // the lowest rank in a domain
	for i := lo; i < hi; i++ {
		for up := t.Parent(t.Node(i)); up != topology.Root; up = t.Parent(up) {
			if rank, known := first[up]; !known || s.rank[i] < rank {
				first[up] = s.rank[i]
			}
		}
	}
	nodes := make([]topology.Node, hi-lo)
	of := make(map[int]int, hi-lo) // node index, by rank
	for i := lo; i < hi; i++ {
		n := topology.Node{Name: strconv.Itoa(s.rank[i]), Path: make([]string, t.Depth()-1)}
		for up := t.Parent(t.Node(i)); up != topology.Root; up = t.Parent(up) {
			n.Path[t.Layer(up)-1] = strconv.Itoa(first[up])
		}
		nodes[i-lo], of[s.rank[i]] = n, i
	}
	w.Tree = topology.Build(t.LayerNames()[1:t.Depth()], nodes)
	at = make([]int, hi-lo)
	for k := range at {
		rank, _ := strconv.Atoi(w.Tree.NodeName(k))
		at[k] = of[rank]
	}
	w.Room, w.Bound, w.Attract = pick(s.World.Room, at), pick(s.World.Bound, at), pick(s.World.Attract, at)
	w.Penalty = pick(s.World.Penalty, at)
	return w, at
}

// pick returns the elements at some indexes of a slice that may be nil.
func pick[T any](all []T, at []int) []T {
	if all == nil {
		return nil
	}
	out := make([]T, len(at))
	for k, i := range at {
		out[k] = all[i]
	}
	return out
}
