package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Argument spares: a gang without running members leaves healthy free nodes unused in each domain of a layer. They are excluded from its
// attempt, for free capacity and for evictions. Gangs with running members use them, and so do pods without a gang and Evictable gangs.

// spareReason is the reason of nodes that are left unused, in the form of a Filter's message.
const spareReason = "node(s) are kept spare by the argument spares"

// keepSpares excludes the spare nodes from the attempt of a gang without running members. Only nodes that take a member count as spare. It
// does so once for each attempt.
func (a *Attempt) keepSpares() {
	args := a.planner.Args()
	if len(args.Spares) == 0 || a.spares != nil || len(a.Group.Bound) > 0 || a.Group.Alone || a.Group.Evictable {
		return
	}
	reserved, dependent := slices.Collect(maps.Values(a.Group.Places)), a.Dependent()
	a.spares = a.planner.Spares(a.Net.Tree, a.Nodes, a.planner.cache.Priority(a.Lowest()), func(i int) bool {
		takes := func(k kind) bool { return k.slots[i] > 0 }
		return len(a.beside[i]) > 0 || slices.Contains(reserved, a.Net.Tree.NodeName(i)) || !dependent && !slices.ContainsFunc(a.kinds, takes)
	})
	excluded := map[int]fwk.NodeInfo{}
	for i, spare := range a.spares {
		if spare {
			excluded[i] = nil
		}
	}
	if len(excluded) == 0 {
		return
	}
	a.Replace(excluded)
	for k := range a.kinds {
		a.kinds[k].slots = slices.Clone(a.kinds[k].slots)
		for i := range excluded {
			a.kinds[k].slots[i] = 0
		}
	}
}

// isSpare returns whether the attempt leaves a node unused, by node index.
func (a *Attempt) isSpare(node int) bool { return a.spares != nil && a.spares[node] }

// withSpares adds the number of nodes that are left unused.
func (d Diagnosis) withSpares(spares []bool) Diagnosis {
	for _, spare := range spares {
		if spare {
			d.Nodes++
			d.Lacks[spareReason]++
		}
	}
	return d
}

// Spares returns, by node index, which nodes a gang of a priority without running members leaves unused. nodes are by node index, nil for
// a missing one. used returns whether a node is not free for a reason that nodes does not show.
func (p *Planner) Spares(tree *topology.Tree, nodes []fwk.NodeInfo, priority int32, used func(node int) bool) []bool {
	args := p.Args()
	entries := slices.DeleteFunc(slices.Clone(args.Spares), func(s config.Spare) bool {
		return s.UnlessPriority != nil && priority >= *s.UnlessPriority
	})
	return spareNodes(tree, entries, func(i int) bool {
		n := nodes[i]
		return n != nil && isFree(n) && !isDegraded(n.Node(), args.Degraded) && !used(i)
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

// SpareProblems returns the entries of the argument spares that have no effect with a tree, as text for users; "" if there are none.
func SpareProblems(tree *topology.Tree, spares config.Spares) string {
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
