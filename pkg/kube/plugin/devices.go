package plugin

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/deviceshare"
)

// connectDevices connects the plugin DeviceShare with gangs: the plugin learns which pods are planned on a node, and unschedulable pods are
// retried when devices change.
func (s *Shared) connectDevices(room *deviceshare.Room) {
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
				delete(pods, key) // its representative is tried
			}
		}
		if len(pods) > 0 {
			s.handle.Activate(klog.Background(), pods)
		}
		s.retry(slices.DeleteFunc(s.retries.LeadersFor(deviceshare.Name), func(leader string) bool {
			return slices.ContainsFunc(append(s.retries.Kinds(leader), leader), func(key string) bool {
				pod := s.Cache.Pod(key)
				return pod != nil && room.Hopeless(pod)
			})
		}))
	}
}

// missingClaim returns "ResourceClaim " and the key of a claim that the pod names and that does not exist; "" if none is missing. Such a
// pod is kept out of the queue by DynamicResources. Claims from templates are not checked: a controller creates them.
func (s *Shared) missingClaim(pod *v1.Pod) string {
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
