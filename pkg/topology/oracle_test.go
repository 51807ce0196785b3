package topology_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// nextName is the identity of an unnamed domain: the first name at or below its layer,
// and that name's layer.
func nextName(n topology.Node, layer int) (int, string) {
	for l := layer; l < len(n.Path); l++ {
		if n.Path[l] != "" {
			return l, n.Path[l]
		}
	}
	return len(n.Path), n.Name
}

// together is the twin of the tree: it compares labels, and says whether two nodes
// share their domain at a layer (0 is the first below the root).
func together(a, b topology.Node, layer int) bool {
	for l := range layer + 1 {
		la, na := nextName(a, l)
		lb, nb := nextName(b, l)
		if la != lb || na != nb {
			return false
		}
	}
	return true
}

// TestBuild compares the tree with the labels, pair by pair.
func TestBuild(t *testing.T) {
	kinds := []string{"unnamed domains", "namesakes", "no layers", "one node"}
	worlds.Check(t, 2000, kinds, func(t *rapid.T, y worlds.Tally) {
		n := worlds.Draw(t, 18)
		tree := n.Build()
		check(t, tree)
		y.Count("no layers", tree.Depth() == 1)
		y.Count("one node", tree.NumNodes() == 1)
		leaf := map[string]topology.ID{}
		for _, node := range n.Nodes {
			i, ok := tree.NodeIndex(node.Name)
			if !ok || tree.NodeName(i) != node.Name {
				t.Fatalf("node %s is lost", node.Name)
			}
			leaf[node.Name] = tree.Node(i)
			for l, name := range node.Path {
				if d := tree.Ancestor(leaf[node.Name], l+1); tree.Name(d) != name || tree.Layer(d) != l+1 {
					t.Fatalf("node %s is below %q at layer %d, not %q", node.Name, tree.Name(d), l+1, name)
				}
			}
			if want := strings.Join(nonEmpty(append(slices.Clone(node.Path), node.Name)), "/"); tree.Path(leaf[node.Name]) != want {
				t.Fatalf("path %q, not %q", tree.Path(leaf[node.Name]), want)
			}
		}
		if tree.NumNodes() != len(n.Nodes) {
			t.Fatalf("%d nodes became %d", len(n.Nodes), tree.NumNodes())
		}
		unnamed, namesakes := false, false
		for _, a := range n.Nodes {
			for _, b := range n.Nodes {
				for l := range n.Layers {
					da, db := tree.Ancestor(leaf[a.Name], l+1), tree.Ancestor(leaf[b.Name], l+1)
					if (da == db) != together(a, b, l) {
						t.Fatalf("%v and %v share the domain of layer %d: %v", a, b, l+1, da == db)
					}
					unnamed = unnamed || a.Path[l] == ""
					namesakes = namesakes || da != db && a.Path[l] != "" && a.Path[l] == b.Path[l]
				}
				if got, want := tree.Common(leaf[a.Name], leaf[b.Name]), common(tree, leaf[a.Name], leaf[b.Name]); got != want {
					t.Fatalf("common of %v and %v is %d, not %d", a, b, got, want)
				}
			}
		}
		y.Count("unnamed domains", unnamed)
		y.Count("namesakes", namesakes)
	})
}

// TestEnclosing: of any nodes the deepest domain that holds them all, in whatever order and
// however often they come, by index or by name.
func TestEnclosing(t *testing.T) {
	kinds := []string{"no pods", "one node", "in a domain", "across the cluster", "strangers"}
	worlds.Check(t, 2000, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, 18).Build()
		var some []int
		var names []string
		for range worlds.Even(t, 5, "nodes") {
			i := worlds.Even(t, tree.NumNodes(), "node")
			some, names = append(some, i), append(names, tree.NodeName(i))
			if worlds.Chance(t, 8, "stranger") {
				names = append(names, "stranger")
				y.Count("strangers", true)
			}
		}
		got, ok := tree.Enclosing(slices.Values(some))
		if byName, known := tree.Enclosing(tree.Indexes(slices.Values(names))); byName != got || known != ok {
			t.Fatalf("%v are in %d %v, %v in %d %v", some, got, ok, names, byName, known)
		}
		y.Count("no pods", !ok)
		if ok != (len(some) > 0) {
			t.Fatalf("%v are in a domain: %v", some, ok)
		}
		if !ok {
			return
		}
		best := topology.Root
		for d := topology.Root; int(d) < tree.Len(); d++ {
			outside := func(i int) bool { return !worlds.Holds(tree, d, tree.Node(i)) }
			if !slices.ContainsFunc(some, outside) && tree.Layer(d) > tree.Layer(best) {
				best = d
			}
		}
		if got != best || !tree.Named(got) {
			t.Fatalf("%v are in %d, not in %d", some, best, got)
		}
		y.Count("one node", tree.IsNode(got))
		y.Count("in a domain", got != topology.Root && !tree.IsNode(got))
		y.Count("across the cluster", got == topology.Root && len(some) > 1)
	})
}

