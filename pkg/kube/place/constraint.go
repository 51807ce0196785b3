package place

import (
	"strings"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// BrokenConstraint returns the topology constraint that the group's assignments and running members break; "" if none.
// The tree may have changed since the plan, or members may have lost their nodes.
// If the group waits with a reservation, the assignments must include all needed members that exist.
func BrokenConstraint(group *cache.Group, tree *topology.Tree) string {
	job := mixed.Job{}
	job.All, job.Sets = convert.Gather(group.Gather, group.Constraints, tree, group.Gangs)
	gangs := map[gang.Ref]int{}
	places := make([][]offer.Slots, len(group.Gangs))
	for i, g := range group.Gangs {
		gangs[g.Ref] = i
		places[i] = make([]offer.Slots, tree.NumNodes())
		job.Gangs = append(job.Gangs, mixed.Gang{Bound: make([]offer.Slots, tree.NumNodes())})
	}
	if group.Choice.Any() {
		job.Choice = group.Choice
		for i, g := range group.Choice.Gangs {
			if g.Open {
				job.Gangs[i].Need = offer.Slots(g.Need)
			}
		}
	}
	if group.Waiting {
		for _, m := range group.Pending {
			i := gangs[m.Gang]
			if open := job.Choice.Any() && job.Choice.Gangs[i].Open; !open && int(job.Gangs[i].Need) < group.Gangs[i].Need {
				job.Gangs[i].Need++
			}
		}
	}
	for _, members := range [][]gang.Member{group.Pending, group.Bound} {
		for _, m := range members {
			into, node := job.Gangs[gangs[m.Gang]].Bound, m.Node
			if place, ok := group.Places[m.Pod]; ok {
				into, node = places[gangs[m.Gang]], place
			}
			if i, ok := tree.NodeIndex(node); ok {
				into[i]++
			}
		}
	}
	breach := job.Holds(tree, places)
	if breach == nil {
		return ""
	}
	if len(breach.Gangs) == 0 || len(group.Gangs) == 1 {
		return breach.String()
	}
	names := make([]string, len(breach.Gangs))
	for i, g := range breach.Gangs {
		names[i] = group.Gangs[g].Ref.String()
	}
	return "gang " + strings.Join(names, ", ") + ": " + breach.String()
}
