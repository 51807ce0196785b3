// Package offer counts how many more members of a gang each domain can take.
//
// Counts are made on nodes (by whoever knows what a node is) and summed upwards
// here. The package knows the tree, and nothing of who asks or of pods.
package offer

import (
	"math"

	"github.com/muster-scheduler/muster/pkg/topology"
)

// Slots counts gang members that a domain can take.
type Slots int

// Multiples holds podCountMultiple by layer index; 0 and 1 mean that any count is
// legal.
type Multiples []Slots

// At returns the multiple of a layer, at least 1.
func (m Multiples) At(layer int) Slots {
	if layer >= len(m) {
		return 1
	}
	return max(m[layer], 1)
}

// Steps returns, by layer index, the step in which the members of a domain at that
// layer can be counted so that it and every domain below obey their multiples: the
// least common multiple of the layer's own and all lower ones. Without multiples
// every step is 1.
//
// Why one number says it all: if each child can take every multiple of its step up
// to its offer, then so can their sum, and of those the parent keeps every multiple
// of its own. By induction from the nodes up, a domain can take exactly the
// multiples of its step up to its offer.
func (m Multiples) Steps(layers int) []Slots {
	steps := make([]Slots, layers)
	step := Slots(1)
	for l := layers - 1; l >= 0; l-- {
		step = Common(step, m.At(l))
		steps[l] = step
	}
	return steps
}

// Roll sums free slots of nodes (by node index) up the tree and returns the offer of
// every domain by ID, each rounded down to its layer's step.
func Roll(t *topology.Tree, node []Slots, steps []Slots) []Slots {
	sum := make([]Slots, t.Len())
	for i, n := range node {
		sum[t.Node(i)] = n
	}
	rounded := steps[topology.Root] > 1 // else every step is 1: dividing would take most of the time
	for d := topology.ID(t.Len() - 1); d >= topology.Root; d-- {
		if rounded {
			sum[d] -= sum[d] % steps[t.Layer(d)]
		}
		if d != topology.Root {
			sum[t.Parent(d)] += sum[d]
		}
	}
	return sum
}

// Sum is Roll without multiples.
func Sum(t *topology.Tree, node []Slots) []Slots {
	return Roll(t, node, Multiples(nil).Steps(t.Depth()+1))
}

// unmet is the common multiple of those that have none among the numbers: no count reaches
// it, nor any multiple of it.
const unmet Slots = math.MaxInt

// Common is the least common multiple of two multiples; 0 is as good as 1. Where it is
// larger than any number, the largest stands for it, which only nobody is a multiple of.
func Common(a, b Slots) Slots {
	a, b = max(a, 1), max(b, 1)
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	if a /= x; a > unmet/b {
		return unmet
	}
	return a * b
}

// Up returns n, rounded up to a multiple of step; ok is false if no number is one.
func Up(n, step Slots) (up Slots, ok bool) {
	rest := n % step
	if rest == 0 {
		return n, true
	}
	return n - rest + step, n-rest <= unmet-step
}

// Common returns the common multiple of all layers down to one.
func (m Multiples) Common(layer int) Slots { return m.Steps(layer + 1)[0] }
