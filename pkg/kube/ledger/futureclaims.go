package ledger

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Members that are planned before they are created will have claims that do not exist yet. Their ResourceClaimTemplates have the requests.

// isFuture returns whether a pod does not exist: it is a stand-in for a member not yet created.
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

// Asked implements an optional method of fit.Page: it returns a copy of a stand-in without claims that do not exist yet, because
// DynamicResources rejects a pod with such claims. It returns other pods unchanged.
func (p *claimPage) Asked(pod *v1.Pod) *v1.Pod {
	future := func(ref v1.PodResourceClaim) bool { return convert.ClaimToCome(pod, ref) }
	if !slices.ContainsFunc(pod.Spec.ResourceClaims, future) || !p.isFuture(pod) {
		return pod
	}
	out := *pod
	convert.WithoutClaims(&out.Spec, future)
	return &out
}
