// Package topology is the network as a tree of domains: the cluster, its spines, their blocks, …, and the nodes as leaves.
//
// Domains are numbered depth first, children by natural name:
//
//	0 cluster
//	├── 1 spine-0
//	│   └── 2 block-0 ── 3 node-0, 4 node-1
//	└── 5 spine-1
//	    └── 6 block-1 ── 7 node-2
//
// Invariants: a Tree never changes; Change makes another one. A domain is a contiguous range of IDs and of nodes. A parent's ID is smaller
// than its children's, and comparing IDs compares path names. State such as free slots, plans and victims lives outside, in slices by ID or
// node, so readers share a Tree without locks. The package knows names and layers, but no slots, gangs or pods.
package topology

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// ID identifies a domain of one Tree; it has no meaning in another.
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
	slots  []int32  // hash table of names, see index.go
}

type domain struct {
	name   string // "" for the root and for unnamed domains
	parent ID
	end    ID    // the subtree is [this ID, end)
	layer  int8  // index into layers
	lo, hi int32 // the nodes below are [lo, hi)
}

// Node is a leaf for Build or Change.
type Node struct {
	Name string
	// Path names the node's domain at each layer between the root and the node, from the top down; "" if the node has none.
	Path []string
}

// Build returns the tree of nodes below the given layers. layers are named from the top down, without the root and node layers. Node names
// must be unique.
//
// A node without a name at a layer is below an unnamed domain there, shared only with nodes of the same next lower name.
func Build(layers []string, nodes []Node) *Tree {
	all := slices.Concat([]string{RootLayer}, layers, []string{NodeLayer})
	return (&Tree{layers: all, domain: []domain{{parent: Root}}}).Change(nil, nodes)
}

// key identifies a domain among its siblings: by name, else by the next lower name and its layer (a block and a node may share a name).
type key struct {
	name, below string
	layer       int
}

// pathKey returns the keys of a node's domains from the top down, the node itself last. depth is the index of the lowest key.
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

// compareKeys compares two paths by natural names; an unnamed domain follows named ones.
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

// Len returns the number of domains, root and nodes included.
func (t *Tree) Len() int { return len(t.domain) }

// NumNodes returns the number of nodes.
func (t *Tree) NumNodes() int { return len(t.nodes) }

// Depth returns the index of the node layer; the root's is 0.
func (t *Tree) Depth() int { return len(t.layers) - 1 }

// LayerNames returns the layers from the root to the nodes. The caller must not change it.
func (t *Tree) LayerNames() []string { return t.layers }

// LayerIndex returns the index of the layer with that name; false if there is none.
func (t *Tree) LayerIndex(name string) (int, bool) {
	i := slices.Index(t.layers, name)
	return i, i >= 0
}

// Name returns the domain's own name: "" for the root and for unnamed domains.
func (t *Tree) Name(d ID) string { return t.domain[d].name }

// Named returns whether the domain has a name; it is true for the root.
func (t *Tree) Named(d ID) bool { return d == Root || t.domain[d].name != "" }

// Layer returns the index of the domain's layer; 0 is the root's.
func (t *Tree) Layer(d ID) int { return int(t.domain[d].layer) }

// Parent returns the domain above; the root is its own parent.
func (t *Tree) Parent(d ID) ID { return t.domain[d].parent }

// IsNode returns whether the domain is a single node.
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

// Ancestor returns the domain at the given layer that contains d, or d itself if d is at or above that layer.
func (t *Tree) Ancestor(d ID, layer int) ID {
	for t.Layer(d) > layer {
		d = t.Parent(d)
	}
	return d
}

// Common returns the deepest domain that contains both a and b.
func (t *Tree) Common(a, b ID) ID {
	for a != b {
		if a < b {
			a, b = b, a
		}
		a = t.Parent(a) // the larger ID is never an ancestor of the smaller one
	}
	return a
}

// Enclosing returns the deepest domain that contains all nodes, given by index; ok is false without nodes. The first and last node suffice,
// because a domain is a range. The result has a name: an unnamed domain has one child only.
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

// Indexes yields the indexes of the named nodes that the tree has.
func (t *Tree) Indexes(names iter.Seq[string]) iter.Seq[int] {
	return func(yield func(int) bool) {
		for name := range names {
			if i, ok := t.NodeIndex(name); ok && !yield(i) {
				return
			}
		}
	}
}

// Path returns the names from the top to the domain, joined by slashes, without unnamed domains. The root's path is "".
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
