package place

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// layout is where the nodes of the scheduler's snapshot stand in the tree.
type layout struct {
	net   *cache.Topology
	nodes []fwk.NodeInfo // by node index of net's tree; nil where there is none
}

// layouts keeps the last layout: from one gang to the next hardly any node changes in
// what it depends on, and to find that out takes a look at each.
type layouts struct {
	mu       sync.Mutex
	last     *layout
	suspects int             // nodes with a PreferNoSchedule taint, of the objects
	current  *cache.Topology // what the cache said when last was made
	infos    []fwk.NodeInfo  // of which it was made
	objects  []*v1.Node      // what infos held then, or something in the same place
	states   []int64         // and in which states they were: in no other one have they another object
}

// of returns the layout of a snapshot's nodes, which must not be changed, and whether one of them has a PreferNoSchedule taint.
func (l *layouts) of(c *cache.Cache, nodes []fwk.NodeInfo) (is *layout, suspects bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.current == c.Topology() && !c.AnyGone() && l.holds(nodes) {
		return l.last, l.suspects > 0
	}
	l.suspects = 0
	l.infos, l.objects, l.states = nodes, make([]*v1.Node, len(nodes)), make([]int64, len(nodes))
	for i, n := range nodes {
		l.objects[i], l.states[i] = n.Node(), fit.Generation(n)
		l.suspects += suspect(n.Node())
	}
	l.current = c.Topology()
	net := c.TopologyOf(l.objects)
	l.last = &layout{net: net, nodes: make([]fwk.NodeInfo, net.Tree.NumNodes())}
	for _, n := range nodes {
		if i, ok := net.Tree.NodeIndex(n.Node().Name); ok {
			l.last.nodes[i] = n
		}
	}
	return l.last, l.suspects > 0
}

func suspect(node *v1.Node) int {
	if fit.Suspect(node) {
		return 1
	}
	return 0
}

// holds says whether these are the nodes of the last layout, in the same places.
func (l *layouts) holds(nodes []fwk.NodeInfo) bool {
	if len(nodes) != len(l.infos) {
		return false
	}
	for i, n := range nodes {
		if n != l.infos[i] {
			return false
		}
		state := fit.Generation(n)
		if state == l.states[i] {
			continue
		}
		if object := n.Node(); object != l.objects[i] {
			if object == nil || !l.last.net.Knows(object) {
				return false
			}
			l.suspects += suspect(object) - suspect(l.objects[i])
			l.objects[i] = object
		}
		l.states[i] = state
	}
	return true
}
