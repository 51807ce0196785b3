package departure

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Resume finishes the evictions of bundles that a previous process has begun. A bundle is a whole group, a part of it or a sub-group whose
// running members are all marked (condition DisruptionTarget). Two conditions are needed: the bundle has lost members, and its preemptor
// still waits with a nominated node (see preemptorOf). Otherwise the gangs run on. The pods that free capacity are evicted last.
func (p *Evictor) Resume() {
	all, err := p.Pods.List(labels.Everything())
	if err != nil || !p.Limits().Enabled {
		return
	}
	nominated := map[string]*v1.Pod{} // by nominated node, the pod of highest priority
	marked := map[gang.Ref][]*v1.Pod{}
	for _, pod := range all {
		switch {
		case p.hasPlace(pod):
			node := pod.Status.NominatedNodeName
			if w := nominated[node]; w == nil || p.Cache.Priority(pod) > p.Cache.Priority(w) ||
				p.Cache.Priority(pod) == p.Cache.Priority(w) && pod.Name < w.Name {
				nominated[node] = pod
			}
		case p.isMarked(pod):
			key := p.Cache.Together(source.GangOf(pod))[0]
			marked[key] = append(marked[key], pod)
		}
	}
	for _, key := range eligible.SortedRefs(marked) {
		together := p.Cache.Together(key)
		if p.allMarked(together) {
			p.resume(key, together, marked[key], nominated)
			continue
		}
		for _, part := range p.markedParts(together) { // the group may run on without them
			pods := slices.DeleteFunc(slices.Clone(marked[key]), func(pod *v1.Pod) bool { return !slices.Contains(part, source.GangOf(pod)) })
			if len(pods) > 0 && p.allMarked(part) {
				p.resume(part[0], part, pods, nominated)
			}
		}
		p.resumeSubGroups(together, nominated)
	}
}

// resumeSubGroups evicts the rest of each sub-group that has lost members and that its gang can spare. All its members must be marked, and
// a preemptor must wait.
func (p *Evictor) resumeSubGroups(together []gang.Ref, nominated map[string]*v1.Pod) {
	for _, subGroup := range eligible.Gangs(p.Cache, together, p.Cache.Placed) {
		if !subGroup.IsPart() || !subGroup.Short || slices.ContainsFunc(subGroup.Pods, func(pod *v1.Pod) bool { return !p.isMarked(pod) }) {
			continue
		}
		if by := p.preemptorOf(subGroup.Pods, nominated); by != nil {
			p.finish(subGroup.Ref, subGroup.Pods, by)
		}
	}
}

// markedParts returns the parts of a group that are evicted whole if the gangs whose running members are all marked are evicted.
func (p *Evictor) markedParts(together []gang.Ref) [][]gang.Ref {
	marked := map[gang.Ref]map[types.UID]bool{}
	var gangs []eligible.Gang
	for _, ref := range together {
		gangs = append(gangs, eligible.NewGang(p.Cache, ref, p.Cache.Placed))
		if running, needed := p.Cache.Running(ref); needed > 0 && p.allMarked([]gang.Ref{ref}) {
			marked[ref] = map[types.UID]bool{"": true} // it may have no running member
			for _, pod := range running {
				marked[ref][pod.UID] = true
			}
		}
	}
	return eligible.WholeBundles(gangs, marked)
}

// resume evicts the remaining pods of the gangs if one of these has lost members and a preemptor waits. key names the bundle.
func (p *Evictor) resume(key gang.Ref, gangs []gang.Ref, pods []*v1.Pod, nominated map[string]*v1.Pod) {
	if by := p.preemptorOf(pods, nominated); by != nil && p.short(gangs) {
		p.finish(key, pods, by)
	}
}

// hasPlace returns whether a pending pod of this profile has a nominated node. For a member this node must also be its node assignment.
func (p *Evictor) hasPlace(pod *v1.Pod) bool {
	node := pod.Status.NominatedNodeName
	if node == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || convert.Finished(pod) ||
		pod.Spec.SchedulerName != p.Profile.ProfileName() {
		return false
	}
	if source.GangOf(pod).IsZero() {
		return true
	}
	place, _ := p.Cache.Place(pod)
	return place == node
}

// isMarked returns whether a running member of a gang has a condition DisruptionTarget from this profile.
func (p *Evictor) isMarked(pod *v1.Pod) bool {
	if source.GangOf(pod).IsZero() || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || convert.Finished(pod) {
		return false
	}
	_, c := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget)
	return c != nil && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler &&
		strings.HasPrefix(c.Message, p.Profile.ProfileName()+": ")
}

// preemptorOf returns the pod nominated for the node of one of these pods, if it may evict that pod by priority or quota; nil if none.
// nominated has the nominated pods by node.
func (p *Evictor) preemptorOf(pods []*v1.Pod, nominated map[string]*v1.Pod) *v1.Pod {
	for _, pod := range pods {
		if by := nominated[pod.Spec.NodeName]; by != nil &&
			(p.Cache.Priority(by) > p.Cache.Priority(pod) || evictedByEqual(pod) || revocationReason(pod, p.Profile.ProfileName()) != "") {
			return by
		}
	}
	return nil
}

// short returns whether one of the gangs has fewer members than minMember, or lists a gang of its group that does not exist any more.
func (p *Evictor) short(gangs []gang.Ref) bool {
	return slices.ContainsFunc(gangs, func(ref gang.Ref) bool { return p.Cache.BelowMinimum(ref) || p.Cache.Misses(ref) })
}

// allMarked returns whether all running members of the gangs are marked.
func (p *Evictor) allMarked(gangs []gang.Ref) bool {
	for _, ref := range gangs {
		running, _ := p.Cache.Running(ref)
		if slices.ContainsFunc(running, func(pod *v1.Pod) bool { return !p.isMarked(pod) }) {
			return false
		}
	}
	return true
}

// finish evicts the pods in the background for the preemptor by, as one bundle with the name key that has lost a pod already.
func (p *Evictor) finish(key gang.Ref, pods []*v1.Pod, by *v1.Pod) {
	klog.Background().Info("Evicting the rest of a partially evicted gang", "gang", key.String(), "pods", len(pods), "for", klog.KObj(by))
	bundles := p.Single()
	for _, pod := range pods {
		bundles.BundleOf[pod.UID] = key
	}
	bundles.hasLost[key] = true
	d := p.NewEviction(p.For(by, revocationReason(pods[0], p.Profile.ProfileName())), bundles)
	d.NeededNodes = map[string]bool{by.Status.NominatedNodeName: true}
	d.StillWanted = func() bool { return false }
	p.Victims.addUnreserved(d) // before the first request
	d.Expect(pods)
	go d.EvictRest(context.Background(), pods)
}
