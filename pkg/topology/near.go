package topology

import (
	"cmp"
	"iter"
	"slices"
)

// Near says how near some nodes are to one another, above 0 and up to 1: at each layer between the root
// and the nodes the fewest domains that have so many nodes, divided by how many these are in, and of
// that the mean. With 1 no other nodes are in fewer domains of any layer. ok is false where there is
// nothing to compare: no nodes, or no such layers.
//
//	s1
//	  r1 n1 n2
//	  r2 n3 n4
//	s2
//	  r3 n5 n6      n1, n2: 1; n1, n3: (1 + 1/2) / 2; n1, n5: (1/2 + 1/2) / 2
func (t *Tree) Near(nodes iter.Seq[int]) (score float64, ok bool) {
	is := slices.Compact(slices.Sorted(nodes))
	if len(is) == 0 || t.Depth() < 2 {
		return 0, false
	}
	for layer := 1; layer < t.Depth(); layer++ {
		in := 0 // the nodes of one domain lie side by side
		for i, last := 0, ID(-1); i < len(is); i++ {
			if d := t.Ancestor(t.Node(is[i]), layer); d != last {
				in, last = in+1, d
			}
		}
		score += float64(t.fewest(layer, len(is))) / float64(in)
	}
	return score / float64(t.Depth()-1), true
}

// fewest is in how few domains of a layer there are so many nodes.
func (t *Tree) fewest(layer, nodes int) (domains int) {
	var sizes []int
	for d := Root; int(d) < t.Len(); d++ {
		if t.Layer(d) == layer {
			lo, hi := t.Nodes(d)
			sizes = append(sizes, hi-lo)
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	for ; nodes > 0 && domains < len(sizes); domains++ {
		nodes -= sizes[domains]
	}
	return domains
}
