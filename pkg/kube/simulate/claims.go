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

// claim does what the controller of resource claims does for a new pod: it makes the claims
// of which the pod names templates, and writes their names into the pod's status. What stands there and is there it leaves as
// it is. Where there is no template any more a pod that comes from a cluster waits for its claim there, as everywhere; in files of one's own it
// is an error.
func (c *cluster) claim(pod *v1.Pod, lives bool) error {
	var made []v1.PodResourceClaimStatus
	for i := range pod.Spec.ResourceClaims {
		want := &pod.Spec.ResourceClaims[i]
		if want.ResourceClaimTemplateName == nil {
			continue
		}
		if name, _, err := resourceclaim.Name(pod, want); err == nil && c.made(pod, name) {
			made = append(made, v1.PodResourceClaimStatus{Name: want.Name, ResourceClaimName: name})
			continue
		}
		o, err := c.get(claimTemplates, key{pod.Namespace, *want.ResourceClaimTemplateName})
		if err != nil && lives {
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

// made says that a claim of some name was made for a pod, or that none need be made: the name is nil.
func (c *cluster) made(pod *v1.Pod, name *string) bool {
	if name == nil {
		return true
	}
	o, err := c.get(resourceClaims, key{pod.Namespace, *name})
	return err == nil && metav1.IsControlledBy(o.(*resourcev1.ResourceClaim), pod)
}

// claimed says to people which devices a pod's claims have, such as "x0/gpu-0,gpu-1", by pool; "" if it has none.
func (c *cluster) claimed(pod *v1.Pod) string {
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

// unclaim does what it does when a pod has gone: claims that were made for the pod go, too,
// and no claim is reserved for it any longer.
func (a *api) unclaim(gone runtime.Object) error {
	pod, ok := gone.(*v1.Pod)
	if !ok {
		return nil
	}
	if err := a.unclaimVolumes(pod); err != nil {
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

// reserve does what it does when a claim has devices and is not reserved for a pod that runs with it: the answer to the pod's
// binding was lost, and the scheduler gave the claim back.
func (a *api) reserve(o runtime.Object) error {
	claim, ok := o.(*resourcev1.ResourceClaim)
	if !ok || claim.Status.Allocation == nil {
		return nil
	}
	all, _ := a.list(pods, claim.Namespace, nil)
	for _, o := range all {
		pod := o.(*v1.Pod)
		if pod.Spec.NodeName == "" || !namesClaim(pod, claim.Name) || resourceclaim.IsReservedForPod(pod, claim, false) || !resourceclaim.CanBeReserved(claim) {
			continue
		}
		now, err := a.change(resourceClaims, key{claim.Namespace, claim.Name}, func(old runtime.Object) (runtime.Object, error) {
			is, ok := old.(*resourcev1.ResourceClaim)
			if !ok || is.UID != claim.UID || is.Status.Allocation == nil {
				return old, nil
			}
			is = is.DeepCopy()
			is.Status.ReservedFor = append(is.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
			return is, nil
		})
		if err != nil {
			return err
		}
		if claim, ok = now.(*resourcev1.ResourceClaim); !ok {
			return nil
		}
	}
	return nil
}

// namesClaim says whether a pod has a claim of this name.
func namesClaim(pod *v1.Pod, claim string) bool {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil && *name == claim {
			return true
		}
	}
	return false
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
