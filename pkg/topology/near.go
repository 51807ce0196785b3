package topology

import (
	"cmp"
	"iter"
	"slices"
)

// Near returns how near nodes are to each other, above 0 and up to 1. It is the mean over the layers between root and nodes of this
// quotient: the fewest domains that could contain so many nodes, divided by the domains used. ok is false without nodes or without such
// layers.
//
//	s1
//	  r1 n1 n2
//	  r2 n3 n4
//	s2
//	  r3 n5 n6      n1, n2: 1; n1, n3: (1 + 1/2) / 2; n1, n5: (1/2 + 1/2) / 2
func (t *Tree) Near(nodes iter.Seq[int]) (score float64, ok bool) {
	indexes := slices.Compact(slices.Sorted(nodes))
	if len(indexes) == 0 || t.Depth() < 2 {
		return 0, false
	}
	for layer := 1; layer < t.Depth(); layer++ {
		used := 0 // the nodes of one domain are adjacent
		for i, last := 0, ID(-1); i < len(indexes); i++ {
			if d := t.Ancestor(t.Node(indexes[i]), layer); d != last {
				used, last = used+1, d
			}
		}
		score += float64(t.fewest(layer, len(indexes))) / float64(used)
	}
	return score / float64(t.Depth()-1), true
}

// fewest returns the smallest number of domains of a layer that together have at least this number of nodes.
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
