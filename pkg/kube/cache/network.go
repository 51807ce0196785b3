package cache

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// network is what the ClusterNetworkTopology says. layers are those of the last good
// spec; problem says why they are not those of the present one.
type network struct {
	object  *koordinator.ClusterNetworkTopology // nil if there is none
	layers  []convert.Layer
	problem string
}

// check says whether gangs with this gather spec can be planned.
func (n *network) check(g *scheduling.GatherSpec) error {
	if n.object == nil {
		if mustGather(g) {
			return fmt.Errorf("MustGather needs ClusterNetworkTopology %s, which does not exist", scheduling.TopologyName)
		}
		return nil
	}
	if n.problem != "" && mustGather(g) {
		return fmt.Errorf("MustGather needs ClusterNetworkTopology %s, which is invalid: %s", scheduling.TopologyName, n.problem)
	}
	if n.problem != "" {
		return nil
	}
	names := append(convert.LayerNames(n.layers), scheduling.NodeTopologyLayer)
	return g.CheckLayers(names, scheduling.TopologyName)
}

func mustGather(g *scheduling.GatherSpec) bool {
	return slices.ContainsFunc(g.Rules, func(r scheduling.GatherRule) bool { return r.Strategy == scheduling.MustGather })
}

// Topology is the network as one plan sees it.
type Topology struct {
	Tree *topology.Tree
	// Object is the ClusterNetworkTopology that it comes from, nil if there is none.
	Object *koordinator.ClusterNetworkTopology
	// Problem says why Object's spec is not what Tree is built from; "" if it is.
	Problem string
}

// Topology returns the network as it is now. The tree is built on the first call
// after a change.
func (c *Cache) Topology() *Topology {
	if t := c.current.Load(); t != nil {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.current.Load(); t != nil {
		return t
	}
	nodes := make([]topology.Node, 0, len(c.nodes))
	for name, n := range c.nodes {
		nodes = append(nodes, convert.Node(name, n.Labels, c.network.layers))
	}
	t := &Topology{
		Tree:   topology.Build(convert.LayerNames(c.network.layers), nodes),
		Object: c.network.object, Problem: c.network.problem,
	}
	c.current.Store(t)
	return t
}

// setTopology notes the ClusterNetworkTopology, or with nil that there is none.
func (c *Cache) setTopology(object *koordinator.ClusterNetworkTopology) {
	if !c.Aware {
		return
	}
	c.mu.Lock()
	n := network{object: object}
	if object != nil {
		layers, err := koordinator.OrderLayers(object.Spec)
		if err != nil {
			n.problem, n.layers = err.Error(), c.network.layers
		} else {
			for _, l := range layers {
				if l.Name != scheduling.NodeTopologyLayer {
					n.layers = append(n.layers, convert.Layer{Name: l.Name, Keys: l.LabelKeys})
				}
			}
		}
	}
	same := n.problem == c.network.problem && (object == nil) == (c.network.object == nil) &&
		slices.EqualFunc(n.layers, c.network.layers, func(a, b convert.Layer) bool {
			return a.Name == b.Name && slices.Equal(a.Keys, b.Keys)
		})
	c.network = n
	c.current.Store(nil)
	var effects []gang.Effect
	if !same {
		effects = c.redeclareAll()
	}
	c.mu.Unlock()
	c.do(effects)
	c.topologyChanged()
}

// setNode notes a node; only its labels matter here.
func (c *Cache) setNode(node *v1.Node) {
	c.mu.Lock()
	old := c.nodes[node.Name]
	c.nodes[node.Name] = node
	changed := old == nil || !maps.Equal(old.Labels, node.Labels)
	if changed {
		c.current.Store(nil)
	}
	c.mu.Unlock()
	if changed {
		c.topologyChanged()
	}
}

func (c *Cache) dropNode(name string) {
	c.mu.Lock()
	delete(c.nodes, name)
	c.current.Store(nil)
	effects := c.book.Apply(gang.NodeGone{Node: name}, c.Clock.Now())
	c.mu.Unlock()
	c.do(effects)
	c.topologyChanged()
}

// topologyChanged has the status of the ClusterNetworkTopology written.
func (c *Cache) topologyChanged() { c.Do([]gang.Effect{{Verb: TopologyChanged}}) }

// TopologyChanged is the effect that the topology's status may differ now.
const TopologyChanged gang.Verb = "topology"
