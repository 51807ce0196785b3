package place

import (
	"github.com/muster-scheduler/muster/pkg/kube/attract"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// countAttracting sets World.Attract: by node, the number of pods with the same network-topology-selector as the members, and of
// successors in the group for which the node is reserved.
func (a *Attempt) countAttracting() {
	want, reserved := convert.Selector(a.Group.Pods[a.Group.Pending[0].Pod]), a.planner.cache.SuccessorNodes(a.Group.Key)
	if want == "" && len(reserved) == 0 {
		return
	}
	a.World.Attract = make([]offer.Slots, len(a.Nodes))
	for i, n := range a.Nodes {
		if n != nil && want != "" {
			a.World.Attract[i] = attract.Pods(n, want)
		}
	}
	for _, name := range reserved {
		if i, ok := a.Net.Tree.NodeIndex(name); ok {
			a.World.Attract[i]++
		}
	}
}
