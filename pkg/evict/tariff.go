package evict

import (
	"iter"
	"math"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// tariff is the cost of members on each node. Equal costs have equal prices on all nodes.
type tariff struct {
	prices
	tree    *topology.Tree
	nodes   []Node
	charges []nodeCharge // by node index
}

// charged is the cost of members on a node without a ceiling, and how a ceiling changes it.
type nodeCharge struct {
	curve offer.Curve
	// highest is the highest victim priority of each step after the first, if every option is a step and priorities never fall.
	// A ceiling then cuts the curve. Otherwise it is nil.
	highest []int32
}

// newTariff returns the tariff of nodes: the cost of their options without a ceiling.
func newTariff(t *topology.Tree, nodes []Node) *tariff {
	f := &tariff{prices: newPrices(nodes), tree: t, nodes: nodes, charges: make([]nodeCharge, len(nodes))}
	m := offer.Maker{Width: f.width()}
	var highest []int32
	for i := range nodes {
		n := &nodes[i]
		f.charges[i].curve = f.charge(&m, n, math.MaxInt32)
		if n.rises() {
			highest = withPlace(highest, len(n.Options), 4*pieceOfMaker)
			begin := len(highest)
			for k := range n.Options[1:] {
				highest = append(highest, n.Options[1+k].Cost.Highest)
			}
			f.charges[i].highest = highest[begin:len(highest):len(highest)]
		}
	}
	return f
}

// rises returns whether each option has more slots than the one before, at no lower highest priority.
func (n *Node) rises() bool {
	for k := 1; k < len(n.Options); k++ {
		o, before := &n.Options[k], &n.Options[k-1]
		if o.Slots <= before.Slots || k > 1 && o.Cost.Highest < before.Cost.Highest {
			return false
		}
	}
	return len(n.Options) > 0
}

// under returns by node index the cost of members if no victim has a priority above the ceiling. Nodes outside domains take no member.
func (f *tariff) under(ceiling int32, domains []topology.ID) []offer.Curve {
	out := make([]offer.Curve, len(f.nodes))
	m := offer.Maker{Width: f.width()}
	none := offer.Free(0, m.Width)
	for i := range out {
		out[i] = none
	}
	for i := range below(f.tree, domains) {
		if !f.nodes[i].rises() {
			out[i] = f.charge(&m, &f.nodes[i], ceiling)
			continue
		}
		steps := f.charges[i].highest
		for len(steps) > 0 && steps[len(steps)-1] > ceiling {
			steps = steps[:len(steps)-1]
		}
		out[i] = f.charges[i].curve.First(1 + len(steps))
	}
	return out
}

// charge returns the cost of members on node n if no victim has a priority above the ceiling. m makes the curve.
func (f *tariff) charge(m *offer.Maker, n *Node, ceiling int32) offer.Curve {
	m.Begin(n.free(), len(n.Options))
	for i := range n.Options {
		if o := &n.Options[i]; o.Cost.under(ceiling) {
			m.Add(o.Slots, func(to []int64) []int64 { return f.add(to, o.Cost) })
		}
	}
	return m.End()
}

// lowestCeiling returns the index of the lowest ceiling under which some domain may have capacity for need members; the last if there is
// none. It is a lower bound: see addSlotsByCeiling.
func (f *tariff) lowestCeiling(ceilings []int32, domains []topology.ID, need offer.Slots) int {
	least := len(ceilings) - 1
	more := make([]offer.Slots, len(ceilings)) // additional slots above the ceiling before
	for _, d := range domains {
		clear(more)
		for i := range below(f.tree, []topology.ID{d}) {
			f.nodes[i].addSlotsByCeiling(ceilings, more)
		}
		slots := offer.Slots(0)
		for c := range least {
			if slots += more[c]; slots >= need {
				least = c
				break
			}
		}
	}
	return least
}

// addSlotsByCeiling adds to more[c] the slots that victims with a priority above ceilings[c-1] and up to ceilings[c] free. If the node's
// options do not rise (see rises), it adds the whole capacity to more[0], an upper bound.
func (n *Node) addSlotsByCeiling(ceilings []int32, more []offer.Slots) {
	if !n.rises() {
		more[0] += n.Capacity
		return
	}
	more[0] += n.free()
	ceiling := 0
	for k := 1; k < len(n.Options); k++ {
		for ceilings[ceiling] < n.Options[k].Cost.Highest {
			ceiling++
		}
		more[ceiling] += n.Options[k].Slots - n.Options[k-1].Slots
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
