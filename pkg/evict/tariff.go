package evict

import (
	"iter"
	"math"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// tariff is what members cost on nodes, in the same prices everywhere.
type tariff struct {
	prices
	tree  *topology.Tree
	nodes []Node
	of    []charged // by node index
}

// charged is what members cost on a node, whoever leaves, and how that changes under a ceiling.
type charged struct {
	curve offer.Curve
	// highest is the highest priority of the victims of each step but the free one, if every option is a step and it
	// falls nowhere: then the curve under a ceiling is the first steps of this one. Else it is nil.
	highest []int32
}

func newTariff(t *topology.Tree, nodes []Node) *tariff {
	f := &tariff{prices: newPrices(nodes), tree: t, nodes: nodes, of: make([]charged, len(nodes))}
	m := offer.Maker{Width: f.width()}
	var highest []int32
	for i := range nodes {
		n := &nodes[i]
		f.of[i].curve = f.charge(&m, n, math.MaxInt32)
		if n.rises() {
			highest = withPlace(highest, len(n.Options), 4*pieceOfMaker)
			begin := len(highest)
			for k := range n.Options[1:] {
				highest = append(highest, n.Options[1+k].Cost.Highest)
			}
			f.of[i].highest = highest[begin:len(highest):len(highest)]
		}
	}
	return f
}

// rises says whether each option is enough for more members than the one before, and its highest priority no lower.
func (n *Node) rises() bool {
	for k := 1; k < len(n.Options); k++ {
		o, before := &n.Options[k], &n.Options[k-1]
		if o.Slots <= before.Slots || k > 1 && o.Cost.Highest < before.Cost.Highest {
			return false
		}
	}
	return len(n.Options) > 0
}

// under is what members cost, by node index, without victims above the ceiling; on nodes that are below none of the
// domains nobody has a place.
func (f *tariff) under(ceiling int32, domains []topology.ID) []offer.Curve {
	out := make([]offer.Curve, len(f.nodes))
	m := offer.Maker{Width: f.width()}
	nobody := offer.Free(0, m.Width)
	for i := range out {
		out[i] = nobody
	}
	for i := range below(f.tree, domains) {
		if !f.nodes[i].rises() {
			out[i] = f.charge(&m, &f.nodes[i], ceiling)
			continue
		}
		steps := f.of[i].highest
		for len(steps) > 0 && steps[len(steps)-1] > ceiling {
			steps = steps[:len(steps)-1]
		}
		out[i] = f.of[i].curve.First(1 + len(steps))
	}
	return out
}

// charge is what members cost on a node without victims above the ceiling.
func (f *tariff) charge(m *offer.Maker, n *Node, ceiling int32) offer.Curve {
	m.Begin(n.free(), len(n.Options))
	for i := range n.Options {
		if o := &n.Options[i]; o.Cost.under(ceiling) {
			m.Add(o.Slots, func(to []int64) []int64 { return f.add(to, o.Cost) })
		}
	}
	return m.End()
}

// roomy is the lowest of some ceilings under which one of the domains may have room for so many, at any price; the last if
// there is none.
func (f *tariff) roomy(ceilings []int32, domains []topology.ID, need offer.Slots) int {
	least := len(ceilings) - 1
	more := make([]offer.Slots, len(ceilings)) // than under the ceiling before
	for _, d := range domains {
		clear(more)
		for i := range below(f.tree, []topology.ID{d}) {
			f.nodes[i].addRoom(ceilings, more)
		}
		room := offer.Slots(0)
		for c := range least {
			if room += more[c]; room >= need {
				least = c
				break
			}
		}
	}
	return least
}

// addRoom adds to each ceiling how many more members the node takes than under the one before; where that is not
// easily seen, all that it ever takes to the lowest.
func (n *Node) addRoom(ceilings []int32, more []offer.Slots) {
	if !n.rises() {
		more[0] += n.Room
		return
	}
	more[0] += n.free()
	at := 0
	for k := 1; k < len(n.Options); k++ {
		for ceilings[at] < n.Options[k].Cost.Highest {
			at++
		}
		more[at] += n.Options[k].Slots - n.Options[k-1].Slots
	}
}

// everywhere is the domain of all nodes.
var everywhere = []topology.ID{topology.Root}

// below yields the nodes of some domains.
func below(t *topology.Tree, domains []topology.ID) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, d := range domains {
			for i, hi := t.Nodes(d); i < hi; i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}
