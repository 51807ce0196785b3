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
			if seen[pod.UID] || pod.UID == speaker.UID || p.cache.HasPlace(pod) || p.cache.SameGroup(pod, speaker) {
				continue // places are counted already, and the group's own are not in its way
			}
			switch {
			case p.cache.Priority(pod) >= p.cache.Priority(speaker):
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
		if pod := a.Group.Pods[m.Pod]; low == nil || a.planner.cache.Priority(pod) < a.planner.cache.Priority(low) {
			low = pod
		}
	}
	return low
}

// findComers notes the members with places that reservations keep, who keep the group off other nodes, or are kept off by it: whoever has left for
// a reservation would be made again, go to another node of the same domain, and be evicted once more. A group with a reservation of its
// own goes by that.
func (a *Attempt) findComers() {
	low := a.Lowest()
	if low == nil || a.Group.Waiting {
		return
	}
	own := slices.ContainsFunc(a.Group.Pending, func(m gang.Member) bool { return convert.KeepsOffAfar(a.Group.Pods[m.Pod]) })
	a.comers = a.planner.comers(low, own, func(node string) fwk.NodeInfo {
		if i, ok := a.Net.Tree.NodeIndex(node); ok {
			return a.all[i]
		}
		return nil
	})
}

// Off says where a pod without a gang may not be because of such members; nil if that is nowhere.
func (p *Planner) Off(pod *v1.Pod) fit.Off {
	nodes := p.profile.SnapshotSharedLister().NodeInfos()
	return p.comers(pod, convert.KeepsOffAfar(pod), func(node string) fwk.NodeInfo {
		if n, err := nodes.Get(node); err == nil {
			return n
		}
		return nil
	}).Off(pod)
}

// comers are those whom reservations keep places for, as cache.KeptAfar has them; nil if that is nobody.
func (p *Planner) comers(pod *v1.Pod, own bool, on func(node string) fwk.NodeInfo) *fit.Comers {
	kept := p.cache.KeptAfar(pod, own)
	if len(kept) == 0 {
		return nil
	}
	pods := make([]*v1.Pod, len(kept))
	for i, by := range kept {
		pods[i] = by.Pod
	}
	all := fit.NewComers(p.profile.SharedInformerFactory().Core().V1().Namespaces().Lister())
	for i, template := range p.cache.Templates(pods) {
		if n := on(kept[i].Node); n != nil {
			all.Add(pods[i], template, n.Node(), "gang "+kept[i].Gang.String())
		}
	}
	return all
}

// keepOff leaves out the nodes that all members are kept off, and notes those that some are.
func (a *Attempt) keepOff() {
	if !slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.Off() != nil }) {
		return
	}
	kept, out := maps.Clone(a.kept), map[int]fwk.NodeInfo{}
	if kept == nil {
		kept = map[int]string{}
	}
	for i, n := range a.Nodes {
		if n == nil {
			continue
		}
		all := true
		for _, k := range a.kinds {
			whom, closed := k.counter.Off().Closes(n.Node())
			if closed {
				kept[i] = "reserved for " + whom
			}
			all = all && closed
		}
		if all {
			out[i] = nil
		}
	}
	a.kept = kept
	a.Replace(out)
}

// avoided says which nodes are left out, for all members or some, and why.
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
