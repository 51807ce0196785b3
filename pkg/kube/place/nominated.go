package place

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
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

// keepOff leaves out the nodes that reservations keep the group off from other nodes, by terms of either: whoever has left for a reservation
// would be made again, go to another node of the same domain, and be evicted once more. A group with a reservation of its own goes by that.
func (a *Attempt) keepOff() {
	low := a.Lowest()
	if low == nil || a.Group.Waiting {
		return
	}
	own := slices.ContainsFunc(a.Group.Pending, func(m gang.Member) bool { return convert.KeepsOffAfar(a.Group.Pods[m.Pod]) })
	kept := a.planner.cache.KeptAfar(low, own)
	if len(kept) == 0 {
		return
	}
	var members []fwk.PodInfo
	for _, m := range a.Group.Pending {
		if info, err := framework.NewPodInfo(a.Group.Pods[m.Pod]); err == nil {
			members = append(members, info)
		}
	}
	namespaces := a.profile.SharedInformerFactory().Core().V1().Namespaces().Lister()
	for _, by := range kept {
		i, ok := a.Net.Tree.NodeIndex(by.Node)
		other, err := framework.NewPodInfo(by.Pod)
		if !ok || a.all[i] == nil || err != nil {
			continue
		}
		var off fit.Off
		for _, m := range members {
			off.Add(m, other, a.all[i].Node(), namespaces)
		}
		a.close(off, "places held for gang "+by.Gang.String())
	}
}

// close leaves out the nodes of some domains.
func (a *Attempt) close(off fit.Off, why string) {
	for i, n := range a.Nodes {
		if n == nil || !off.Closes(n.Node()) {
			continue
		}
		a.Replace(i, nil)
		if a.kept == nil {
			a.kept = map[int]string{}
		}
		a.kept[i] = why
	}
}

// avoided says which nodes are left out, and why.
func (a *Attempt) avoided() map[string]string {
	if len(a.kept) == 0 {
		return a.Group.Avoid
	}
	all := map[string]string{}
	for i, why := range a.kept {
		all[a.Net.Tree.NodeName(i)] = why
	}
	maps.Copy(all, a.Group.Avoid)
	return all
}
