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

// Resume finishes what a process before this one has begun: groups that were to leave whole,
// and of which some have left. All who run are marked, and one of them is still where somebody
// more important waits to be: who makes room leaves last. Without all of that nobody is asked.
// If not all are marked, nobody has left yet, whatever members it lacks of its own accord: then,
// or if nobody waits any more, the group runs on.
func (p *Evictor) Resume() {
	all, err := p.Pods.List(labels.Everything())
	if err != nil || !p.Limits().Enabled {
		return
	}
	waits := map[string]*v1.Pod{} // the most important of those that have a place on a node
	marked := map[gang.Ref][]*v1.Pod{}
	for _, pod := range all {
		switch {
		case p.hasPlace(pod):
			node := pod.Status.NominatedNodeName
			if w := waits[node]; w == nil || p.Cache.Priority(pod) > p.Cache.Priority(w) || p.Cache.Priority(pod) == p.Cache.Priority(w) && pod.Name < w.Name {
				waits[node] = pod
			}
		case p.isMarked(pod):
			key := p.Cache.Together(source.Of(pod))[0]
			marked[key] = append(marked[key], pod)
		}
	}
	for _, key := range eligible.SortedRefs(marked) {
		together := p.Cache.Together(key)
		if p.allMarked(together) {
			p.resume(key, together, marked[key], waits)
			continue
		}
		for _, part := range p.markedParts(together) { // which the group may run on without
			pods := slices.DeleteFunc(slices.Clone(marked[key]), func(pod *v1.Pod) bool { return !slices.Contains(part, source.Of(pod)) })
			if len(pods) > 0 && p.allMarked(part) {
				p.resume(part[0], part, pods, waits)
			}
		}
		p.resumeSubGroups(together, waits)
	}
}

// resumeSubGroups has the rest of sub-groups leave that their gangs run on without.
func (p *Evictor) resumeSubGroups(together []gang.Ref, waits map[string]*v1.Pod) {
	for _, is := range eligible.Gangs(p.Cache, together, p.Cache.Placed) {
		if !is.IsPart() || !is.Short || slices.ContainsFunc(is.Pods, func(pod *v1.Pod) bool { return !p.isMarked(pod) }) {
			continue
		}
		if by := p.awaits(is.Pods, waits); by != nil {
			p.finish(is.Ref, is.Pods, by)
		}
	}
}

// markedParts are the gangs of a group of which all are marked who run, those together that cannot
// run without one another.
func (p *Evictor) markedParts(together []gang.Ref) [][]gang.Ref {
	marked := map[gang.Ref]map[types.UID]bool{}
	var gangs []eligible.Gang
	for _, of := range together {
		gangs = append(gangs, eligible.Whole(p.Cache, of, p.Cache.Placed))
		if running, least := p.Cache.Running(of); least > 0 && p.allMarked([]gang.Ref{of}) {
			marked[of] = map[types.UID]bool{"": true} // of whom there may be nobody left
			for _, pod := range running {
				marked[of][pod.UID] = true
			}
		}
	}
	return eligible.Apart(gangs, marked)
}

// resume has the rest of some gangs leave, if some have left and somebody waits for them.
func (p *Evictor) resume(key gang.Ref, gangs []gang.Ref, pods []*v1.Pod, waits map[string]*v1.Pod) {
	if by := p.awaits(pods, waits); by != nil && p.short(gangs) {
		p.finish(key, pods, by)
	}
}

// hasPlace says whether a pod of this profile waits for a node for which it is nominated. A
// nomination of a gang stands for a reservation.
func (p *Evictor) hasPlace(pod *v1.Pod) bool {
	node := pod.Status.NominatedNodeName
	if node == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || convert.Finished(pod) || pod.Spec.SchedulerName != p.Profile.ProfileName() {
		return false
	}
	if source.Of(pod).IsZero() {
		return true
	}
	place, _ := p.Cache.Place(pod)
	return place == node
}

// isMarked says whether a member runs of which this profile has said that it leaves.
func (p *Evictor) isMarked(pod *v1.Pod) bool {
	if source.Of(pod).IsZero() || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || convert.Finished(pod) {
		return false
	}
	_, c := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget)
	return c != nil && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler &&
		strings.HasPrefix(c.Message, p.Profile.ProfileName()+": ")
}

// awaits returns who waits for some of these pods to leave; nil if nobody does.
func (p *Evictor) awaits(leave []*v1.Pod, waits map[string]*v1.Pod) *v1.Pod {
	for _, pod := range leave {
		if by := waits[pod.Spec.NodeName]; by != nil && (p.Cache.Priority(by) > p.Cache.Priority(pod) || forQuota(pod) || revoked(pod, p.Profile.ProfileName()) != "") {
			return by
		}
	}
	return nil
}

// short says whether one of some gangs has fewer members than it needs, or lists one that does not exist: where members
// declare a gang nobody knows of it when they have left.
func (p *Evictor) short(gangs []gang.Ref) bool {
	for _, of := range gangs {
		if p.Cache.Short(of) || p.Cache.Misses(of) {
			return true
		}
	}
	return false
}

// allMarked says whether all members of some gangs that run are marked: nobody leaves before.
func (p *Evictor) allMarked(gangs []gang.Ref) bool {
	for _, of := range gangs {
		running, _ := p.Cache.Running(of)
		if slices.ContainsFunc(running, func(pod *v1.Pod) bool { return !p.isMarked(pod) }) {
			return false
		}
	}
	return true
}

// finish has the rest of a group leave.
func (p *Evictor) finish(key gang.Ref, pods []*v1.Pod, by *v1.Pod) {
	klog.Background().Info("The rest of a gang leaves that was evicted in part", "gang", key.String(), "pods", len(pods), "for", klog.KObj(by))
	bundles := p.Single()
	for _, pod := range pods {
		bundles.Of[pod.UID] = key
	}
	bundles.lost[key] = true
	d := p.Depart(p.For(by, revoked(pods[0], p.Profile.ProfileName())), bundles)
	d.Room = map[string]bool{by.Status.NominatedNodeName: true}
	d.Stands = func() bool { return false }
	p.Victims.hold(d) // before the first request
	d.Expect(pods)
	go d.Leave(context.Background(), pods)
}
