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

// podsBeside returns, by node index, the pods that count on nodes although the snapshot lacks them. beside has planned and nominated pods
// whose priority is at least that of the lowest pending member. forSurplus has the ones of lower priority with a reservation. Only members
// beyond minMember must respect forSurplus; without such members it is empty.
func (p *Planner) podsBeside(a *Attempt) (beside, forSurplus map[int]fit.Pods) {
	lowest := a.Lowest()
	if lowest == nil {
		return nil, nil
	}
	beside, forSurplus = map[int]fit.Pods{}, map[int]fit.Pods{}
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
		forSurplus = beside
	}
	count(beside, p.cache.PlacesIn(a.Net.Tree, lowest))
	if surplus {
		count(forSurplus, p.cache.ReservedIn(a.Net.Tree, lowest))
	}
	for _, node := range p.cache.NominatedNodes() {
		i, ok := a.Net.Tree.NodeIndex(node)
		if !ok {
			continue
		}
		for _, info := range p.profile.NominatedPodsForNode(node) {
			pod := info.GetPod()
			if seen[pod.UID] || pod.UID == lowest.UID || p.cache.HasPlace(pod) || p.cache.SameGroup(pod, lowest) {
				continue // already counted, or of the same group
			}
			switch {
			case p.cache.Priority(pod) >= p.cache.Priority(lowest):
				beside[i] = append(beside[i], info)
			case surplus:
				forSurplus[i] = append(forSurplus[i], info)
			}
		}
	}
	if needed == 0 {
		return beside, nil // all members respect them
	}
	return beside, forSurplus
}

// Lowest returns the pending member of lowest priority; nil without pending members.
func (a *Attempt) Lowest() *v1.Pod {
	var low *v1.Pod
	for _, m := range a.Group.Pending {
		if pod := a.Group.Pods[m.Pod]; low == nil || a.planner.cache.Priority(pod) < a.planner.cache.Priority(low) {
			low = pod
		}
	}
	return low
}

// findReservedMembers sets a.reservedMembers: members of others with reserved nodes, if anti-affinity with this group applies beyond one
// node. Otherwise a recreated victim could be placed near them and evicted again. It sets none for a group with a reservation.
func (a *Attempt) findReservedMembers() {
	low := a.Lowest()
	if low == nil || a.Group.Waiting {
		return
	}
	own := slices.ContainsFunc(a.Group.Pending, func(m gang.Member) bool { return convert.KeepsOffAfar(a.Group.Pods[m.Pod]) })
	a.reservedMembers = a.planner.reservedMembers(low, own, func(node string) fwk.NodeInfo {
		if i, ok := a.Net.Tree.NodeIndex(node); ok {
			return a.allNodes[i]
		}
		return nil
	})
}

// ClosedDomains returns the domains that a pod without a gang may not use because of a reserved member's anti-affinity; nil if none.
func (p *Planner) ClosedDomains(pod *v1.Pod) fit.ClosedDomains {
	nodes := p.profile.SnapshotSharedLister().NodeInfos()
	return p.reservedMembers(pod, convert.KeepsOffAfar(pod), func(node string) fwk.NodeInfo {
		if n, err := nodes.Get(node); err == nil {
			return n
		}
		return nil
	}).ClosedDomains(pod)
}

// reservedMembers returns the members of cache.FarReservations, with their nodes by nodeInfo; nil if there are none.
func (p *Planner) reservedMembers(pod *v1.Pod, own bool, nodeInfo func(node string) fwk.NodeInfo) *fit.ReservedMembers {
	reserved := p.cache.FarReservations(pod, own)
	if len(reserved) == 0 {
		return nil
	}
	pods := make([]*v1.Pod, len(reserved))
	for i, entry := range reserved {
		pods[i] = entry.Pod
	}
	all := fit.NewReservedMembers(p.profile.SharedInformerFactory().Core().V1().Namespaces().Lister())
	for i, template := range p.cache.Templates(pods) {
		if n := nodeInfo(reserved[i].Node); n != nil {
			all.Add(pods[i], template, n.Node(), "gang "+reserved[i].Gang.String())
		}
	}
	return all
}

// applyClosedDomains excludes the nodes whose domain a reservation closes to all members. It sets a.reservedFor for nodes closed to any.
func (a *Attempt) applyClosedDomains() {
	if !slices.ContainsFunc(a.kinds, func(k kind) bool { return k.counter.ClosedDomains() != nil }) {
		return
	}
	reservedFor, removed := maps.Clone(a.reservedFor), map[int]fwk.NodeInfo{}
	if reservedFor == nil {
		reservedFor = map[int]string{}
	}
	for i, n := range a.Nodes {
		if n == nil {
			continue
		}
		all := true
		for _, k := range a.kinds {
			holder, closed := k.counter.ClosedDomains().Closes(n.Node())
			if closed {
				reservedFor[i] = "reserved for " + holder
			}
			all = all && closed
		}
		if all {
			removed[i] = nil
		}
	}
	a.reservedFor = reservedFor
	a.Replace(removed)
}

// avoided returns, by name, the nodes that all or some members must not use, with the reason.
func (a *Attempt) avoided() map[string]string {
	if len(a.reservedFor) == 0 {
		return a.Group.Avoid
	}
	all := map[string]string{}
	for i, why := range a.reservedFor {
		all[a.Net.Tree.NodeName(i)] = why
	}
	maps.Copy(all, a.Group.Avoid)
	return all
}
