package main

import (
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// spines are the leafs of the cluster: 64 nodes.
var spines = [][]int{{11, 8, 6, 6, 5, 3, 2}, {6, 5, 3, 3, 2, 2, 1, 1}}

const (
	leafLayer = 2
	largest   = 11 // gang
)

// planner is a way to choose places.
type planner struct {
	name   string
	beside bool // it knows who waits beside a gang
	bare   bool // and how large leafs are
}

var planners = []planner{{name: "alone"}, {name: "most start", beside: true}, {name: "planTogether", beside: true, bare: true}}

// cluster is the nodes and who has them.
type cluster struct {
	planner
	tree *topology.Tree
	free []offer.Slots // by node index
	bare []offer.Slots
}

func newCluster(by planner) *cluster {
	var nodes []topology.Node
	for s, leafs := range spines {
		for l, size := range leafs {
			for n := range size {
				spine := string(rune('a' + s))
				leaf := fmt.Sprintf("%s%d", spine, l)
				nodes = append(nodes, topology.Node{Name: fmt.Sprintf("%s-%d", leaf, n), Path: []string{spine, leaf}})
			}
		}
	}
	c := &cluster{planner: by, tree: topology.Build([]string{"Spine", "Leaf"}, nodes)}
	c.bare = slices.Repeat([]offer.Slots{1}, len(nodes))
	c.free = slices.Clone(c.bare)
	return c
}

// start gives a gang of whole nodes its nodes in one leaf, if there is one that takes it. The others wait beside it.
func (c *cluster) start(size int, others []offer.Slots) (nodes []int, ok bool) {
	w := plan.World{Tree: c.tree, Free: c.free}
	r := plan.Request{Want: offer.Slots(size), Min: offer.Slots(size), Must: leafLayer}
	if c.beside {
		r.Beside = others
	}
	if c.planner.bare {
		w.Bare = c.bare
	}
	p, _ := plan.Choose(w, r)
	if p == nil {
		return nil, false
	}
	for _, at := range p.Places {
		c.free[at.Node] -= at.Count
		nodes = append(nodes, at.Node)
	}
	return nodes, true
}

func (c *cluster) end(nodes []int) {
	for _, n := range nodes {
		c.free[n]++
	}
}

// holes is how many nodes are free, and how many in the leaf that has most.
func (c *cluster) holes() (free, most int) {
	sums := offer.Sum(c.tree, c.free)
	for d := range sums {
		if c.tree.Layer(topology.ID(d)) == leafLayer {
			most = max(most, int(sums[d]))
		}
	}
	return int(sums[topology.Root]), most
}
