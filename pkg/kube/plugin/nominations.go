package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// The scheduler counts a nominated pod on its node when it tries a pod of no higher priority there. In the cycle of a planned member two
// kinds of nominations must not count. One is of pods whose reservation was made after the member's assignment: the member was first. The
// other is of members of its own gang: the plan has an order, on which a spread constraint may depend.

// suspendNominations removes these nominations for a planned member's node from the scheduler, until restoreNominations.
func (s *Shared) suspendNominations(profile framework.Framework, pod *v1.Pod, node string) {
	for _, info := range profile.NominatedPodsForNode(node) {
		if other := info.GetPod(); s.Cache.ReservedAfter(other, pod) || s.Cache.Siblings(other, pod) {
			s.suspended.Add(other, node)
			s.handle.DeleteNominatedPodIfExists(other)
		}
	}
}

// restoreNominations restores the suspended nominations of pods whose node assignment has not changed. It is called when the member's cycle
// succeeds or fails, and at the start of the next cycle.
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
