package place

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// layout maps the nodes of the scheduler's snapshot to the tree.
type layout struct {
	net   *cache.Topology
	nodes []fwk.NodeInfo // by node index of net's tree; nil if the snapshot lacks the node
}

// layouts remembers the last layout. It is reused until the topology, the set of nodes or a label of them changes.
type layouts struct {
	mu          sync.Mutex
	last        *layout
	softTainted int             // number of nodes with a PreferNoSchedule taint
	topology    *cache.Topology // the cache's topology when last was made
	infos       []fwk.NodeInfo  // the snapshot's nodes when last was made
	objects     []*v1.Node      // the node objects of infos, or equal ones
	generations []int64         // generations of infos; a changed object has a new generation
}

// get returns the layout of a snapshot's nodes, and whether any has a PreferNoSchedule taint. The caller must not change the layout.
func (l *layouts) get(c *cache.Cache, nodes []fwk.NodeInfo) (found *layout, softTainted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.topology == c.Topology() && !c.HasDeletedNodes() && l.unchanged(nodes) {
		return l.last, l.softTainted > 0
	}
	l.softTainted = 0
	l.infos = nodes
	l.objects = make([]*v1.Node, len(nodes))
	l.generations = make([]int64, len(nodes))
	for i, n := range nodes {
		l.objects[i], l.generations[i] = n.Node(), fit.Generation(n)
		l.softTainted += softTaintCount(n.Node())
	}
	l.topology = c.Topology()
	net := c.TopologyOf(l.objects)
	l.last = &layout{net: net, nodes: make([]fwk.NodeInfo, net.Tree.NumNodes())}
	for _, n := range nodes {
		if i, ok := net.Tree.NodeIndex(n.Node().Name); ok {
			l.last.nodes[i] = n
		}
	}
	return l.last, l.softTainted > 0
}

func softTaintCount(node *v1.Node) int {
	if fit.HasSoftTaint(node) {
		return 1
	}
	return 0
}

// unchanged returns whether the last layout is valid for nodes: the same nodes in the same order, each with its domain unchanged.
func (l *layouts) unchanged(nodes []fwk.NodeInfo) bool {
	if len(nodes) != len(l.infos) {
		return false
	}
	for i, n := range nodes {
		if n != l.infos[i] {
			return false
		}
		generation := fit.Generation(n)
		if generation == l.generations[i] {
			continue
		}
		if object := n.Node(); object != l.objects[i] {
			if object == nil || !l.last.net.Contains(object) {
				return false
			}
			l.softTainted += softTaintCount(object) - softTaintCount(l.objects[i])
			l.objects[i] = object
		}
		l.generations[i] = generation
	}
	return true
}
