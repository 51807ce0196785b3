package cache

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// network is what the ClusterNetworkTopology says. layers are those of the last good
// spec; problem says why they are not those of the present one.
type network struct {
	object  *koordinator.ClusterNetworkTopology // nil if there is none
	layers  []convert.Layer
	problem string
}

// known are the layers that rules may name; nil if there is no topology.
func (n *network) known() []convert.Layer {
	if n.object == nil {
		return nil
	}
	return append([]convert.Layer{}, n.layers...)
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

	layers []convert.Layer
}

// LayerOf is the layer whose domains a node label names, by index in Tree.
func (t *Topology) LayerOf(label string) (layer int, ok bool) {
	if label == "" {
		return 0, false
	}
	for _, l := range t.layers {
		if slices.Contains(l.Keys, label) {
			return t.Tree.LayerIndex(l.Name)
		}
	}
	return 0, false
}

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
	c.tree = moves.in(c.tree, net.layers)
	t := &Topology{Tree: c.tree, Object: net.object, Problem: net.problem, layers: net.layers}
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

// moves are what has become of nodes since the last tree.
type moves struct {
	afresh bool       // nodes are all that there are, and the last tree says nothing
	nodes  []*v1.Node // that have come or may be somewhere else, as they are
	gone   []string
}

// takeMoves returns what has become of nodes, once. c.mu is held.
func (c *Cache) takeMoves() moves {
	m := moves{afresh: c.afresh}
	if m.afresh {
		m.nodes = slices.Collect(maps.Values(c.nodes))
	} else {
		for name := range c.moved {
			if n := c.nodes[name]; n != nil {
				m.nodes = append(m.nodes, n)
			} else {
				m.gone = append(m.gone, name)
			}
		}
	}
	c.moved, c.afresh = nil, false
	return m
}

// in returns a tree as it is after the moves.
func (m moves) in(tree *topology.Tree, layers []convert.Layer) *topology.Tree {
	if m.afresh {
		return topology.Build(convert.LayerNames(layers), leaves(m.nodes, layers))
	}
	come := strangers(tree, layers, m.nodes, func(int) {})
	gone := slices.Collect(tree.Indexes(slices.Values(m.gone)))
	for _, n := range come {
		if i, ok := tree.NodeIndex(n.Name); ok {
			gone = append(gone, i)
		}
	}
	if len(gone)+len(come) == 0 {
		return tree
	}
	return tree.Change(gone, leaves(come, layers))
}

// leaves are nodes as their labels say.
func leaves(nodes []*v1.Node, layers []convert.Layer) []topology.Node {
	all := make([]topology.Node, len(nodes))
	for i, n := range nodes {
		all[i] = convert.Node(n.Name, n.Labels, layers)
	}
	return all
}

// strangers are those of some nodes that are not in a tree, or not where their labels say; it is said of the others
// which they are.
func strangers(tree *topology.Tree, layers []convert.Layer, nodes []*v1.Node, known func(node int)) (some []*v1.Node) {
	for _, n := range nodes {
		if i, ok := knows(tree, layers, n); ok {
			known(i)
		} else {
			some = append(some, n)
		}
	}
	return some
}

// knows says whether a node is where its labels say, and which it is.
func knows(tree *topology.Tree, layers []convert.Layer, n *v1.Node) (node int, ok bool) {
	i, ok := tree.NodeIndex(n.Name)
	if !ok {
		return 0, false
	}
	d := tree.Node(i)
	for _, l := range slices.Backward(layers) {
		if d = tree.Parent(d); tree.Name(d) != l.Domain(n.Labels) {
			return 0, false
		}
	}
	return i, true
}

// Knows says whether the node is where its labels say.
func (t *Topology) Knows(n *v1.Node) bool {
	_, ok := knows(t.Tree, t.layers, n)
	return ok
}

// TopologyOf is Topology for a plan on just these nodes, with these labels, but for those
// that were deleted. The scheduler is told of nodes before this cache or after it: a
// gang can be woken by a change that is not in the tree yet, or not in the snapshot, and
// nothing would wake it again.
func (c *Cache) TopologyOf(nodes []*v1.Node) *Topology {
	t := c.Topology()
	here := make([]bool, t.Tree.NumNodes())
	come := strangers(t.Tree, t.layers, c.notGone(nodes), func(i int) { here[i] = true })
	if len(come) == 0 {
		return t
	}
	var gone []int
	for i := range here {
		if !here[i] {
			gone = append(gone, i)
		}
	}
	own := *t
	own.Tree = t.Tree.Change(gone, leaves(come, t.layers))
	return &own
}

// AnyGone says whether nodes were deleted that a snapshot may still hold.
func (c *Cache) AnyGone() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.gone) > 0
}

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
	layered := slices.EqualFunc(n.layers, c.network.layers, func(a, b convert.Layer) bool {
		return a.Name == b.Name && slices.Equal(a.Keys, b.Keys)
	})
	same := layered && n.problem == c.network.problem && (object == nil) == (c.network.object == nil)
	c.network = n
	c.afresh = c.afresh || !layered
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
	moved := old == nil || !c.network.samePlace(old, node)
	var effects []gang.Effect
	if moved {
		c.move(node.Name)
		effects = c.gangsOn(node.Name)
	}
	if old != nil && !old.Spec.Unschedulable && node.Spec.Unschedulable {
		effects = append(effects, c.book.Apply(gang.NodeClosed{Node: node.Name}, c.Clock.Now())...)
	}
	c.mu.Unlock()
	if moved || len(effects) > 0 {
		c.do(effects)
	}
	if moved {
		c.topologyChanged()
	}
}

// samePlace says whether the labels of two states of a node name the same domains.
func (n *network) samePlace(x, y *v1.Node) bool {
	return !slices.ContainsFunc(n.layers, func(l convert.Layer) bool { return l.Domain(x.Labels) != l.Domain(y.Labels) })
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
	effects := c.book.Apply(gang.NodeGone{Node: name}, c.Clock.Now())
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
