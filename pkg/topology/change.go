package topology

import (
	"slices"
	"sort"
)

// Change returns the tree without some of its nodes, which are named by index, and with others. A node that
// moves is of both. It is the tree that Build makes of the nodes that it holds, but costs little more than
// copying: what lies between two changes stays in its order, and only its numbers are others.
//
//	   gone      come        gone                 of the old tree
//	────┘└────────┘└──────────┘└──────────
//	 run     run        run         run           are added to the new one as they are
//
// Names of nodes must differ afterwards, too. The tree itself stays as it is.
func (t *Tree) Change(gone []int, come []Node) *Tree {
	gone = slices.Compact(slices.Sorted(slices.Values(gone)))
	keys := make([][]key, len(come))
	for i, n := range come {
		keys[i] = pathKey(n, t.Depth()-1)
	}
	slices.SortFunc(keys, compareKeys)

	b := newBuilder(t, len(come))
	done := 0 // nodes of t before this one are in the new tree, or gone
	upTo := func(end int) {
		for done < end {
			stay := end
			if len(gone) > 0 {
				stay = min(stay, gone[0])
			}
			if done < stay {
				b.run(t, done, stay)
			}
			if done = stay; len(gone) > 0 && gone[0] == done {
				done, gone = done+1, gone[1:]
			}
		}
	}
	for _, k := range keys {
		upTo(t.before(k))
		b.add(k)
	}
	upTo(len(t.nodes))
	b.close(0)
	b.tree.fill()
	return b.tree
}

// before counts the nodes that come before a path.
func (t *Tree) before(path []key) int {
	room := make([]key, len(path))
	return sort.Search(len(t.nodes), func(i int) bool { return compareKeys(t.keys(i, room), path) >= 0 })
}

// keys are the path of a node as pathKey has it, written into a slice of its length.
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

// builder makes a tree, node by node in its order.
type builder struct {
	tree *Tree
	open []ID  // the domains that the last node is in, by layer: they may still grow
	last []key // the path of the last node; nil before the first
}

// newBuilder begins a tree that is like another one but for some more nodes.
func newBuilder(like *Tree, more int) *builder {
	nodes := len(like.nodes) + more
	return &builder{open: []ID{Root}, tree: &Tree{
		layers: like.layers,
		domain: append(make([]domain, 0, len(like.domain)+min(more, 64)*like.Depth()), domain{parent: Root}),
		nodes:  make([]ID, 0, nodes),
		hashes: make([]uint32, 0, nodes),
	}}
}

// add adds a node below the domains of its path, of which those are open that it shares with the last node.
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

// close ends the open domains from a layer down.
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

// run adds nodes [from, to) of another tree. The first one is added like any other; the domains that begin after it,
// up to the last one, are then numbered as they were, but for how much the first one has moved.
func (b *builder) run(old *Tree, from, to int) {
	t := b.tree
	b.add(old.keys(from, make([]key, old.Depth())))
	first, last := old.nodes[from], old.nodes[to-1]
	moved, nodes := t.nodes[len(t.nodes)-1]-first, int32(len(t.nodes)-1-from)
	for _, d := range old.domain[first+1 : last+1] {
		if d.parent > first {
			d.parent += moved
		} else {
			d.parent = b.open[d.layer-1] // the first node's too
		}
		d.end, d.lo, d.hi = d.end+moved, d.lo+nodes, d.hi+nodes
		t.domain = append(t.domain, d)
	}
	for _, d := range old.nodes[from+1 : to] {
		t.nodes = append(t.nodes, d+moved)
	}
	t.hashes = append(t.hashes, old.hashes[from+1:to]...)

	// The first node's domains that do not hold the last one, too, end where they ended. Those of the last one are open.
	common := old.Layer(old.Common(first, last))
	for d := first; old.Layer(d) > common; d = old.Parent(d) {
		at := &t.domain[b.open[old.Layer(d)]]
		at.end, at.hi = old.domain[d].end+moved, old.domain[d].hi+nodes
	}
	if first != last {
		b.open = b.open[:common+1]
		for l := common + 1; l <= old.Depth(); l++ {
			b.open = append(b.open, old.Ancestor(last, l)+moved)
		}
	}
	b.last = old.keys(to-1, b.last)
}
