// Package plan chooses where the members of a gang go: which domain, and how many
// on each of its nodes.
//
// It is arithmetic on a tree: it knows slots, layers and members, and nothing of
// pods, clocks or locks. Equal input gives equal output.
//
// A plan holds if every MustGather rule does, counting the members that are already bound
// (rule 1), and every count obeys its layer's podCountMultiple (rule 2). Of those that hold
// the first is by the list in rules.go: most members (3), deepest domain (4), preferences
// (5), attraction (6), soft preferences and then binpack (7), how the domain is filled (8)
// and names (9). Where members cost something (package evict charges the pods that must leave for them), the
// lowest price comes before all of it.
package plan

import (
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// World is what a plan is made on. Slices are by node index; a nil slice is all
// zero, but for Room.
type World struct {
	Tree *topology.Tree
	// Free is how many of the members each node takes now.
	Free []offer.Slots
	// Room is what binpack compares: Free where nobody is evicted, and in preemption
	// the slots as if every possible victim had gone. Nil means Free.
	Room []offer.Slots
	// Bound is how many members of the gang each node already runs.
	Bound []offer.Slots
	// Attract is how many pods of the same network-topology-selector it runs.
	Attract []offer.Slots
	// Penalty is what each member on the node is charged for the soft preferences that it violates there, at least 0.
	Penalty []int64
}

// Request is what a gang asks for.
type Request struct {
	// Want is how many members wait for a place; Min of them at the least make a
	// plan.
	Want, Min offer.Slots
	// Must is the index of the deepest MustGather layer; 0 is the whole cluster.
	Must int
	// Prefer lists what plans are chosen by where they have a choice, in any order.
	Prefer []Preference
	// Multiple is podCountMultiple by layer. It is asked of the members that are
	// placed; those already bound do not count.
	Multiple offer.Multiples
}

// Gather is what a gather spec asks for in one scope.
type Gather struct {
	Must     int          // the deepest MustGather layer; 0 is the whole cluster
	Prefer   []Preference // in any order
	Multiple offer.Multiples
}

// Place is how many members go to a node.
type Place struct {
	Node  int // node index
	Count offer.Slots
}

// Plan says where members go. Members fill Places in rank order: neighbouring ranks
// are on the same node, else in the same block, else in the same spine.
type Plan struct {
	Domain topology.ID // the deepest domain that holds all members
	Places []Place
}

// Count is the number of members placed.
func (p Plan) Count() (n offer.Slots) {
	for _, at := range p.Places {
		n += at.Count
	}
	return n
}
