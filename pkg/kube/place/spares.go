package place

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/spare"
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
	a.spares = spare.Nodes(a.Net.Tree, a.Nodes, args, a.planner.cache.Priority(a.Lowest()), func(i int) bool {
		takes := func(k kind) bool { return k.slots[i] > 0 }
		return len(a.beside[i]) > 0 || slices.Contains(reserved, a.Net.Tree.NodeName(i)) || !dependent && !slices.ContainsFunc(a.kinds, takes)
	})
	excluded := map[int]fwk.NodeInfo{}
	for i, isSpare := range a.spares {
		if isSpare {
			excluded[i] = nil
		}
	}
	if len(excluded) == 0 {
		return
	}
	a.remove(excluded)
}

// isSpare returns whether the attempt leaves a node unused, by node index.
func (a *Attempt) isSpare(node int) bool { return a.spares != nil && a.spares[node] }

// withSpares adds the number of nodes that are left unused.
func (d Diagnosis) withSpares(spares []bool) Diagnosis {
	for _, isSpare := range spares {
		if isSpare {
			d.Nodes++
			d.Lacks[spareReason]++
		}
	}
	return d
}
