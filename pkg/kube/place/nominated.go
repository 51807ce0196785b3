package place

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// besides returns, by node index, who must be counted on nodes besides the snapshot:
// places planned for other groups, and pods that the scheduler has nominated there, of no
// lower priority than any pending member. The others are those of lower priority for whom
// victims leave: only members that the gang can do without must respect them, and without
// such members they are not sought.
func (p *Planner) besides(a *Attempt) (beside, others map[int]fit.Pods) {
	speaker := a.Lowest()
	if speaker == nil {
		return nil, nil
	}
	beside, others = map[int]fit.Pods{}, map[int]fit.Pods{}
	seen := map[types.UID]bool{}
	count := func(into map[int]fit.Pods, placed map[int][]*v1.Pod) {
		for i, pods := range placed {
			for _, pod := range pods {
				if info, err := framework.NewPodInfo(pod); err == nil && !seen[pod.UID] {
					seen[pod.UID] = true
					into[i] = append(into[i], info)
				}
			}
		}
	}
	needed := len(a.Group.Needed())
	surplus := needed < len(a.Group.Pending)
	if needed == 0 {
		others = beside
	}
	count(beside, p.cache.PlacesIn(a.Net.Tree, speaker))
	if surplus {
		count(others, p.cache.ReservedIn(a.Net.Tree, speaker))
	}
	for _, node := range p.cache.NominatedNodes() {
		i, ok := a.Net.Tree.NodeIndex(node)
		if !ok {
			continue
		}
		for _, info := range p.profile.NominatedPodsForNode(node) {
			pod := info.GetPod()
			if seen[pod.UID] || p.cache.HasPlace(pod) || p.cache.SameGroup(pod, speaker) {
				continue // places are counted already, and the group's own are not in its way
			}
			switch {
			case convert.Priority(pod) >= convert.Priority(speaker):
				beside[i] = append(beside[i], info)
			case surplus:
				others[i] = append(others[i], info)
			}
		}
	}
	if needed == 0 {
		return beside, nil // all respect them
	}
	return beside, others
}

// Lowest returns the pending member of lowest priority.
func (a *Attempt) Lowest() *v1.Pod {
	var low *v1.Pod
	for _, m := range a.Group.Pending {
		if pod := a.Group.Pods[m.Pod]; low == nil || convert.Priority(pod) < convert.Priority(low) {
			low = pod
		}
	}
	return low
}
