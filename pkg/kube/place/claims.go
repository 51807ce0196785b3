package place

import (
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// SharedClaims returns the ResourceClaims that several members share, with allocations for a plan, in the order in which to write them.
// They are written before the members bind. If the allocations do not fit the plan's nodes, why says so; else it is "".
func (a *Attempt) SharedClaims(ctx context.Context, places []gang.Assignment) (claims []*resourceapi.ResourceClaim, why string) {
	if len(a.pages) == 0 {
		return nil, ""
	}
	var beside, members []fit.Put
	for _, i := range slices.Sorted(maps.Keys(a.beside)) {
		if n := a.Nodes[i]; n != nil {
			for _, p := range a.beside[i] {
				beside = append(beside, fit.Put{Pod: p.GetPod(), Node: n})
			}
		}
	}
	for _, place := range places {
		i, ok := a.Net.Tree.NodeIndex(place.Node)
		if !ok || a.Nodes[i] == nil {
			return nil, "node " + place.Node + " is gone"
		}
		members = append(members, fit.Put{Pod: a.Group.Pods[place.Pod], Node: a.Nodes[i]})
	}
	claims, s := a.pages.SharedClaims(ctx, beside, members)
	if !s.IsSuccess() {
		return nil, s.Message()
	}
	return claims, ""
}

// Ordered returns whether independent members must bind in the order of the plan.
// They must if some devices of their ResourceClaims suit only certain members.
func (a *Attempt) Ordered() bool { return a.pages.Ordered() }

// Reserved returns the pending members' reserved nodes: first the members in order, then the others in the group's order.
func (a *Attempt) Reserved(order []string) (places []gang.Assignment) {
	for _, pod := range order {
		places = append(places, gang.Assignment{Pod: pod, Node: a.Group.Places[pod]})
	}
	for _, m := range a.Group.Pending {
		if node := a.Group.Places[m.Pod]; node != "" && !slices.Contains(order, m.Pod) {
			places = append(places, gang.Assignment{Pod: m.Pod, Node: node})
		}
	}
	return places
}
