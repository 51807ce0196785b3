package evict

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// move is the eviction of some victims of one node, together with their bundles.
type move struct {
	node       int // node index
	rank       int // of the node
	gone       []int
	price      Cost // cost added by the move when last priced
	slots      offer.Slots
	taken      int   // number of taken moves when last priced
	otherNodes []int // other nodes with victims of the move when last priced
}

// cheaper returns a negative number if m precedes o: by cost per slot, then more slots, then the rank of the node.
func (m *move) cheaper(o *move) int {
	perSlot := func(x, y int64) int { return cmp.Compare(x*int64(o.slots), y*int64(m.slots)) }
	return cmp.Or(
		perSlot(int64(m.price.Violations), int64(o.price.Violations)), perSlot(int64(m.price.Pods), int64(o.price.Pods)),
		perSlot(int64(m.price.Requeued), int64(o.price.Requeued)), cmp.Compare(m.price.Highest, o.price.Highest),
		perSlot(m.price.Sum, o.price.Sum), cmp.Compare(o.slots, m.slots), cmp.Compare(m.rank, o.rank), slices.Compare(m.gone, o.gone),
	)
}

// moves is a heap, the cheapest move first.
type moves []*move

func (m moves) Len() int           { return len(m) }
func (m moves) Less(i, j int) bool { return m[i].cheaper(m[j]) < 0 }
func (m moves) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moves) Push(x any)        { *m = append(*m, x.(*move)) }
func (m *moves) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	*m = (*m)[:last]
	return x
}

// growingSet is a victim set that grows move by move. A taken move is part of the set.
type growingSet struct {
	*domain
	picks []Pick
	cost  Cost          // without budgets that only several picks together exceed
	gone  map[int][]int // by node index
	lost  map[int]int   // by gang, evicted members
	whole map[int]bool
	slots map[int]offer.Slots // by node index, for nodes with victims
	taken int

	// Number of taken moves when victims were last added, by node index and by group. The price of a move changes only with its own
	// nodes and groups.
	changedNode, changedGroup []int
}

// greedy takes moves by cost per slot until the members fit. Near the end it also considers the cheapest single move that suffices. It
// returns the cheapest set found; ok is false if there is none.
func (d *domain) greedy(excluded func(Pick) bool) (picks []Pick, ok bool) {
	if d.stepsSpent {
		return nil, false
	}
	d.countCurrent()
	d.rankNodes()
	f := &growingSet{
		domain: d, gone: map[int][]int{}, lost: map[int]int{}, whole: map[int]bool{}, slots: map[int]offer.Slots{},
		changedNode: make([]int, len(d.Nodes)), changedGroup: make([]int, len(d.groups)),
	}
	movesOf := make([]moves, d.hi-d.lo)
	var open moves
	for _, bundled := range []bool{false, true} {
		nodes, indexOf := d.nodes(excluded, nil, bundled)
		for i := range nodes {
			for k := 1; k < len(nodes[i].Options); k++ {
				m := &move{node: d.lo + i, rank: d.rank[d.lo+i], gone: picked(indexOf[i], nodes[i].Options[k].Gone)}
				if slices.ContainsFunc(movesOf[i], func(o *move) bool { return slices.Equal(o.gone, m.gone) }) {
					continue
				}
				movesOf[i] = append(movesOf[i], m)
				if f.reprice(m) {
					open = append(open, m)
				}
			}
		}
	}
	heap.Init(&open)
	largest := offer.Slots(1)
	for _, m := range open {
		largest = max(largest, m.slots)
	}
	sum := d.sum
	var shorter []Pick // the cheapest set that ends with a move that suffices by itself
	var cost Cost      // cost of shorter
	for len(open) > 0 && !d.stepsSpent && sum < d.need {
		m := heap.Pop(&open).(*move)
		if f.stale(m) {
			if f.reprice(m) {
				heap.Push(&open, m)
			}
			continue
		}
		if lacking := d.need - sum; lacking <= largest {
			if last := f.lastMove(open, lacking); last != nil {
				if c := f.cost.Add(last.price); shorter == nil || c.Compare(cost) < 0 {
					shorter, cost = f.with(last), c
				}
			}
		}
		touched := f.take(m)
		sum += m.slots
		for _, i := range touched { // moves that share a bundle with this one now cost less
			if i < d.lo || i >= d.hi {
				continue
			}
			for _, m := range movesOf[i-d.lo] {
				if f.reprice(m) {
					copied := *m
					heap.Push(&open, &copied)
				}
			}
		}
	}
	var best victimSet
	for _, picks := range [][]Pick{f.picks, shorter} {
		if set, closed := d.closeWithin(picks); closed && d.takes(set.picks) && (!ok || set.cost.Compare(best.cost) < 0) {
			best, ok = set, true
		}
	}
	return best.picks, ok
}

// lastMove returns the cheapest move that frees so many slots by itself; nil if there is none.
func (f *growingSet) lastMove(open moves, slots offer.Slots) (cheapest *move) {
	for _, m := range open {
		if m.slots < slots || f.stale(m) && !f.reprice(m) || m.slots < slots {
			continue
		}
		if cheapest == nil || m.price.Compare(cheapest.price) < 0 {
			cheapest = m
		}
	}
	f.spend(len(open) / 8)
	return cheapest
}

