package plugin

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/deviceshare"
)

// shareDevices has the room of devices know who is planned where, and those who were refused hear of more devices.
func (s *Shared) shareDevices(room *deviceshare.Room) {
	room.Expected = func(pod *v1.Pod, node string) (own, others []*v1.Pod) {
		own = []*v1.Pod{pod}
		if IsMember(pod) {
			own = s.Cache.SiblingsOn(node, pod)
		}
		return own, s.Cache.PlacesOn(node, pod)
	}
	room.Changed = func() {
		pods := room.Waiting()
		for key, pod := range pods {
			if IsMember(pod) {
				delete(pods, key) // one is tried for all
			}
		}
		if len(pods) > 0 {
			s.handle.Activate(klog.Background(), pods)
		}
		s.try(slices.DeleteFunc(s.refused.LeadersFor(deviceshare.Name), func(leader string) bool {
			return slices.ContainsFunc(append(s.refused.Kinds(leader), leader), func(key string) bool {
				pod := s.Cache.Pod(key)
				return pod != nil && room.Hopeless(pod)
			})
		}))
	}
}

// lacksClaim is a claim that a pod names, and that does not exist; "" if there is none such. DynamicResources
// keeps the pod out of the queue without a word. Claims that are made from templates are others' to make.
func (s *Shared) lacksClaim(pod *v1.Pod) string {
	manager := s.handle.SharedDRAManager()
	if manager == nil {
		return ""
	}
	for _, ref := range pod.Spec.ResourceClaims {
		if ref.ResourceClaimName == nil {
			continue
		}
		if _, err := manager.ResourceClaims().Get(pod.Namespace, *ref.ResourceClaimName); err != nil {
			return "ResourceClaim " + convert.Key(pod.Namespace, *ref.ResourceClaimName)
		}
	}
	return ""
}
