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

// Topology is the network as one plan sees it.
type Topology = network.Topology

// Topology returns the network as it is now. The tree is made on the first call after a change, of the one before and
// of the nodes that have changed since, while nobody waits for c.mu; who asks meanwhile waits for that tree, which knows
// all that had happened when they asked, or makes the next.
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
	changes, net, moves := c.changes, c.network, c.takeMoves()
	c.mu.Unlock()
	c.tree = moves.In(c.tree, net.Layers)
	t := network.New(c.tree, net)
	c.mu.Lock()
	if c.changes == changes { // else it is as old as this call, and not what the next one should have
		c.current.Store(t)
	}
	c.mu.Unlock()
	return t
}

// change notes that the network is another one than the tree says. c.mu is held.
func (c *Cache) change() {
	c.changes++
	c.current.Store(nil)
}

// mostMoved is how many nodes more than there are may have changed until they are no longer told apart: where nobody
// asks for a tree, nodes come and go for ever.
const mostMoved = 1000

// move notes that a node has come, is gone, or is somewhere else. c.mu is held.
func (c *Cache) move(node string) {
	c.change()
	if c.moved == nil {
		c.moved = map[string]bool{}
	}
	if c.moved[node] = true; len(c.moved) > len(c.nodes)+mostMoved {
		c.moved, c.afresh = nil, true
	}
}

// takeMoves returns what has become of nodes, once. c.mu is held.
func (c *Cache) takeMoves() network.Moves {
	m := network.Moves{Afresh: c.afresh}
	if m.Afresh {
		m.Nodes = slices.Collect(maps.Values(c.nodes))
	} else {
		for name := range c.moved {
			if n := c.nodes[name]; n != nil {
				m.Nodes = append(m.Nodes, n)
			} else {
				m.Gone = append(m.Gone, name)
			}
		}
	}
	c.moved, c.afresh = nil, false
	return m
}

// TopologyOf is Topology for a plan on just these nodes, with these labels, but for those
// that were deleted. The scheduler is told of nodes before this cache or after it: a
// gang can be woken by a change that is not in the tree yet, or not in the snapshot, and
// nothing would wake it again.
func (c *Cache) TopologyOf(nodes []*v1.Node) *Topology {
	return c.Topology().On(c.notGone(nodes))
}

// AnyGone says whether nodes were deleted that a snapshot may still hold.
func (c *Cache) AnyGone() bool { return read(c, func() bool { return len(c.gone) > 0 }) }

// notGone leaves out nodes that were deleted, and forgets those that nobody has any more.
func (c *Cache) notGone(nodes []*v1.Node) []*v1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gone) == 0 {
		return nodes
	}
	still := map[string]bool{}
	left := slices.DeleteFunc(slices.Clone(nodes), func(n *v1.Node) bool {
		still[n.Name] = c.gone[n.Name]
		return c.gone[n.Name]
	})
	maps.DeleteFunc(c.gone, func(name string, _ bool) bool { return !still[name] })
	return left
}

// setTopology notes the ClusterNetworkTopology, or with nil that there is none.
func (c *Cache) setTopology(object *koordinator.ClusterNetworkTopology) {
	if !c.Aware {
		return
	}
	c.mu.Lock()
	n, layered := c.network.After(object)
	same := !layered && n.Problem == c.network.Problem && (object == nil) == (c.network.Object == nil)
	c.network = n
	c.afresh = c.afresh || layered
	c.change()
	var effects []gang.Effect
	if !same {
		effects = c.redeclareAll()
	}
	c.mu.Unlock()
	c.do(effects)
	c.topologyChanged()
}

// setUnused notes a ClusterNetworkTopology that has another name than the one that is used, or with nil
// that it is gone.
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

// Unused are the ClusterNetworkTopologies that have no effect, by name.
func (c *Cache) Unused() []*koordinator.ClusterNetworkTopology {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Values(c.unused), func(a, b *koordinator.ClusterNetworkTopology) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// setNode notes a node; only the labels that say where it is matter here, and whether it is cordoned, of which the scheduler's queue tells nobody. Other
// labels change all the time, on all nodes when a labeller is rolled out.
func (c *Cache) setNode(node *v1.Node) {
	c.mu.Lock()
	old := c.nodes[node.Name]
	c.nodes[node.Name] = node
	delete(c.gone, node.Name)
	moved := old == nil || !c.network.SamePlace(old, node)
	var effects []gang.Effect
	if moved {
		c.move(node.Name)
		effects = c.gangsOn(node.Name)
	}
	if old != nil && !old.Spec.Unschedulable && node.Spec.Unschedulable {
		effects = slices.Concat(effects, c.book.Apply(gang.NodeClosed{Node: node.Name}, c.Clock.Now()), c.tryAlone(node.Name))
	}
	c.mu.Unlock()
	if moved || len(effects) > 0 {
		c.do(effects)
	}
	if moved {
		c.topologyChanged()
	}
}

// gangsOn has the gangs reported that have members on a node: the domain that they are
// in may have another name now. c.mu is held.
func (c *Cache) gangsOn(node string) (out []gang.Effect) {
	gangs := map[gang.Ref]bool{}
	for key := range c.onNode[node] {
		gangs[source.Of(c.pods[key])] = true
	}
	for _, ref := range slices.SortedFunc(maps.Keys(gangs), compareRefs) {
		out = append(out, gang.Effect{Verb: gang.Report, Gang: ref})
	}
	return out
}

func (c *Cache) dropNode(name string) {
	c.mu.Lock()
	delete(c.nodes, name)
	c.gone[name] = true
	c.move(name)
	effects := append(c.book.Apply(gang.NodeGone{Node: name}, c.Clock.Now()), c.tryAlone(name)...)
	c.mu.Unlock()
	c.do(effects)
	c.topologyChanged()
}

// topologyChanged has the status of the ClusterNetworkTopology written.
func (c *Cache) topologyChanged() { c.Do([]gang.Effect{{Verb: TopologyChanged}}) }

// What the book does not know of, and somebody must hear: the topology's status may differ now;
// a namespace has come or has other labels; a pending member of Gang, a group's key, may need
// something else now.
const (
	TopologyChanged  gang.Verb = "topology"
	NamespaceChanged gang.Verb = "namespace"
	MemberChanged    gang.Verb = "member"
)
