package cache

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/network"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Topology is the network topology for one plan.
type Topology = network.Topology

// Topology returns the current network topology. The first call after a change builds a new tree, with c.mu unlocked. Concurrent calls wait
// for that tree, or build the next one.
func (c *Cache) Topology() *Topology {
	if t := c.current.Load(); t != nil {
		return t
	}
	c.building.Lock()
	defer c.building.Unlock()
	if t := c.current.Load(); t != nil {
		return t
	}
	c.mu.Lock()
	changes := c.changes
	net := c.network
	moves := c.takeMoves()
	c.mu.Unlock()
	c.tree = moves.In(c.tree, net.Layers)
	t := network.New(c.tree, net)
	c.mu.Lock()
	if c.changes == changes { // otherwise a later change is missing in it
		c.current.Store(t)
	}
	c.mu.Unlock()
	return t
}

// invalidateTree makes the next call of Topology build a new tree. c.mu is locked.
func (c *Cache) invalidateTree() {
	c.changes++
	c.current.Store(nil)
}

// maxMoved bounds the changed nodes that are recorded between two trees: as many as there are nodes, and maxMoved more.
const maxMoved = 1000

// recordMove records that a node was added, deleted, or moved to another domain. c.mu is locked.
func (c *Cache) recordMove(node string) {
	c.invalidateTree()
	if c.movedNodes == nil {
		c.movedNodes = map[string]bool{}
	}
	if c.movedNodes[node] = true; len(c.movedNodes) > len(c.nodes)+maxMoved {
		c.movedNodes, c.allMoved = nil, true
	}
}

// takeMoves removes and returns the recorded changes of nodes since the last tree. c.mu is locked.
func (c *Cache) takeMoves() network.Moves {
	m := network.Moves{Rebuild: c.allMoved}
	if m.Rebuild {
		m.Nodes = slices.Collect(maps.Values(c.nodes))
	} else {
		for name := range c.movedNodes {
			if n := c.nodes[name]; n != nil {
				m.Nodes = append(m.Nodes, n)
			} else {
				m.Deleted = append(m.Deleted, name)
			}
		}
	}
	c.movedNodes, c.allMoved = nil, false
	return m
}

// TopologyOf returns the network topology for a plan on these nodes of a snapshot, without deleted nodes. The scheduler may learn of a node
// earlier or later than this cache, so that the snapshot and the tree may differ.
func (c *Cache) TopologyOf(nodes []*v1.Node) *Topology {
	return c.Topology().On(c.withoutDeleted(nodes))
}

// HasDeletedNodes returns whether a snapshot may still contain deleted nodes.
func (c *Cache) HasDeletedNodes() bool {
	return read(c, func() bool { return len(c.deletedNodes) > 0 })
}

// withoutDeleted returns the nodes that are not deleted. It forgets deleted nodes that the given nodes do not contain any more.
func (c *Cache) withoutDeleted(nodes []*v1.Node) []*v1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.deletedNodes) == 0 {
		return nodes
	}
	held := map[string]bool{}
	existing := slices.DeleteFunc(slices.Clone(nodes), func(n *v1.Node) bool {
		held[n.Name] = c.deletedNodes[n.Name]
		return c.deletedNodes[n.Name]
	})
	maps.DeleteFunc(c.deletedNodes, func(name string, _ bool) bool { return !held[name] })
	return existing
}

// setTopology records the ClusterNetworkTopology; nil says that it was deleted.
func (c *Cache) setTopology(object *koordinator.ClusterNetworkTopology) {
	if !c.Aware {
		return
	}
	c.mu.Lock()
	n, layered := c.network.After(object)
	same := !layered && n.Problem == c.network.Problem && (object == nil) == (c.network.Object == nil)
	c.network = n
	c.allMoved = c.allMoved || layered
	c.invalidateTree()
	var effects []gang.Effect
	if !same {
		effects = c.redeclareAll()
	}
	c.mu.Unlock()
	c.carryOut(effects)
	c.topologyChanged()
}

// setUnused records a ClusterNetworkTopology that is not named default and has no effect; nil says that it was deleted.
func (c *Cache) setUnused(name string, object *koordinator.ClusterNetworkTopology) {
	if !c.Aware {
		return
	}
	c.mu.Lock()
	if object == nil {
		delete(c.unused, name)
	} else {
		c.unused[name] = object
	}
	c.mu.Unlock()
	c.topologyChanged()
}

// Unused returns the ClusterNetworkTopologies that are not named default and have no effect, in the order of their names.
func (c *Cache) Unused() []*koordinator.ClusterNetworkTopology {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Values(c.unused), func(a, b *koordinator.ClusterNetworkTopology) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// setNode records a node that was added or updated. Only its domain labels, spec.unschedulable (which no scheduler event reports) and the
// loss of readiness have effects.
func (c *Cache) setNode(node *v1.Node) {
	c.mu.Lock()
	old, wasReady := c.nodes[node.Name], c.isReady(node.Name)
	c.nodes[node.Name] = node
	delete(c.deletedNodes, node.Name)
	notes := c.setMaintenance(old, node)
	moved := old == nil || !c.network.SamePlace(old, node)
	var effects []gang.Effect
	if moved {
		c.recordMove(node.Name)
		effects = c.reportsOfGangsOn(node.Name)
	}
	if old != nil && !old.Spec.Unschedulable && node.Spec.Unschedulable {
		effects = slices.Concat(effects, c.book.Apply(gang.NodeClosed{Node: node.Name}, c.Clock.Now()), c.retrySinglePods(node.Name))
	}
	if old != nil && old.Spec.Unschedulable != node.Spec.Unschedulable {
		effects = append(effects, c.endsChanged(true)...)
	}
	if wasReady && !c.isReady(node.Name) {
		effects = append(effects, c.noteLostOn(node.Name)...)
	}
	c.mu.Unlock()
	c.publish(notes)
	if moved || len(effects) > 0 {
		c.carryOut(effects)
	}
	if moved {
		c.topologyChanged()
	}
}

// reportsOfGangsOn returns effects that report the gangs with members on a node, whose domain may have changed. c.mu is locked.
func (c *Cache) reportsOfGangsOn(node string) (out []gang.Effect) {
	gangs := map[gang.Ref]bool{}
	for key := range c.onNode[node] {
		gangs[source.GangOf(c.pods[key])] = true
	}
	for _, ref := range slices.SortedFunc(maps.Keys(gangs), compareRefs) {
		out = append(out, gang.Effect{Verb: gang.Report, Gang: ref})
	}
	return out
}

func (c *Cache) dropNode(name string) {
	c.mu.Lock()
	c.setMaintenance(c.nodes[name], nil)
	delete(c.nodes, name)
	c.deletedNodes[name] = true
	c.recordMove(name)
	effects := slices.Concat(c.book.Apply(gang.NodeGone{Node: name}, c.Clock.Now()), c.retrySinglePods(name), c.noteLostOn(name))
	c.mu.Unlock()
	c.carryOut(effects)
	c.topologyChanged()
}

// topologyChanged requests an update of the status of the ClusterNetworkTopology.
func (c *Cache) topologyChanged() { c.Do([]gang.Effect{{Verb: TopologyChanged}}) }

// These effects are not from the book. The status of the topology may differ; a namespace is new or its labels changed; the request of a
// pending member of the group Gang may have changed.
const (
	TopologyChanged  gang.Verb = "topology"
	NamespaceChanged gang.Verb = "namespace"
	MemberChanged    gang.Verb = "member"
)
