package topology

import (
	"slices"
	"sort"
)

// Change returns the tree without the nodes with the indexes removed, and with the nodes added. A moved node is in both. The result equals
// Build of the same nodes, but costs little more than a copy: ranges between two changes keep their order.
//
//	   removed   added       removed              of the old tree
//	────┘└────────┘└──────────┘└──────────
//	 run     run        run         run           are copied
//
// Node names must stay unique. The tree t does not change.
func (t *Tree) Change(removed []int, added []Node) *Tree {
	removed = slices.Compact(slices.Sorted(slices.Values(removed)))
	keys := make([][]key, len(added))
	for i, n := range added {
		keys[i] = pathKey(n, t.Depth()-1)
	}
	slices.SortFunc(keys, compareKeys)

	b := newBuilder(t, len(added))
	done := 0 // earlier nodes of t are copied or removed
	copyUpTo := func(end int) {
		for done < end {
			runEnd := end
			if len(removed) > 0 {
				runEnd = min(runEnd, removed[0])
			}
			if done < runEnd {
				b.copyRun(t, done, runEnd)
			}
			if done = runEnd; len(removed) > 0 && removed[0] == done {
				done, removed = done+1, removed[1:]
			}
		}
	}
	for _, k := range keys {
		copyUpTo(t.position(k))
		b.add(k)
	}
	copyUpTo(len(t.nodes))
	b.close(0)
	b.tree.fillTable()
	return b.tree
}

// position returns the number of nodes whose path precedes path.
func (t *Tree) position(path []key) int {
	buffer := make([]key, len(path))
	return sort.Search(len(t.nodes), func(i int) bool { return compareKeys(t.keys(i, buffer), path) >= 0 })
}

// keys sets path to the path of a node, as pathKey returns it, and returns path.
func (t *Tree) keys(node int, path []key) []key {
	d := t.nodes[node]
	var below key
	for l := range slices.Backward(path) {
		switch name := t.domain[d].name; {
		case l == len(path)-1:
			path[l], below = key{name: name}, key{below: name, layer: l}
		case name != "":
			path[l], below = key{name: name}, key{below: name, layer: l}
		default:
			path[l] = below
		}
		d = t.domain[d].parent
	}
	return path
}

// builder makes a tree node by node, in order.
type builder struct {
	tree *Tree
	open []ID  // the domains of the last node, by layer; they may grow
	last []key // the path of the last node; nil before the first
}

// newBuilder returns a builder with memory for a tree of the size of template, plus more nodes.
func newBuilder(template *Tree, more int) *builder {
	nodes := len(template.nodes) + more
	return &builder{open: []ID{Root}, tree: &Tree{
		layers: template.layers,
		domain: append(make([]domain, 0, len(template.domain)+min(more, 64)*template.Depth()), domain{parent: Root}),
		nodes:  make([]ID, 0, nodes),
		hashes: make([]uint32, 0, nodes),
	}}
}

// add adds a node below the domains of its path. It reuses the open domains shared with the last node.
func (b *builder) add(path []key) {
	common := 0
	for common < len(b.last) && b.last[common] == path[common] {
		common++
	}
	b.close(common + 1)
	t := b.tree
	for l := common; l < len(path); l++ {
		id := ID(len(t.domain))
		t.domain = append(t.domain, domain{name: path[l].name, parent: b.open[l], layer: int8(l + 1), lo: int32(len(t.nodes))})
		b.open = append(b.open, id)
	}
	b.last = path
	t.nodes = append(t.nodes, b.open[len(path)])
	t.hashes = append(t.hashes, hash(path[len(path)-1].name))
}

// close sets the ends of the open domains of a layer and all deeper layers.
func (b *builder) close(layer int) {
	if layer >= len(b.open) {
		return
	}
	t := b.tree
	for _, d := range b.open[layer:] {
		t.domain[d].end, t.domain[d].hi = ID(len(t.domain)), int32(len(t.nodes))
	}
	b.open = b.open[:layer]
}

// copyRun adds nodes [from, to) of another tree. The first is added by add; the domains that begin after it keep their order
// and are renumbered by the shift of the first node.
func (b *builder) copyRun(old *Tree, from, to int) {
	t := b.tree
	b.add(old.keys(from, make([]key, old.Depth())))
	first, last := old.nodes[from], old.nodes[to-1]
	shift, nodes := t.nodes[len(t.nodes)-1]-first, int32(len(t.nodes)-1-from)
	for _, d := range old.domain[first+1 : last+1] {
		if d.parent > first {
			d.parent += shift
		} else {
			d.parent = b.open[d.layer-1] // shared with the first node
		}
		d.end += shift
		d.lo += nodes
		d.hi += nodes
		t.domain = append(t.domain, d)
	}
	for _, d := range old.nodes[from+1 : to] {
		t.nodes = append(t.nodes, d+shift)
	}
	t.hashes = append(t.hashes, old.hashes[from+1:to]...)

	// Domains of the first node without the last node end as before. The domains of the last node stay open.
	common := old.Layer(old.Common(first, last))
	for d := first; old.Layer(d) > common; d = old.Parent(d) {
		moved := &t.domain[b.open[old.Layer(d)]]
		moved.end, moved.hi = old.domain[d].end+shift, old.domain[d].hi+nodes
	}
	if first != last {
		b.open = b.open[:common+1]
		for l := common + 1; l <= old.Depth(); l++ {
			b.open = append(b.open, old.Ancestor(last, l)+shift)
		}
	}
	b.last = old.keys(to-1, b.last)
}
