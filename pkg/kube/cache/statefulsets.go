package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// oneByOne returns the name of a StatefulSet that may be why members are missing: by default it creates a pod only after the previous one
// runs, but a member of a gang waits for the next ones. Such a set has exactly one pod without a node, the last one.
//
//	train-0 (waits)                           1 of 3
//	train-0 (node), train-1 (waits)           2 of 3, with others that had started
//	train-0 (waits), train-1 (waits)          no: all are created at once
//
// It returns "" if there is none. c.mu is locked.
func (c *Cache) oneByOne(state gang.State) (name string) {
	if state.Refusal.By != gang.Missing {
		return ""
	}
	for _, ref := range c.book.GroupOfGang(state.Gang) {
		r, s := c.gangs[ref], c.book.State(ref)
		if r == nil || s.Exist >= s.Min {
			continue
		}
		for set, members := range statefulSets(r.Pods) {
			if members.waiting == 1 && members.last.Spec.NodeName == "" && (name == "" || topology.CompareNames(set, name) < 0) {
				name = set
			}
		}
	}
	return name
}

// setMembers is the members of one StatefulSet.
type setMembers struct {
	waiting int     // number of pods without a node
	last    *v1.Pod // the pod with the highest ordinal
}

// statefulSets returns the members that have not finished, by the name of their StatefulSet. All members are in one namespace. It omits
// the StatefulSets of LeaderWorkerSets: such a set creates all its pods at once, and not one by one.
func statefulSets(pods map[string]*v1.Pod) map[string]setMembers {
	sets := map[string]setMembers{}
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != "StatefulSet" || pod.Labels[scheduling.LabelLeaderWorkerSet] != "" || convert.Finished(pod) {
			continue
		}
		set := sets[owner.Name]
		if pod.Spec.NodeName == "" {
			set.waiting++
		}
		if set.last == nil || topology.CompareNames(set.last.Name, pod.Name) < 0 {
			set.last = pod
		}
		sets[owner.Name] = set
	}
	return sets
}

// setJobs sets the fields of out about the Jobs of a gang that lacks members. It sets none if a Job is unknown, or if a member has no Job.
// c.mu is locked.
func (c *Cache) setJobs(r *record, out *Report) {
	if out.Refusal.By != gang.Missing || out.Exist >= out.Min {
		return
	}
	made := map[source.OwnerKey]int{}
	for _, pod := range r.Pods {
		key, _ := source.JobOf(pod)
		if made[key]++; !r.jobs[key] {
			return
		}
	}
	var all, creating []string
	pods, ending := 0, false
	for _, key := range slices.SortedFunc(maps.Keys(r.jobs), source.OwnerKey.Compare) {
		job := c.lineage.Objects[key]
		if job == nil {
			return
		}
		all, pods, ending = append(all, key.Name), pods+job.Remaining, ending || job.Remaining < job.Size
		if made[key] < job.Remaining {
			creating = append(creating, key.Name)
		}
	}
	if out.Creating, out.JobsEnding = creating, ending; pods < out.Min {
		out.TooSmall, out.JobPods = all, pods
	}
}
