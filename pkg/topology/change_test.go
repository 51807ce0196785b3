package topology_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestChange: after any changes of nodes, one by one or many at once, the changed tree equals a newly built tree. The
// earlier tree stays unchanged.
func TestChange(t *testing.T) {
	kinds := []string{"come", "gone", "moved", "renamed", "nothing", "empty", "unnamed domains", "namesakes", "many at once"}
	worlds.Check(t, 1500, kinds, func(t *rapid.T, y worlds.Tally) {
		n := worlds.Draw(t, 18)
		tree := n.Build()
		for range 1 + worlds.Even(t, 5, "steps") {
			was := topology.Build(n.Layers, n.Nodes)
			gone, come := changes(t, &n, y)
			next := tree.Change(gone, come)
			same(t, tree, was)
			tree = next
			same(t, tree, n.Build())
			check(t, tree)
			y.Count("nothing", len(gone)+len(come) == 0)
			y.Count("many at once", len(gone)+len(come) > 4)
		}
		y.Count("empty", tree.NumNodes() == 0)
	})
}

// changes draws a change of the nodes of a network, applies it, and returns the removed node indexes and the added nodes.
func changes(t *rapid.T, n *worlds.Network, y worlds.Tally) (gone []int, come []topology.Node) {
	before := n.Build()
	leave := func(node topology.Node) {
		i, _ := before.NodeIndex(node.Name)
		gone = append(gone, i)
	}
	move := func(i int, path []string) {
		leave(n.Nodes[i])
		n.Nodes[i].Path = path
		come = append(come, n.Nodes[i])
	}
	somePath := func() (path []string) {
		if len(n.Nodes) > 0 && worlds.Chance(t, 2, "beside another") {
			path = slices.Clone(rapid.SampledFrom(n.Nodes).Draw(t, "other").Path)
		} else {
			for l := range n.Layers {
				path = append(path, fmt.Sprint(string("abc"[worlds.Even(t, 3, "domain")]), l, worlds.Even(t, 12, "number")))
			}
		}
		for l := range path {
			if worlds.Chance(t, 6, "unnamed") {
				path[l] = ""
				y.Count("unnamed domains", true)
			}
		}
		return path
	}
	switch worlds.Even(t, 4, "what") {
	case 0: // some go, or all
		most := worlds.Even(t, 3, "how many") * 4
		n.Nodes = slices.DeleteFunc(n.Nodes, func(node topology.Node) bool {
			if most > 0 && len(gone) < most && worlds.Chance(t, 2, "goes") {
				leave(node)
				return true
			}
			return false
		})
		y.Count("gone", len(gone) > 0)
	case 1: // some come; one may have the name of a block
		for range 1 + worlds.Even(t, 6, "come") {
			node := topology.Node{Name: fmt.Sprint(string("abn"[worlds.Even(t, 3, "letter")]), worlds.Even(t, 120, "number")), Path: somePath()}
			if taken := func(x topology.Node) bool { return x.Name == node.Name }; !slices.ContainsFunc(n.Nodes, taken) {
				n.Nodes, come = append(n.Nodes, node), append(come, node)
				y.Count("come", true)
				y.Count("namesakes", slices.ContainsFunc(n.Nodes, func(x topology.Node) bool { return slices.Contains(x.Path, node.Name) }))
			}
		}
	case 2: // some have other labels
		for i := range n.Nodes {
			if worlds.Chance(t, 3, "moves") {
				move(i, somePath())
				y.Count("moved", true)
			}
		}
	case 3: // all of a domain have another name for it, or none
		if len(n.Nodes) == 0 || len(n.Layers) == 0 {
			return nil, nil
		}
		l := worlds.Even(t, len(n.Layers), "layer")
		from, to := rapid.SampledFrom(n.Nodes).Draw(t, "one of them").Path[l], rapid.SampledFrom([]string{"", "a10", "b2", "z"}).Draw(t, "name")
		for i, node := range n.Nodes {
			if node.Path[l] == from {
				path := slices.Clone(node.Path)
				path[l] = to
				move(i, path)
				y.Count("renamed", true)
			}
		}
	}
	return gone, come
}

// same fails if two trees differ in anything that can be asked of them.
func same(t *rapid.T, a, b *topology.Tree) {
	if a.Len() != b.Len() || a.NumNodes() != b.NumNodes() || !slices.Equal(a.LayerNames(), b.LayerNames()) {
		t.Fatalf("%d domains, %d nodes, not %d and %d", a.Len(), a.NumNodes(), b.Len(), b.NumNodes())
	}
	for d := topology.Root; int(d) < a.Len(); d++ {
		alo, ahi := a.Nodes(d)
		blo, bhi := b.Nodes(d)
		if a.Name(d) != b.Name(d) || a.Layer(d) != b.Layer(d) || a.Parent(d) != b.Parent(d) || a.End(d) != b.End(d) || alo != blo || ahi != bhi {
			t.Fatalf("domain %d is %q (parent %d, end %d, nodes %d to %d), not %q (parent %d, end %d, nodes %d to %d)", d,
				a.Name(d), a.Parent(d), a.End(d), alo, ahi, b.Name(d), b.Parent(d), b.End(d), blo, bhi)
		}
	}
	for i := range a.NumNodes() {
		if a.Node(i) != b.Node(i) || a.NodeName(i) != b.NodeName(i) {
			t.Fatalf("node %d is %q, not %q", i, a.NodeName(i), b.NodeName(i))
		}
		if j, ok := a.NodeIndex(b.NodeName(i)); !ok || j != i {
			t.Fatalf("node %q is %d (%v), not %d", b.NodeName(i), j, ok, i)
		}
	}
	for _, stranger := range []string{"", "nobody", "n1000"} {
		if _, ok := a.NodeIndex(stranger); ok {
			t.Fatalf("there is no node %q", stranger)
		}
	}
}

// TestNodeIndex: names of all lengths are found, also names that differ in one character only.
func TestNodeIndex(t *testing.T) {
	var nodes []topology.Node
	name := ""
	for i := range 300 {
		nodes = append(nodes, topology.Node{Name: name + "x"}, topology.Node{Name: name + "y"})
		name += string(rune('a' + i%26))
	}
	tree := topology.Build(nil, nodes)
	for _, n := range nodes {
		if i, ok := tree.NodeIndex(n.Name); !ok || tree.NodeName(i) != n.Name {
			t.Fatalf("node %q is %d (%v)", n.Name, i, ok)
		}
		if _, ok := tree.NodeIndex(n.Name + "z"); ok {
			t.Fatalf("there is no %q", n.Name+"z")
		}
	}
}
