package ledger

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Members that are planned before they exist will have claims that do not exist yet either. What these will ask
// for is said by their templates.

// toCome says that a pod is still to be made: it stands in for one.
func (l *claims) toCome(pod *v1.Pod) bool {
	known, err := l.pods.Pods(pod.Namespace).Get(pod.Name)
	return err != nil || known.UID != pod.UID
}

// claimToCome is the claim that will be made for a pod from a template; nil if there is no template.
func (l *claims) claimToCome(pod *v1.Pod, ref *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	template, err := l.made.ResourceClaimTemplates(pod.Namespace).Get(*ref.ResourceClaimTemplateName)
	if err != nil {
		return nil
	}
	c := &resourceapi.ResourceClaim{Spec: template.Spec.Spec}
	c.Namespace, c.Name, c.UID = pod.Namespace, pod.Name+"-"+ref.Name, pod.UID+types.UID("/"+ref.Name)
	return c
}

// Asked implements what package fit asks of a page that knows what will be made: DynamicResources refuses a pod
// whose claims do not exist.
func (p *claimPage) Asked(pod *v1.Pod) *v1.Pod {
	unmade := func(ref v1.PodResourceClaim) bool { return convert.ClaimToCome(pod, ref) }
	if !slices.ContainsFunc(pod.Spec.ResourceClaims, unmade) || !p.toCome(pod) {
		return pod
	}
	out := *pod
	convert.WithoutClaims(&out.Spec, unmade)
	return &out
}
