package ledger

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Members that are planned before they exist will have claims that do not exist yet either. Their templates hold the requests.

// isFuture returns whether a pod does not exist yet: it is a stand-in.
func (l *claims) isFuture(pod *v1.Pod) bool {
	known, err := l.pods.Pods(pod.Namespace).Get(pod.Name)
	return err != nil || known.UID != pod.UID
}

// futureClaim returns the claim that will be made for a pod from a template; nil if there is no template.
func (l *claims) futureClaim(pod *v1.Pod, ref *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	template, err := l.templates.ResourceClaimTemplates(pod.Namespace).Get(*ref.ResourceClaimTemplateName)
	if err != nil {
		return nil
	}
	c := &resourceapi.ResourceClaim{Spec: template.Spec.Spec}
	c.Namespace = pod.Namespace
	c.Name = pod.Name + "-" + ref.Name
	c.UID = pod.UID + types.UID("/"+ref.Name)
	return c
}

// Asked implements an optional method of fit.Page: it returns the pod without future claims, since DynamicResources rejects a
// pod if its claims do not exist.
func (p *claimPage) Asked(pod *v1.Pod) *v1.Pod {
	future := func(ref v1.PodResourceClaim) bool { return convert.ClaimToCome(pod, ref) }
	if !slices.ContainsFunc(pod.Spec.ResourceClaims, future) || !p.isFuture(pod) {
		return pod
	}
	out := *pod
	convert.WithoutClaims(&out.Spec, future)
	return &out
}
