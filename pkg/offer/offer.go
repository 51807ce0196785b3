// Package offer counts how many more members of a gang each domain takes. The caller counts nodes; the package sums them up the tree. The
// package knows the tree, slots and prices, but no pods and no callers. Invariant: an offer never exceeds the sum of the offers of the
// child domains.
package offer

import (
	"math"

	"github.com/muster-scheduler/muster/pkg/topology"
)

// Slots is a number of gang members that a domain takes.
type Slots int

// Multiples is podCountMultiple by layer index; 0 and 1 allow any count.
type Multiples []Slots

// At returns the multiple of a layer, at least 1.
func (m Multiples) At(layer int) Slots {
	if layer >= len(m) {
		return 1
	}
	return max(m[layer], 1)
}

// Steps returns the step of each layer: the least common multiple of its own multiple and all lower ones.
//
// A domain takes exactly the multiples of its step up to its offer. Proof by induction from the nodes up:
// if each child takes every multiple of its step, so does their sum. The parent keeps the multiples of its own step.
func (m Multiples) Steps(layers int) []Slots {
	steps := make([]Slots, layers)
	step := Slots(1)
	for l := layers - 1; l >= 0; l-- {
		step = Common(step, m.At(l))
		steps[l] = step
	}
	return steps
}

// Roll returns the offer of every domain by ID: the sum of the offers of its children, rounded down to the step of its layer. node has the
// slots of the nodes by node index; steps has the step of each layer (Multiples.Steps).
func Roll(t *topology.Tree, node []Slots, steps []Slots) []Slots {
	sum := make([]Slots, t.Len())
	for i, n := range node {
		sum[t.Node(i)] = n
	}
	rounded := steps[topology.Root] > 1 // otherwise every step is 1, and dividing would dominate the time
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

// overflow stands for a common multiple that exceeds all numbers: only 0 is a multiple of it.
const overflow Slots = math.MaxInt

// Common returns the least common multiple of a and b; 0 counts as 1. It returns overflow if the result is too large.
func Common(a, b Slots) Slots {
	a, b = max(a, 1), max(b, 1)
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	if a /= x; a > overflow/b {
		return overflow
	}
	return a * b
}

// Up returns n rounded up to a multiple of step; ok is false if the result is too large.
func Up(n, step Slots) (up Slots, ok bool) {
	rest := n % step
	if rest == 0 {
		return n, true
	}
	return n - rest + step, n-rest <= overflow-step
}

// Common returns the least common multiple of the multiples of layers 0 to layer.
func (m Multiples) Common(layer int) Slots { return m.Steps(layer + 1)[0] }
