package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// The scheduler counts a nominated pod when it tries a pod of no higher priority on that node. A planned member may
// be tried a second time after a failed request. Meanwhile other pods may have been nominated that counted on the
// member and on a terminating pod. These nominations do not count in the member's cycle: it was assigned first.
// Nominations of its own gang do not count either, since its plan orders the members and a spread constraint may
// depend on that order.

// suspendNominations removes the nominations for the member's node that were made after its assignment or for its
// gang.
func (s *Shared) suspendNominations(profile framework.Framework, pod *v1.Pod, node string) {
	for _, info := range profile.NominatedPodsForNode(node) {
		if other := info.GetPod(); s.Cache.ReservedAfter(other, pod) || s.Cache.Siblings(other, pod) {
			s.suspended.Add(other, node)
			s.handle.DeleteNominatedPodIfExists(other)
		}
	}
}

// restoreNominations restores the suspended nominations of pods that are still assigned. It runs when the member
// has a node or failed, and at the start of the next cycle.
func (s *Shared) restoreNominations(ctx context.Context) {
	for pod, node := range s.suspended.TakeAll() {
		known := s.Cache.Pod(convert.PodKey(pod))
		if known == nil || known.UID != pod.UID {
			continue
		}
		if place, confirmed := s.Cache.Place(pod); place != node || confirmed {
			continue
		}
		if info, err := framework.NewPodInfo(known); err == nil {
			s.handle.AddNominatedPod(klog.FromContext(ctx), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
		}
	}
}
