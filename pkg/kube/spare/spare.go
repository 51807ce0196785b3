// Package spare says which nodes gangs should not use although members fit there: the nodes that the argument spares keeps unused, and the
// nodes that the argument degraded uses last.
//
// It knows nodes, the tree and the two arguments. It must not know groups, plans or reservations: its callers say which nodes are used.
// Invariant: in each domain of an entry's layer at least one node stays usable.
package spare

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Nodes returns, by node index, which nodes a gang of a priority without running members leaves unused. nodes are by node index, nil for
// a missing one. used returns whether a node is not free for a reason that nodes does not show.
func Nodes(tree *topology.Tree, nodes []fwk.NodeInfo, args *config.Args, priority int32, used func(node int) bool) []bool {
	entries := slices.DeleteFunc(slices.Clone(args.Spares), func(s config.Spare) bool {
		return s.UnlessPriority != nil && priority >= *s.UnlessPriority
	})
	return spareNodes(tree, entries, func(i int) bool {
		n := nodes[i]
		return n != nil && isFree(n) && !Degraded(n.Node(), args.Degraded) && !used(i)
	})
}

// isFree returns whether a node is ready and schedulable, and runs only pods that run on every node.
func isFree(n fwk.NodeInfo) bool {
	for _, info := range n.GetPods() {
		if !convert.OnEveryNode(info.GetPod()) {
			return false
		}
	}
	return !n.Node().Spec.Unschedulable && convert.Ready(n.Node())
}

// spareNodes returns, by node index, which nodes to leave unused: in each domain of an entry's layer, the last nodes in the tree for which
// free returns true. A domain that has no more nodes than the entry says keeps none. Deeper layers come first, and their spare nodes count
// for the layers above.
func spareNodes(tree *topology.Tree, entries config.Spares, free func(node int) bool) []bool {
	spare := make([]bool, tree.NumNodes())
	for layer := tree.Depth() - 1; layer >= 0; layer-- {
		most := 0
		for _, s := range entries {
			if s.Layer == tree.LayerNames()[layer] {
				most = max(most, s.Nodes)
			}
		}
		for d := topology.Root; most > 0 && int(d) < tree.Len(); d++ {
			lo, hi := tree.Nodes(d)
			if tree.Layer(d) != layer || !tree.Named(d) || hi-lo <= most {
				continue
			}
			missing := most
			for _, marked := range spare[lo:hi] {
				if marked {
					missing--
				}
			}
			for i := hi - 1; i >= lo && missing > 0; i-- {
				if !spare[i] && free(i) {
					spare[i] = true
					missing--
				}
			}
		}
	}
	return spare
}

// Problems returns the entries of the argument spares that have no effect with a tree, as text for users; "" if there are none.
func Problems(tree *topology.Tree, spares config.Spares) string {
	var problems []string
	layers := tree.LayerNames()[:tree.Depth()]
	for i, s := range spares {
		field := fmt.Sprintf("CoschedulingArgs.spares[%d]", i)
		layer := slices.Index(layers, s.Layer)
		if layer < 0 {
			problems = append(problems, fmt.Sprintf("%s.layer: %q is invalid; supported values: %s", field, s.Layer, strings.Join(layers, ", ")))
			continue
		}
		largest := 0
		for d := topology.Root; int(d) < tree.Len(); d++ {
			if lo, hi := tree.Nodes(d); tree.Layer(d) == layer && tree.Named(d) {
				largest = max(largest, hi-lo)
			}
		}
		if largest > 0 && s.Nodes >= largest {
			problems = append(problems, fmt.Sprintf("%s.nodes: %d leaves no usable node in any %s domain; supported values: an integer < %d",
				field, s.Nodes, s.Layer, largest))
		}
	}
	return strings.Join(problems, "; ")
}

// Degraded returns whether a node matches an entry of the argument degraded.
func Degraded(node *v1.Node, by config.Degraded) bool {
	return slices.ContainsFunc(by.Conditions, func(d config.DegradedCondition) bool {
		return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
			return string(c.Type) == d.Type && c.Status == d.Status
		})
	}) || slices.ContainsFunc(by.Labels, func(label string) bool {
		key, value, _ := strings.Cut(label, "=")
		current, labelled := node.Labels[key]
		return labelled && current == value
	}) || slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool {
		return slices.Contains(by.Taints, t.Key)
	})
}
