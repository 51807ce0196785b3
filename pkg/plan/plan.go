// Package plan chooses nodes for the members of a gang: the domain, and the number of members on each node.
//
// It computes on a tree of slots, layers and members, and knows no pods, clocks or locks. Invariant: equal input gives equal output.
//
// A plan is valid if every MustGather constraint holds, bound members included, and every count satisfies its layer's
// podCountMultiple. The first valid plan by the order in rules.go (ByMembers to ByNames) wins.
// If members have a cost (package evict charges for victims), the lowest price comes before all rules.
package plan

import (
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// World is the input of a plan. Slices are by node index; a nil slice means zeros, except Capacity.
type World struct {
	Tree *topology.Tree
	// Free is how many of the members each node takes now.
	Free []offer.Slots
	// Capacity decides binpack: the slots of each node without any possible victim in a preemption, else Free. Nil means Free.
	Capacity []offer.Slots
	// Bound is how many members of the gang each node runs.
	Bound []offer.Slots
	// Attract is how many pods with the same network-topology-selector each node runs.
	Attract []offer.Slots
	// Penalty is the charge for each member on the node because of violated soft preferences, at least 0.
	Penalty []int64
}

// Request is the request of a gang.
type Request struct {
	// Want is the number of pending members. A plan places at least Min of them.
	Want, Min offer.Slots
	// Must is the index of the deepest MustGather layer; 0 is the whole cluster.
	Must int
	// Prefer lists the preferences, in any order.
	Prefer []Preference
	// Multiple is podCountMultiple by layer. Only newly placed members count.
	Multiple offer.Multiples
}

// Gather is the topology constraint of one scope.
type Gather struct {
	Must     int          // the deepest MustGather layer; 0 is the whole cluster
	Prefer   []Preference // in any order
	Multiple offer.Multiples
}

// MaxMultiple returns the largest podCountMultiple of all layers; at least 1.
func (g Gather) MaxMultiple() (most offer.Slots) {
	for l := range g.Multiple {
		most = max(most, g.Multiple.At(l))
	}
	return max(most, 1)
}

// Place is the number of members on a node.
type Place struct {
	Node  int // node index
	Count offer.Slots
}

// Plan is the assignment of members to nodes. Members fill Places in rank order: near ranks share a node, else a block, else a spine.
type Plan struct {
	Domain topology.ID // the deepest domain around all members
	Places []Place
}

// Count returns the number of members placed.
func (p Plan) Count() (n offer.Slots) {
	for _, place := range p.Places {
		n += place.Count
	}
	return n
}
