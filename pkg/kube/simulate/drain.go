package simulate

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drain cordons nodes, has pods leave, and makes some of them anew under their old names, as whoever
// made them would. Nobody is scheduled meanwhile.
func (w *World) Drain(ctx context.Context, from []string, leave, again []*v1.Pod) error {
	var all step
	for _, name := range from {
		n, err := w.cluster.node(name)
		if err != nil {
			return err
		}
		all = append(all, given(cordoned(n)))
	}
	fresh := w.cluster.anew(again) // while their claims are there
	if err := w.bring(ctx, append(all, w.cluster.leaving(leave)...)); err != nil {
		return err
	}
	return w.bring(ctx, fresh)
}

// anew are pods as they are when they are made, with claims like those that were made for them.
func (c *cluster) anew(all []*v1.Pod) (out step) {
	for _, pod := range all {
		fresh := pod.DeepCopy()
		fresh.ObjectMeta = metav1.ObjectMeta{
			Namespace: fresh.Namespace, Name: fresh.Name, Labels: fresh.Labels, Annotations: fresh.Annotations, OwnerReferences: fresh.OwnerReferences,
		}
		fresh.Spec.NodeName, fresh.Spec.EphemeralContainers, fresh.Status = "", nil, v1.PodStatus{}
		for i, want := range fresh.Spec.ResourceClaims {
			claim := c.claimOf(pod, want)
			if claim == nil {
				continue
			}
			fresh.Spec.ResourceClaims[i] = v1.PodResourceClaim{Name: want.Name, ResourceClaimName: &claim.Name}
			out = append(out, given(claim))
		}
		out = append(out, given(fresh))
	}
	return out
}

// claimOf is a new claim like the one that was made of a template for a pod; nil if there is none. The
// template itself need not be known.
func (c *cluster) claimOf(pod *v1.Pod, want v1.PodResourceClaim) *resourcev1.ResourceClaim {
	if want.ResourceClaimTemplateName == nil {
		return nil
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name != want.Name || s.ResourceClaimName == nil {
			continue
		}
		o, err := c.get(resourceClaims, key{pod.Namespace, *s.ResourceClaimName})
		if err != nil {
			return nil
		}
		was := o.(*resourcev1.ResourceClaim)
		return &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: was.Namespace, Name: was.Name, Labels: was.Labels, Annotations: was.Annotations},
			Spec:       *was.Spec.DeepCopy(),
		}
	}
	return nil
}
