package place

import (
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// Joint are the claims that members have together, as they are to be written before these come to their places, in
// this order; nil for most groups. why says that the places are not what the plan took them for.
func (a *Attempt) Joint(ctx context.Context, places []gang.Place) (claims []*resourceapi.ResourceClaim, why string) {
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
	for _, at := range places {
		i, ok := a.Net.Tree.NodeIndex(at.Node)
		if !ok || a.Nodes[i] == nil {
			return nil, "node " + at.Node + " is gone"
		}
		members = append(members, fit.Put{Pod: a.Group.Pods[at.Pod], Node: a.Nodes[i]})
	}
	claims, s := a.pages.Joint(ctx, beside, members)
	if !s.IsSuccess() {
		return nil, s.Message()
	}
	return claims, ""
}

// Ordered says whether members must come in the order of their places, as they do in Joint, though none depends on another:
// devices do for some of them that others had better leave to them.
func (a *Attempt) Ordered() bool { return a.pages.Ordered() }

// Reserved are the places of a reservation, in the order in which members come; nil is no order but that of the
// group.
func (a *Attempt) Reserved(turn []string) (places []gang.Place) {
	for _, pod := range turn {
		places = append(places, gang.Place{Pod: pod, Node: a.Group.Places[pod]})
	}
	for _, m := range a.Group.Pending {
		if node := a.Group.Places[m.Pod]; node != "" && !slices.Contains(turn, m.Pod) {
			places = append(places, gang.Place{Pod: m.Pod, Node: node})
		}
	}
	return places
}
