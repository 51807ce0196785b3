package simulate

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

var (
	claimTemplates = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
	resourceClaims = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
)

// claim does what the controller of resource claims does for a new pod: it makes the claims
// of which the pod names templates, and writes their names into the pod's status.
func (c *cluster) claim(pod *v1.Pod) error {
	var made []v1.PodResourceClaimStatus
	for _, want := range pod.Spec.ResourceClaims {
		if want.ResourceClaimTemplateName == nil {
			continue
		}
		o, err := c.get(claimTemplates, key{pod.Namespace, *want.ResourceClaimTemplateName})
		if err != nil {
			return errors.New("no ResourceClaimTemplate with name " + *want.ResourceClaimTemplateName + " was found")
		}
		template := o.(*resourcev1.ResourceClaimTemplate)
		name := pod.Name + "-" + want.Name
		claim := &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: pod.Namespace, UID: types.UID(string(pod.UID) + "-" + want.Name), CreationTimestamp: pod.CreationTimestamp,
				Labels: template.Spec.Labels, Annotations: template.Spec.Annotations,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
			},
			Spec: template.Spec.Spec,
		}
		if _, err := c.change(resourceClaims, key{pod.Namespace, name}, func(runtime.Object) (runtime.Object, error) { return claim, nil }); err != nil {
			return err
		}
		made = append(made, v1.PodResourceClaimStatus{Name: want.Name, ResourceClaimName: &name})
	}
	if len(made) == 0 {
		return nil
	}
	_, err := c.change(pods, key{pod.Namespace, pod.Name}, existing(pods, pod.Name, func(old runtime.Object) (runtime.Object, error) {
		out := old.DeepCopyObject().(*v1.Pod)
		out.Status.ResourceClaimStatuses = made
		return out, nil
	}))
	return err
}

// unclaim does what it does when a pod has gone: claims that were made for the pod go, too,
// and no claim is reserved for it any longer.
func (a *api) unclaim(gone runtime.Object) error {
	pod, ok := gone.(*v1.Pod)
	if !ok {
		return nil
	}
	own := make([]string, 0, len(pod.Status.ResourceClaimStatuses)+1)
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			own = append(own, *s.ResourceClaimName)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		own = append(own, s.ResourceClaimName)
	}
	for _, name := range own {
		gone := func(runtime.Object) (runtime.Object, error) { return nil, nil }
		if _, err := a.change(resourceClaims, key{pod.Namespace, name}, gone); err != nil {
			return err
		}
	}
	for _, want := range pod.Spec.ResourceClaims {
		if want.ResourceClaimName == nil {
			continue
		}
		_, err := a.change(resourceClaims, key{pod.Namespace, *want.ResourceClaimName}, func(old runtime.Object) (runtime.Object, error) {
			if old == nil {
				return nil, nil
			}
			return unreserved(old.DeepCopyObject().(*resourcev1.ResourceClaim), pod.UID), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unreserved takes a pod out of a claim, which has no devices any more if it was the last.
func unreserved(claim *resourcev1.ResourceClaim, pod types.UID) *resourcev1.ResourceClaim {
	var others []resourcev1.ResourceClaimConsumerReference
	for _, r := range claim.Status.ReservedFor {
		if r.UID != pod {
			others = append(others, r)
		}
	}
	if len(others) == 0 && len(claim.Status.ReservedFor) > 0 {
		claim.Status.Allocation = nil
	}
	claim.Status.ReservedFor = others
	return claim
}
