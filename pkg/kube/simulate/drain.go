package simulate

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drain cordons the nodes, deletes victims, and recreates the pods in recreate under their old names. It schedules no pod.
func (w *World) Drain(ctx context.Context, nodeNames []string, victims, recreate []*v1.Pod) error {
	var all step
	for _, name := range nodeNames {
		n, err := w.cluster.node(name)
		if err != nil {
			return err
		}
		all = append(all, fromChange(cordoned(n)))
	}
	fresh := w.cluster.recreated(recreate) // before the deletion, which also deletes the claims
	if err := w.applyStep(ctx, append(all, w.cluster.deletedPods(victims)...)); err != nil {
		return err
	}
	return w.applyStep(ctx, fresh)
}

// recreated returns pods as their controllers would recreate them, with copies of the claims that were made for them.
func (c *cluster) recreated(all []*v1.Pod) (out step) {
	for _, pod := range all {
		fresh := pod.DeepCopy()
		fresh.ObjectMeta = metav1.ObjectMeta{
			Namespace: fresh.Namespace, Name: fresh.Name,
			Labels: fresh.Labels, Annotations: fresh.Annotations, OwnerReferences: fresh.OwnerReferences,
		}
		fresh.Spec.NodeName, fresh.Spec.EphemeralContainers, fresh.Status = "", nil, v1.PodStatus{}
		for i, want := range fresh.Spec.ResourceClaims {
			claim := c.claimOf(pod, want)
			if claim == nil {
				continue
			}
			fresh.Spec.ResourceClaims[i] = v1.PodResourceClaim{Name: want.Name, ResourceClaimName: &claim.Name}
			out = append(out, fromChange(claim))
		}
		out = append(out, fromChange(fresh))
	}
	return out
}

// claimOf returns a new claim like the one that a template gave the pod; nil if there is none. The template need not be known.
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
		original := o.(*resourcev1.ResourceClaim)
		return &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: original.Namespace, Name: original.Name, Labels: original.Labels, Annotations: original.Annotations,
			},
			Spec: *original.Spec.DeepCopy(),
		}
	}
	return nil
}
