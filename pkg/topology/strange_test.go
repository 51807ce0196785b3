package topology_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestChangeOfStrangeNames is TestChange for unusual names, in up to six layers.
//
//	Names that differ only in zeros, or after a number.
//	Names that equal domain names of other layers.
//	Numbers beyond 64 bits.
func TestChangeOfStrangeNames(t *testing.T) {
	names := []string{
		"0", "00", "1", "01", "001", "1a", "01a", "1-0", "1-00", "a", "A", "a1", "a01", "a1b", "a01b", "a1b0", "18446744073709551616",
		"018446744073709551616", "é", "-",
	}
	worlds.Check(t, 500, []string{"alike but for zeros", "six layers", "no node is left"}, func(t *rapid.T, y worlds.Tally) {
		layers := []string{"A", "B", "C", "D", "E", "F"}[:worlds.Even(t, 7, "layers")]
		few := names[:2+worlds.Even(t, len(names)-1, "names")]
		draw := func(name string) topology.Node {
			n := topology.Node{Name: name}
			for range worlds.Even(t, len(layers)+1, "layers that it names") {
				n.Path = append(n.Path, append([]string{"", ""}, few...)[worlds.Even(t, len(few)+2, "name")])
			}
			return n
		}
		nodes := map[string]topology.Node{}
		tree := topology.Build(layers, nil)
		for range 6 {
			var gone []int
			var come []topology.Node
			for _, name := range few {
				_, is := nodes[name]
				switch at, _ := tree.NodeIndex(name); {
				case is && worlds.Chance(t, 3, "goes"):
					gone = append(gone, at)
					delete(nodes, name)
				case is && worlds.Chance(t, 3, "moves"):
					gone, nodes[name] = append(gone, at), draw(name)
					come = append(come, nodes[name])
				case !is && worlds.Chance(t, 2, "comes"):
					nodes[name] = draw(name)
					come = append(come, nodes[name])
				}
			}
			tree = tree.Change(gone, rapid.Permutation(come).Draw(t, "order"))
			var all []topology.Node
			for _, n := range nodes {
				all = append(all, n)
			}
			same(t, tree, topology.Build(layers, all))
			check(t, tree)
			for i := 1; i < tree.NumNodes(); i++ {
				if tree.Parent(tree.Node(i-1)) == tree.Parent(tree.Node(i)) && topology.CompareNames(tree.NodeName(i-1), tree.NodeName(i)) >= 0 {
					t.Fatalf("%q comes before %q", tree.NodeName(i-1), tree.NodeName(i))
				}
			}
			y.Count("no node is left", len(nodes) == 0 && len(gone) > 0)
		}
		y.Count("six layers", len(layers) == 6)
		y.Count("alike but for zeros", slices.Contains(few, "01a"))
	})
}

// TestCompareNamesIsAnOrder: of any three names the first comes before the last if the second is between them.
func TestCompareNamesIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("01a-")), 0, 4, -1)
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if topology.CompareNames(a, b) != -topology.CompareNames(b, a) || (topology.CompareNames(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
		if topology.CompareNames(a, b) <= 0 && topology.CompareNames(b, c) <= 0 && topology.CompareNames(a, c) > 0 {
			t.Fatalf("%q, %q and %q", a, b, c)
		}
	})
}