// adds returns the victims that a move adds to the set, and the gangs that are evicted whole with them. ok is false if some of these
// gangs may not be evicted.
func (f *growingSet) adds(m *move) (picks []Pick, whole []int, ok bool) {
	var lost map[int]int
	picks = make([]Pick, 0, len(m.gone))
	for _, v := range m.gone {
		if slices.Contains(f.gone[m.node], v) {
			continue
		}
		p := Pick{m.node, v}
		picks = append(picks, p)
		if g := f.victim(p).Gang; g > 0 {
			if lost == nil {
				lost = map[int]int{}
			}
			lost[g]++
		}
	}
	for g, n := range lost {
		if f.whole[g] || f.lost[g]+n <= f.gangs[g-1].Spare {
			continue
		}
		members := make([]int, len(f.groups[f.groupOf[g]].numbers))
		for i, number := range f.groups[f.groupOf[g]].numbers {
			members[i] = f.lost[number] + lost[number]
		}
		for i, evicted := range bundle.Evicted(f.groups[f.groupOf[g]].gangs, members) {
			number := f.groups[f.groupOf[g]].numbers[i]
			if !evicted || f.whole[number] || slices.Contains(whole, number) {
				continue
			}
			if !f.gangs[number-1].Whole {
				return nil, nil, false
			}
			whole = append(whole, number)
		}
	}
	for _, g := range whole {
		for _, p := range f.members[g] {
			if !slices.Contains(f.gone[p.Node], p.Victim) && !slices.Contains(picks, p) {
				picks = append(picks, p)
			}
		}
	}
	return picks, whole, true
}

// stale returns whether a move's price may be wrong, because moves taken later share its nodes or groups.
func (f *growingSet) stale(m *move) bool {
	if m.taken == f.taken {
		return false
	}
	if f.changedNode[m.node] > m.taken {
		return true
	}
	for _, node := range m.otherNodes {
		if f.changedNode[node] > m.taken {
			return true
		}
	}
	victims := f.victims[m.node]
	for _, v := range m.gone {
		if g := victims[v].Gang; g > 0 && f.changedGroup[f.groupOf[g]] > m.taken {
			return true
		}
	}
	m.taken = f.taken
	return false
}

// reprice sets price and slots of a move: what it adds to the taken moves. It returns false if the move is forbidden or frees no slot.
func (f *growingSet) reprice(m *move) bool {
	f.spend(1)
	m.taken, m.otherNodes = f.taken, nil
	picks, whole, ok := f.adds(m)
	if !ok || len(picks) == 0 {
		return false
	}
	m.price, m.slots = Cost{}, 0
	for _, g := range whole {
		m.price = m.price.Add(f.gangs[g-1].Cost)
	}
	for _, p := range picks {
		if g := f.victim(p).Gang; g == 0 || !slices.Contains(whole, g) {
			m.price = m.price.Add(f.victim(p).cost())
		}
	}
	slices.SortFunc(picks, comparePicks)
	for len(picks) > 0 {
		i, gone := picks[0].Node, slices.Clone(f.gone[picks[0].Node])
		for ; len(picks) > 0 && picks[0].Node == i; picks = picks[1:] {
			gone = append(gone, picks[0].Victim)
		}
		if i != m.node {
			m.otherNodes = append(m.otherNodes, i)
		}
		if i >= f.lo && i < f.hi {
			m.slots += f.Nodes[i].Slots(sorted(gone)) - f.slotsOf(i)
		}
	}
	return m.slots > 0
}

// slotsOf returns the slots of a node after the taken moves.
func (f *growingSet) slotsOf(node int) offer.Slots {
	if n, known := f.slots[node]; known {
		return n
	}
	return f.current[node-f.lo]
}

// with returns the victims of the taken moves and of move m.
func (f *growingSet) with(m *move) []Pick {
	picks, _, _ := f.adds(m)
	return slices.Concat(f.picks, picks)
}

// take adds a move to the set, and returns the nodes with added victims: other moves may now cost less there.
func (f *growingSet) take(m *move) (nodes []int) {
	picks, whole, _ := f.adds(m)
	f.cost = f.cost.Add(m.price)
	f.taken++
	for _, g := range whole {
		f.whole[g] = true
	}
	f.picks = append(f.picks, picks...)
	for _, p := range picks {
		f.gone[p.Node] = append(f.gone[p.Node], p.Victim)
		if g := f.victim(p).Gang; g > 0 {
			f.lost[g]++
			f.changedGroup[f.groupOf[g]] = f.taken
		}
	}
	for _, i := range nodesOf(picks) {
		f.changedNode[i] = f.taken
		slices.Sort(f.gone[i])
		if i >= f.lo && i < f.hi {
			f.slots[i] = f.Nodes[i].Slots(f.gone[i])
		}
		nodes = append(nodes, i)
	}
	return nodes
}
