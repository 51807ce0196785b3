// Package network is the tree of the nodes, as the ClusterNetworkTopology and the labels of nodes say it.
//
// Values in, values out: what has become of nodes since the last tree makes the next one. It knows no lock, clock or informer.
package network

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Spec is what the ClusterNetworkTopology says. Layers are those of the last good
// spec; Problem says why they are not those of the present one.
type Spec struct {
	Object  *koordinator.ClusterNetworkTopology // nil if there is none
	Layers  []convert.Layer
	Problem string
}

// Known are the layers that rules may name; nil if there is no topology.
func (n *Spec) Known() []convert.Layer {
	if n.Object == nil {
		return nil
	}
	return append([]convert.Layer{}, n.Layers...)
}

// Check says whether gangs with this gather spec can be planned.
func (n *Spec) Check(g *scheduling.GatherSpec) error {
	if n.Object == nil {
		if mustGather(g) {
			return fmt.Errorf("MustGather needs ClusterNetworkTopology %s, which does not exist", scheduling.TopologyName)
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

// After is what another ClusterNetworkTopology says after this one, nil where it is gone, and whether the layers are others.
// Of an invalid spec the layers of the last good one stay.
func (n *Spec) After(object *koordinator.ClusterNetworkTopology) (is Spec, layered bool) {
	is.Object = object
	if object != nil {
		layers, err := koordinator.OrderLayers(object.Spec)
		if err != nil {
			is.Problem, is.Layers = err.Error(), n.Layers
		}
		for _, l := range layers {
			if l.Name != scheduling.NodeTopologyLayer {
				is.Layers = append(is.Layers, convert.Layer{Name: l.Name, Keys: l.LabelKeys})
			}
		}
	}
	return is, !slices.EqualFunc(is.Layers, n.Layers, func(a, b convert.Layer) bool { return a.Name == b.Name && slices.Equal(a.Keys, b.Keys) })
}

// SamePlace says whether the labels of two states of a node name the same domains.
func (n *Spec) SamePlace(x, y *v1.Node) bool {
	return !slices.ContainsFunc(n.Layers, func(l convert.Layer) bool { return l.Domain(x.Labels) != l.Domain(y.Labels) })
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

// New is a network of which the tree was made.
func New(tree *topology.Tree, s Spec) *Topology {
	return &Topology{Tree: tree, Object: s.Object, Problem: s.Problem, layers: s.Layers}
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

// On is the network for a plan on just these nodes, with these labels.
func (t *Topology) On(nodes []*v1.Node) *Topology {
	here := make([]bool, t.Tree.NumNodes())
	come := strangers(t.Tree, t.layers, nodes, func(i int) { here[i] = true })
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

// Moves are what has become of nodes since the last tree.
type Moves struct {
	Afresh bool       // nodes are all that there are, and the last tree says nothing
	Nodes  []*v1.Node // that have come or may be somewhere else, as they are
	Gone   []string
}

// In returns a tree as it is after the moves.
func (m Moves) In(tree *topology.Tree, layers []convert.Layer) *topology.Tree {
	if m.Afresh {
		return topology.Build(convert.LayerNames(layers), leaves(m.Nodes, layers))
	}
	come := strangers(tree, layers, m.Nodes, func(int) {})
	gone := slices.Collect(tree.Indexes(slices.Values(m.Gone)))
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
