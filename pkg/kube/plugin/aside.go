package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// The scheduler counts pods that are nominated for a node when it tries another one there that is no more
// important. A member with a place is tried there, maybe for the second time since a request has failed; meanwhile others
// may have been nominated who counted on it, and on somebody who has yet to leave. They do not count in
// its cycle: it was there first, and has room. Neither do members of its own gang whose places a reservation keeps: the plan has them
// come one after the other, and a spread constraint may take this one only while the others are not there.

// putAside has those nominated for a member's node not count there who come beside it, or after it.
func (s *Shared) putAside(profile framework.Framework, pod *v1.Pod, node string) {
	for _, info := range profile.NominatedPodsForNode(node) {
		if other := info.GetPod(); s.Cache.ComesBeside(other, pod) || s.Cache.Siblings(other, pod) {
			s.aside.Add(other, node)
			s.handle.DeleteNominatedPodIfExists(other)
		}
	}
}

// putBack has them count again, where they still have their places. It is called when the member has its node or was
// refused, and at last when the next cycle begins: one may end without a word.
func (s *Shared) putBack(ctx context.Context) {
	for pod, node := range s.aside.TakeAll() {
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
