package evict

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// rankNodes sets nodeOptions, once for all domains, and rank. Package plan breaks ties by the order of the tree, so the search sorts its
// trees by rank. Nodes without a helpful victim come last. The other nodes are compared by their cheapest victims: first victims on which
// no gang depends (Victim.Leads), then the least released capacity. Next come younger victims, then higher ranks in the gang (Victim.Rank),
// then the order of the tree. This is exact for single victims, and a heuristic for sets.
func (s *search) rankNodes() {
	if s.nodeOptions != nil {
		return
	}
	s.nodeOptions, _ = (&domain{search: s, hi: len(s.Nodes)}).nodes(nil, nil, false)
	type key struct {
		free     bool // no victim helps on this node
		leads    bool // the gang of a victim depends on it
		released int64
		started  int64
		rank     int // the lowest Victim.Rank; higher ones are evicted first
	}
	keys := make([]key, len(s.Nodes))
	for i := range s.nodeOptions {
		k := &keys[i]
		if k.free = len(s.nodeOptions[i].Options) < 2; k.free {
			continue
		}
		k.started, k.rank = math.MaxInt64, math.MaxInt
		for _, v := range s.nodeOptions[i].Options[1].Gone {
			victim := &s.nodeOptions[i].Victims[v]
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
		return cmp.Or(cmp.Compare(btoi(a.free), btoi(b.free)), cmp.Compare(btoi(a.leads), btoi(b.leads)),
			cmp.Compare(a.released, b.released), cmp.Compare(b.started, a.started), cmp.Compare(b.rank, a.rank))
	})
	s.rank = make([]int, len(order))
	for position, i := range order {
		s.rank[i] = position
	}
}

// arranged returns the world of one domain with its nodes sorted by rank. index is, for each node of w, its index in the whole tree.
func (s *search) arranged(id topology.ID) (w plan.World, index []int) {
	s.rankNodes()
	t := s.World.Tree
	lo, hi := t.Nodes(id)
	first := map[topology.ID]int{} // the lowest rank in a domain
	for i := lo; i < hi; i++ {
		for parent := t.Parent(t.Node(i)); parent != topology.Root; parent = t.Parent(parent) {
			if rank, known := first[parent]; !known || s.rank[i] < rank {
				first[parent] = s.rank[i]
			}
		}
	}
	nodes := make([]topology.Node, hi-lo)
	nodeOfRank := make(map[int]int, hi-lo) // node index, by rank
	for i := lo; i < hi; i++ {
		n := topology.Node{Name: strconv.Itoa(s.rank[i]), Path: make([]string, t.Depth()-1)}
		for parent := t.Parent(t.Node(i)); parent != topology.Root; parent = t.Parent(parent) {
			n.Path[t.Layer(parent)-1] = strconv.Itoa(first[parent])
		}
		nodes[i-lo], nodeOfRank[s.rank[i]] = n, i
	}
	w.Tree = topology.Build(t.LayerNames()[1:t.Depth()], nodes)
	index = make([]int, hi-lo)
	for k := range index {
		rank, _ := strconv.Atoi(w.Tree.NodeName(k))
		index[k] = nodeOfRank[rank]
	}
	w.Capacity = pick(s.World.Capacity, index)
	w.Bound = pick(s.World.Bound, index)
	w.Attract = pick(s.World.Attract, index)
	w.Penalty = pick(s.World.Penalty, index)
	return w, index
}

// pick returns the elements of a slice at some indexes; nil for a nil slice.
func pick[T any](all []T, index []int) []T {
	if all == nil {
		return nil
	}
	out := make([]T, len(index))
	for k, i := range index {
		out[k] = all[i]
	}
	return out
}
