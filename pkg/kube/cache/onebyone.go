package cache

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// oneByOne names a StatefulSet that may be why members are missing: unless it is told
// otherwise it makes a pod when the one before it runs, which waits here for the one to be
// made. What it was told is not watched; its pods show it. Of a gang that is short the last
// by ordinal waits for a node, and those before it, if there are any, have one:
//
//	train-0 (waits)                           1 of 3
//	train-0 (node), train-1 (waits)           2 of 3, with others that had started
//	train-0 (waits), train-1 (waits)          no: it makes them all at once
//
// "" if there is none. c.mu is held.
func (c *Cache) oneByOne(of gang.State) (name string) {
	if of.Refusal.By != gang.Missing {
		return ""
	}
	for _, ref := range c.book.Together(of.Gang) {
		r, s := c.gangs[ref], c.book.State(ref)
		if r == nil || s.Exist >= s.Min {
			continue
		}
		for set, line := range statefulSets(r.Pods) {
			if line.waiting == 1 && line.last.Spec.NodeName == "" && (name == "" || topology.CompareNames(set, name) < 0) {
				name = set
			}
		}
	}
	return name
}

// line are the members that one StatefulSet has made.
type line struct {
	waiting int     // for a node
	last    *v1.Pod // by ordinal
}

// statefulSets returns the StatefulSets that make members, by name. Those of
// LeaderWorkerSets, which make all pods at once, are left out.
func statefulSets(pods map[string]*v1.Pod) map[string]line {
	sets := map[string]line{}
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