// common asks every domain, from the deepest up, whether it holds both.
func common(t *topology.Tree, a, b topology.ID) topology.ID {
	best := topology.Root
	for d := topology.Root; int(d) < t.Len(); d++ {
		if worlds.Holds(t, d, a) && worlds.Holds(t, d, b) && t.Layer(d) > t.Layer(best) {
			best = d
		}
	}
	return best
}

func nonEmpty(names []string) []string {
	return slices.DeleteFunc(names, func(s string) bool { return s == "" })
}

// check holds a tree against what its package comment promises.
func check(t *rapid.T, tree *topology.Tree) {
	if tree.Parent(topology.Root) != topology.Root || tree.End(topology.Root) != topology.ID(tree.Len()) || !tree.Named(topology.Root) {
		t.Fatalf("the root is not the root")
	}
	for d := topology.Root; int(d) < tree.Len(); d++ {
		if d != topology.Root && (tree.Parent(d) >= d || tree.Layer(tree.Parent(d)) != tree.Layer(d)-1) {
			t.Fatalf("parent of %d is %d", d, tree.Parent(d))
		}
		lo, hi := tree.Nodes(d)
		for x := topology.Root; int(x) < tree.Len(); x++ {
			if below := worlds.Holds(tree, d, x); below != (d <= x && x < tree.End(d)) {
				t.Fatalf("%d below %d: %v, but the range is [%d,%d)", x, d, below, d, tree.End(d))
			}
		}
		for i := range tree.NumNodes() {
			if below := worlds.Holds(tree, d, tree.Node(i)); below != (lo <= i && i < hi) {
				t.Fatalf("node %d below %d: %v, but the range is [%d,%d)", i, d, below, lo, hi)
			}
		}
		checkChildren(t, tree, d)
	}
}

func checkChildren(t *rapid.T, tree *topology.Tree, d topology.ID) {
	kids := slices.Collect(tree.Children(d))
	if tree.IsNode(d) != (len(kids) == 0 && tree.NumNodes() > 0) {
		t.Fatalf("%d has %d children, node: %v", d, len(kids), tree.IsNode(d))
	}
	for i, k := range kids {
		if tree.Parent(k) != d {
			t.Fatalf("%d is a child of %d with parent %d", k, d, tree.Parent(k))
		}
		if i == 0 {
			continue
		}
		a, b := tree.Name(kids[i-1]), tree.Name(k)
		if a == "" && b != "" || b != "" && topology.CompareNames(a, b) >= 0 {
			t.Fatalf("child %q stands before %q", a, b)
		}
	}
}

// TestOrderOfNodes: the tree does not depend on the order in which nodes come.
func TestOrderOfNodes(t *testing.T) {
	worlds.Check(t, 500, nil, func(t *rapid.T, _ worlds.Tally) {
		n := worlds.Draw(t, 18)
		a, b := n.Build(), n.Shuffled(t).Build()
		if a.Len() != b.Len() {
			t.Fatalf("%d domains, in another order %d", a.Len(), b.Len())
		}
		for d := topology.Root; int(d) < a.Len(); d++ {
			if a.Path(d) != b.Path(d) || a.Parent(d) != b.Parent(d) || a.End(d) != b.End(d) {
				t.Fatalf("domain %d is %q, in another order %q", d, a.Path(d), b.Path(d))
			}
		}
	})
}

func TestEmptyTree(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer"}, nil)
	if tree.Len() != 1 || tree.NumNodes() != 0 || tree.Depth() != 2 || tree.End(topology.Root) != 1 {
		t.Fatalf("%d domains, %d nodes, depth %d", tree.Len(), tree.NumNodes(), tree.Depth())
	}
	if _, ok := tree.NodeIndex("n1"); ok {
		t.Fatal("there is no n1")
	}
	if l, ok := tree.LayerIndex("SpineLayer"); !ok || l != 1 {
		t.Fatalf("SpineLayer is layer %d", l)
	}
	if _, ok := tree.LayerIndex("spineLayer"); ok {
		t.Fatal("layers have the names that they have")
	}
}

// TestCompareNames: the order is total, agrees with numbers, and equal means the same.
func TestCompareNames(t *testing.T) {
	name := rapid.StringMatching(`[a-c]{0,2}-?[0-9]{0,3}[a-b]?[0-9]{0,2}`)
	worlds.Check(t, 2000, nil, func(t *rapid.T, _ worlds.Tally) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		ab, ba := topology.CompareNames(a, b), topology.CompareNames(b, a)
		if ab != -ba || (ab == 0) != (a == b) {
			t.Fatalf("%q %d %q %d", a, ab, b, ba)
		}
		if ab <= 0 && topology.CompareNames(b, c) <= 0 && topology.CompareNames(a, c) > 0 {
			t.Fatalf("%q ≤ %q ≤ %q, but not %q ≤ %q", a, b, c, a, c)
		}
	})
	sorted := []string{
		"", "1", "2", "010", "10", "n", "n-2", "n-10", "n2", "n2a", "n02b", "n2b", "n10", "n99999999999999999999", "n100000000000000000000", "x",
	}
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if topology.CompareNames(a, b) >= 0 || topology.CompareNames(b, a) <= 0 {
				t.Errorf("%q does not come before %q", a, b)
			}
		}
	}
}
