package simulate

import (
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

var (
	claimTemplates = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
	resourceClaims = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
)

// makeClaims does what the resource claim controller does for a new pod. It creates a ResourceClaim for each template that the pod
// names, and writes the names into the pod's status. It keeps a claim that the pod's status names and that exists.
//
// A missing template is an error, except for a pod from a cluster: such a pod waits for its claim.
func (c *cluster) makeClaims(pod *v1.Pod, fromCluster bool) error {
	var made []v1.PodResourceClaimStatus
	for i := range pod.Spec.ResourceClaims {
		want := &pod.Spec.ResourceClaims[i]
		if want.ResourceClaimTemplateName == nil {
			continue
		}
		if name, _, err := resourceclaim.Name(pod, want); err == nil && c.ownsClaim(pod, name) {
			made = append(made, v1.PodResourceClaimStatus{Name: want.Name, ResourceClaimName: name})
			continue
		}
		o, err := c.get(claimTemplates, key{pod.Namespace, *want.ResourceClaimTemplateName})
		if err != nil && fromCluster {
			continue
		}
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
		add := func(runtime.Object) (runtime.Object, error) { return claim, nil }
		if _, err := c.change(resourceClaims, key{pod.Namespace, name}, add); err != nil {
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

// ownsClaim says whether the pod owns the claim of that name, or needs none (name is nil).
func (c *cluster) ownsClaim(pod *v1.Pod, name *string) bool {
	if name == nil {
		return true
	}
	o, err := c.get(resourceClaims, key{pod.Namespace, *name})
	return err == nil && metav1.IsControlledBy(o.(*resourcev1.ResourceClaim), pod)
}

// claimedDevices lists the devices allocated to the pod's claims, by pool, such as "x0/gpu-0,gpu-1"; "" if there are none.
func (c *cluster) claimedDevices(pod *v1.Pod) string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			names = append(names, *name)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	var out []string
	last := ""
	for _, name := range names {
		o, err := c.get(resourceClaims, key{pod.Namespace, name})
		if err != nil {
			continue
		}
		claim := o.(*resourcev1.ResourceClaim)
		if claim.Status.Allocation == nil {
			continue
		}
		for _, d := range claim.Status.Allocation.Devices.Results {
			if pool := d.Driver + " " + d.Pool; pool == last {
				out[len(out)-1] += "," + d.Device
			} else {
				last, out = pool, append(out, d.Pool+"/"+d.Device)
			}
		}
	}
	return strings.Join(out, " ")
}

// releaseClaims deletes the claims that were made for a deleted pod, and removes the pod from the claims that it shares.
func (a *api) releaseClaims(deleted runtime.Object) error {
	pod, ok := deleted.(*v1.Pod)
	if !ok {
		return nil
	}
	if err := a.deleteVolumeClaims(pod); err != nil {
		return err
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
		deleted := func(runtime.Object) (runtime.Object, error) { return nil, nil }
		if _, err := a.change(resourceClaims, key{pod.Namespace, name}, deleted); err != nil {
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
			return withoutConsumer(old.DeepCopyObject().(*resourcev1.ResourceClaim), pod.UID), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reserveForRunning reserves an allocated claim for each running pod that uses it and is missing from ReservedFor. The entry is
// missing if the answer to the pod's binding was lost and the scheduler released the claim.
func (a *api) reserveForRunning(o runtime.Object) error {
	claim, ok := o.(*resourcev1.ResourceClaim)
	if !ok || claim.Status.Allocation == nil {
		return nil
	}
	all, _ := a.list(pods, claim.Namespace, nil)
	for _, o := range all {
		pod := o.(*v1.Pod)
		if pod.Spec.NodeName == "" || !usesClaim(pod, claim.Name) ||
			resourceclaim.IsReservedForPod(pod, claim, false) || !resourceclaim.CanBeReserved(claim) {
			continue
		}
		stored, err := a.change(resourceClaims, key{claim.Namespace, claim.Name}, func(old runtime.Object) (runtime.Object, error) {
			current, ok := old.(*resourcev1.ResourceClaim)
			if !ok || current.UID != claim.UID || current.Status.Allocation == nil {
				return old, nil
			}
			current = current.DeepCopy()
			consumer := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
			current.Status.ReservedFor = append(current.Status.ReservedFor, consumer)
			return current, nil
		})
		if err != nil {
			return err
		}
		if claim, ok = stored.(*resourcev1.ResourceClaim); !ok {
			return nil
		}
	}
	return nil
}

// usesClaim reports whether the pod has a claim of this name.
func usesClaim(pod *v1.Pod, claim string) bool {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil && *name == claim {
			return true
		}
	}
	return false
}

// withoutConsumer removes the pod from claim.Status.ReservedFor and returns claim. Without consumers the claim loses its devices.
func withoutConsumer(claim *resourcev1.ResourceClaim, pod types.UID) *resourcev1.ResourceClaim {
	var remaining []resourcev1.ResourceClaimConsumerReference
	for _, r := range claim.Status.ReservedFor {
		if r.UID != pod {
			remaining = append(remaining, r)
		}
	}
	if len(remaining) == 0 && len(claim.Status.ReservedFor) > 0 {
		claim.Status.Allocation = nil
	}
	claim.Status.ReservedFor = remaining
	return claim
}
