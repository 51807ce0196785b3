package place

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Sees says whether the next attempt will know by itself that a node, which has refused a member
// of a group, does not take those whom the plan has put there: somebody has come since. Then
// nobody need avoid the node, and it is used again as soon as that has changed.
func (p *Planner) Sees(ctx context.Context, group *cache.Group, node string) bool {
	nodes, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false
	}
	there := *group
	there.Group = group.On(node)
	a := p.NewAttempt(&there, nodes, nil)
	i, ok := a.Net.Tree.NodeIndex(node)
	if !ok || a.Nodes[i] == nil || len(there.Pending) == 0 {
		return false
	}
	is := a.Nodes[i]
	if a.sortKinds(ctx) != nil {
		return false
	}
	back := make([][]*v1.Pod, len(a.Nodes)) // those who have come before it will return
	for _, info := range is.GetPods() {
		if there.IsPending(convert.PodKey(info.GetPod())) {
			back[i] = append(back[i], info.GetPod())
		}
	}
	_, why := a.PlacesFit(ctx, back)
	return why != ""
}
