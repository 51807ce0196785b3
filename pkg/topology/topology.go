// Package topology holds the network as a tree of domains: the cluster, its
// spines, their blocks, …, and the nodes as leaves.
//
// A Tree never changes after Build; of nodes that come, go or move Change makes another one. Everything that does change (free slots,
// plans, victims) lives outside it, in slices indexed by ID or by node, so any
// number of readers share one Tree. The package knows names and layers, and
// nothing of slots, gangs or pods.
//
// Domains are numbered depth first, children by natural name:
//
//	0 cluster
//	├── 1 spine-0
//	│   └── 2 block-0 ── 3 node-0, 4 node-1
//	└── 5 spine-1
//	    └── 6 block-1 ── 7 node-2
//
// so that a domain is a contiguous range of IDs and of nodes, a parent's ID is
// smaller than its children's, and comparing IDs is comparing path names.
package topology

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// ID names a domain of one Tree; it means nothing in another.
type ID int32

// Root is the whole cluster.
const Root ID = 0

// The names of the two layers that every tree has.
const (
	RootLayer = "ClusterTopologyLayer"
	NodeLayer = "NodeTopologyLayer"
)

// Tree is an immutable tree of domains; its leaves are nodes.
type Tree struct {
	layers []string // layers[0] is RootLayer, the last one is NodeLayer
	domain []domain
	nodes  []ID     // node index -> leaf
	hashes []uint32 // node index -> hash of its name
	slots  []int32  // where names are found, see index.go
}

type domain struct {
	name   string // "" for the root and for unnamed domains
	parent ID
	end    ID    // the subtree is [this ID, end)
	layer  int8  // index into layers
	lo, hi int32 // the nodes below are [lo, hi)
}

// Node is one leaf to be.
type Node struct {
	Name string
	// Path names the node's domain at each layer between the root and the node,
	// from the top down; "" where the node does not say.
	Path []string
}

// Build returns the tree of nodes below the given layers, which are named from
// the top down without the root and the node layer. Node names must differ.
//
// A node without a name at a layer hangs under an unnamed domain there, which it
// shares only with the nodes that have the same next lower name.
func Build(layers []string, nodes []Node) *Tree {
	all := slices.Concat([]string{RootLayer}, layers, []string{NodeLayer})
	return (&Tree{layers: all, domain: []domain{{parent: Root}}}).Change(nil, nodes)
}

// key identifies a domain among its siblings: by its name or, if it has none, by
// the next lower name and the layer of that (a block and a node may be namesakes).
type key struct {
	name, below string
	layer       int
}

func pathKey(n Node, depth int) []key {
	k := make([]key, depth+1)
	below := key{below: n.Name, layer: depth}
	for l := range slices.Backward(k) {
		switch {
		case l == depth:
			k[l] = key{name: n.Name}
		case l < len(n.Path) && n.Path[l] != "":
			k[l] = key{name: n.Path[l]}
			below = key{below: n.Path[l], layer: l}
		default:
			k[l] = below
		}
	}
	return k
}

// compareKeys orders paths: natural names, unnamed domains after named ones.
func compareKeys(a, b []key) int {
	for l := range a {
		if a[l] == b[l] {
			continue
		}
		switch {
		case a[l].name == "" && b[l].name != "":
			return 1
		case a[l].name != "" && b[l].name == "":
			return -1
		}
		if c := CompareNames(a[l].name, b[l].name); c != 0 {
			return c
		}
		return cmp.Or(CompareNames(a[l].below, b[l].below), cmp.Compare(a[l].layer, b[l].layer))
	}
	return 0
}

// Len counts the domains, root and nodes included.
func (t *Tree) Len() int { return len(t.domain) }

// NumNodes counts the nodes.
func (t *Tree) NumNodes() int { return len(t.nodes) }

// Depth is the index of the node layer; the root's is 0.
func (t *Tree) Depth() int { return len(t.layers) - 1 }

// LayerNames returns the layers from the root to the nodes. It must not be changed.
func (t *Tree) LayerNames() []string { return t.layers }

// LayerIndex returns the index of a layer by name.
func (t *Tree) LayerIndex(name string) (int, bool) {
	i := slices.Index(t.layers, name)
	return i, i >= 0
}

// Name returns the domain's own name: "" for the root and for unnamed domains.
func (t *Tree) Name(d ID) string { return t.domain[d].name }

// Named says whether the domain has a name; the root has none and needs none.
func (t *Tree) Named(d ID) bool { return d == Root || t.domain[d].name != "" }

// Layer returns the index of the domain's layer; 0 is the root's.
func (t *Tree) Layer(d ID) int { return int(t.domain[d].layer) }

// Parent returns the domain above; the root is its own parent.
func (t *Tree) Parent(d ID) ID { return t.domain[d].parent }

// IsNode says whether the domain is a single node.
func (t *Tree) IsNode(d ID) bool { return t.Layer(d) == t.Depth() }

// End returns the first ID after the domain's subtree, which is [d, End(d)).
func (t *Tree) End(d ID) ID { return t.domain[d].end }

// Nodes returns the range [lo, hi) of node indexes below the domain.
func (t *Tree) Nodes(d ID) (lo, hi int) { return int(t.domain[d].lo), int(t.domain[d].hi) }

// Node returns the leaf of a node index.
func (t *Tree) Node(i int) ID { return t.nodes[i] }

// NodeName returns the name of a node index.
func (t *Tree) NodeName(i int) string { return t.domain[t.nodes[i]].name }

// Children yields the domains directly below d, by name.
func (t *Tree) Children(d ID) func(yield func(ID) bool) {
	return func(yield func(ID) bool) {
		for c := d + 1; c < t.domain[d].end; c = t.domain[c].end {
			if !yield(c) {
				return
			}
		}
	}
}

// Ancestor returns the domain at the given layer that holds d, or d itself where d
// lies at or above that layer.
func (t *Tree) Ancestor(d ID, layer int) ID {
	for t.Layer(d) > layer {
		d = t.Parent(d)
	}
	return d
}

// Common returns the deepest domain that holds both.
func (t *Tree) Common(a, b ID) ID {
	for a != b {
		if a < b {
			a, b = b, a
		}
		a = t.Parent(a) // the larger ID is never an ancestor of the smaller one
	}
	return a
}

// Enclosing returns the deepest domain that holds all of some nodes, which are named by
// index; ok is false if there are none. The first and the last of them say it all, since a
// domain is a range of nodes. It has a name: one without a name holds one domain only.
func (t *Tree) Enclosing(nodes iter.Seq[int]) (d ID, ok bool) {
	first, last := len(t.nodes), -1
	for i := range nodes {
		first, last = min(first, i), max(last, i)
	}
	if last < 0 {
		return Root, false
	}
	return t.Common(t.nodes[first], t.nodes[last]), true
}

// Indexes yields the indexes of those of some nodes that the tree has.
func (t *Tree) Indexes(names iter.Seq[string]) iter.Seq[int] {
	return func(yield func(int) bool) {
		for name := range names {
			if i, ok := t.NodeIndex(name); ok && !yield(i) {
				return
			}
		}
	}
}

// Path returns the names from the top to the domain, joined by slashes; unnamed
// domains are left out. The root's path is "".
func (t *Tree) Path(d ID) string {
	var names []string
	for ; d != Root; d = t.Parent(d) {
		if n := t.Name(d); n != "" {
			names = append(names, n)
		}
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}
