// Package network builds the topology tree from the ClusterNetworkTopology and the labels of nodes. After changes of nodes, it makes the
// next tree from the last one. It only computes values from values. Invariant: a tree after changes equals one that is built anew.
package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Spec is the content of the ClusterNetworkTopology. Layers are from its last valid spec. Problem says why the current spec is invalid; ""
// if it is valid.
type Spec struct {
	Object  *koordinator.ClusterNetworkTopology // nil if there is none
	Layers  []convert.Layer
	Problem string
}

// Known returns the layers that constraints may name; nil without a ClusterNetworkTopology.
func (n *Spec) Known() []convert.Layer {
	if n.Object == nil {
		return nil
	}
	return append([]convert.Layer{}, n.Layers...)
}

// Check returns an error if gangs with this topology constraint cannot be planned, because the ClusterNetworkTopology does not exist, is
// invalid, or lacks a layer.
func (n *Spec) Check(g *scheduling.GatherSpec) error {
	if n.Object == nil {
		if mustGather(g) {
			return fmt.Errorf("MustGather needs ClusterNetworkTopology %s, which does not exist; create it, or use PreferGather",
				scheduling.TopologyName)
		}
		return nil
	}
	if n.Problem != "" && mustGather(g) {
		return fmt.Errorf("MustGather needs ClusterNetworkTopology %s, which is invalid: %s", scheduling.TopologyName, n.Problem)
	}
	if n.Problem != "" {
		return nil
	}
	names := append(convert.LayerNames(n.Layers), scheduling.NodeTopologyLayer)
	return g.CheckLayers(names, scheduling.TopologyName)
}

func mustGather(g *scheduling.GatherSpec) bool {
	return slices.ContainsFunc(g.Rules, func(r scheduling.GatherRule) bool { return r.Strategy == scheduling.MustGather })
}

// After returns the Spec for a new version of the object (nil if it was deleted), and whether the layers differ from n's. If the object's
// spec is invalid, the layers are n's.
func (n *Spec) After(object *koordinator.ClusterNetworkTopology) (next Spec, layersChanged bool) {
	next.Object = object
	if object != nil {
		layers, err := koordinator.OrderLayers(object.Spec)
		if err != nil {
			next.Problem, next.Layers = err.Error(), n.Layers
		}
		for _, l := range layers {
			if l.Name != scheduling.NodeTopologyLayer {
				next.Layers = append(next.Layers, convert.Layer{Name: l.Name, Keys: l.LabelKeys})
			}
		}
	}
	same := func(a, b convert.Layer) bool { return a.Name == b.Name && slices.Equal(a.Keys, b.Keys) }
	return next, !slices.EqualFunc(next.Layers, n.Layers, same)
}

// SamePlace returns whether two states of a node are in the same domains of all layers.
func (n *Spec) SamePlace(x, y *v1.Node) bool {
	return !slices.ContainsFunc(n.Layers, func(l convert.Layer) bool { return l.Domain(x.Labels) != l.Domain(y.Labels) })
}

// Topology is the network topology for one plan.
type Topology struct {
	Tree *topology.Tree
	// Object is the ClusterNetworkTopology of the tree; nil if there is none.
	Object *koordinator.ClusterNetworkTopology
	// Problem says why Tree is not built from Object's spec; "" if it is.
	Problem string

	layers []convert.Layer
}

// Unlabelled returns a message if nodes lack the label of a layer, or of a layer above it. If no node has it, the message also names
// labels of the first node. It returns "" if all nodes have these labels.
func (t *Topology) Unlabelled(layer string, nodes []fwk.NodeInfo) string {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool { return n == nil || n.Node() == nil })
	for _, l := range t.layers {
		named := func(n fwk.NodeInfo) bool { return l.Domain(n.Node().Labels) != "" }
		label, lacking := strings.Join(l.Keys, " or "), slices.DeleteFunc(slices.Clone(nodes), named)
		switch {
		case len(lacking) == 0:
		case len(lacking) < len(nodes):
			return fmt.Sprintf("%d of %d nodes lack label %s, such as %s: label them", len(lacking), len(nodes), label, lacking[0].Node().Name)
		default:
			own := func(key string) bool { return strings.HasPrefix(key, "kubernetes.io/") }
			keys := slices.DeleteFunc(slices.Sorted(maps.Keys(nodes[0].Node().Labels)), own)
			return fmt.Sprintf("no node has label %s; node %s has %s; label the nodes, or correct the layer's labelKey",
				label, nodes[0].Node().Name, cmp.Or(strings.Join(keys[:min(len(keys), 4)], ", "), "none"))
		}
		if l.Name == layer {
			break
		}
	}
	return ""
}

// New returns the Topology of a tree that was built from s.
func New(tree *topology.Tree, s Spec) *Topology {
	return &Topology{Tree: tree, Object: s.Object, Problem: s.Problem, layers: s.Layers}
}

// LayerOf returns the index in Tree of the layer whose domains the node label names; ok is false if there is none.
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

// On returns the topology for a plan on exactly these nodes: t if its tree matches them, else a copy with a changed tree.
func (t *Topology) On(nodes []*v1.Node) *Topology {
	present := make([]bool, t.Tree.NumNodes())
	added := misplaced(t.Tree, t.layers, nodes, func(i int) { present[i] = true })
	if len(added) == 0 {
		return t
	}
	var removed []int
	for i := range present {
		if !present[i] {
			removed = append(removed, i)
		}
	}
	changed := *t
	changed.Tree = t.Tree.Change(removed, treeNodes(added, t.layers))
	return &changed
}

// Moves are the changes of nodes since the last tree.
type Moves struct {
	Rebuild bool       // Nodes are all nodes, and the last tree is discarded
	Nodes   []*v1.Node // new or moved nodes, in their current state
	Deleted []string
}

// In returns the tree after the changes m; tree itself if nothing changes.
func (m Moves) In(tree *topology.Tree, layers []convert.Layer) *topology.Tree {
	if m.Rebuild {
		return topology.Build(convert.LayerNames(layers), treeNodes(m.Nodes, layers))
	}
	added := misplaced(tree, layers, m.Nodes, func(int) {})
	removed := slices.Collect(tree.Indexes(slices.Values(m.Deleted)))
	for _, n := range added {
		if i, ok := tree.NodeIndex(n.Name); ok {
			removed = append(removed, i)
		}
	}
	if len(removed)+len(added) == 0 {
		return tree
	}
	return tree.Change(removed, treeNodes(added, layers))
}

// treeNodes translates nodes for the tree.
func treeNodes(nodes []*v1.Node, layers []convert.Layer) []topology.Node {
	all := make([]topology.Node, len(nodes))
	for i, n := range nodes {
		all[i] = convert.Node(n.Name, n.Labels, layers)
	}
	return all
}

// misplaced returns the nodes that are not in the tree, or not in the domains that their labels name. For each other node it calls known
// with the index.
func misplaced(tree *topology.Tree, layers []convert.Layer, nodes []*v1.Node, known func(node int)) (missing []*v1.Node) {
	for _, n := range nodes {
		if i, ok := locate(tree, layers, n); ok {
			known(i)
		} else {
			missing = append(missing, n)
		}
	}
	return missing
}

// locate returns the index of a node in the tree; ok is false if it is not there, or not in the domains that its labels name.
func locate(tree *topology.Tree, layers []convert.Layer, n *v1.Node) (node int, ok bool) {
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

// Contains returns whether the node is in the tree, in the domains that its labels name.
func (t *Topology) Contains(n *v1.Node) bool {
	_, ok := locate(t.Tree, t.layers, n)
	return ok
}
