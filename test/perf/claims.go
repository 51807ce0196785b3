package main

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claims are made from a template by the bench, as the controller of resource claims would make them: that controller would
// use the processors on which contenders are compared, the more of them the faster one is.

const (
	gpuDriver = "gpu.example.com"
	gpuClass  = "gpu"
	gpuClaim  = "gpu" // as pods name it
)

// template names the template for as many devices as a pod of a shape has.
func (s Shape) template() string { return fmt.Sprint("gpus-", s.GPUs) }

// claims has a pod want devices instead of a resource.
func claims(p *v1.Pod, s Shape) {
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: gpuClaim, ResourceClaimTemplateName: new(s.template())}}
	p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: gpuClaim}}
}

// claimSpec asks for a pod's devices.
func (s Shape) claimSpec() resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: gpuClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(s.GPUs),
		},
	}}}}
}

// claimOf is the claim that is made for a pod.
func claimOf(p *v1.Pod, s Shape) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, Labels: p.Labels,
			Annotations:     map[string]string{resourceapi.PodResourceClaimAnnotation: gpuClaim},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		},
		Spec: s.claimSpec(),
	}
}

// createClaim makes a pod's claim and says so in the pod.
func (b *bench) createClaim(ctx context.Context, p *v1.Pod, s Shape) error {
	c, err := b.client.ResourceV1().ResourceClaims(p.Namespace).Create(ctx, claimOf(p, s), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	says := fmt.Appendf(nil, `{"status":{"resourceClaimStatuses":[{"name":%q,"resourceClaimName":%q}]}}`, gpuClaim, c.Name)
	_, err = b.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, says, metav1.PatchOptions{}, "status")
	return err
}

// claimsOf are a drain's claims by pod.
func (b *bench) claimsOf(ctx context.Context, drain string) (map[string]*resourceapi.ResourceClaim, error) {
	list, err := b.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{LabelSelector: perfLabel + "=" + drain})
	if err != nil {
		return nil, err
	}
	all := make(map[string]*resourceapi.ResourceClaim, len(list.Items))
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all, nil
}

// allocate gives a claim, and the pod for which it was made, devices of a node from one on. It takes two requests, as
// schedulers need them: a status cannot have the finalizer with it.
func (b *bench) allocate(ctx context.Context, c *resourceapi.ResourceClaim, s Shape, node string, from int) error {
	api := b.binder.ResourceV1().ResourceClaims(c.Namespace)
	c.Finalizers = append(c.Finalizers, resourceapi.Finalizer)
	c, err := api.Update(ctx, c, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	c.Status = claimStatus(c, s, node, from)
	_, err = api.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}

// deviceOf is the first device of a pod on the node of nodeOf.
func deviceOf(i int, s Shape) int { return i % (gpusPerNode / s.GPUs) * s.GPUs }

// claimStatus is what a claim has then.
func claimStatus(c *resourceapi.ResourceClaim, s Shape, node string, from int) resourceapi.ResourceClaimStatus {
	owner := c.OwnerReferences[0]
	a := &resourceapi.AllocationResult{AllocationTimestamp: new(metav1.Now()), NodeSelector: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}
	for i := range s.GPUs {
		a.Devices.Results = append(a.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: gpuDriver, Pool: node, Device: fmt.Sprint("gpu-", from+i),
		})
	}
	return resourceapi.ResourceClaimStatus{
		Allocation: a, ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: owner.Name, UID: owner.UID}},
	}
}

// deleteClaims removes the claims of a drain after its pods are gone.
func (b *bench) deleteClaims(ctx context.Context, drain string) error {
	api := b.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: perfLabel + "=" + drain})
	if err != nil {
		return err
	}
	return inParallel(ctx, len(list.Items), func(i int) error {
		name := list.Items[i].Name
		if _, err := api.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		return api.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// offerDevices has every node offer its GPUs as a driver does.
func (b *bench) offerDevices(ctx context.Context, shapes []Shape, nodes []*v1.Node) error {
	if !slices.ContainsFunc(shapes, func(s Shape) bool { return s.Claims }) {
		return nil
	}
	api := b.client.ResourceV1()
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: gpuClass},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}},
		}},
	}
	if _, err := api.DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	made := map[string]bool{}
	for _, s := range shapes {
		if !s.Claims || made[s.template()] {
			continue
		}
		made[s.template()] = true
		t := &resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: s.template()}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: s.claimSpec()},
		}
		if _, err := api.ResourceClaimTemplates(metav1.NamespaceDefault).Create(ctx, t, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return inParallel(ctx, len(nodes), func(i int) error {
		_, err := api.ResourceSlices().Create(ctx, devicesOf(nodes[i].Name), metav1.CreateOptions{})
		return err
	})
}

// devicesOf are the GPUs of a node.
func devicesOf(node string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: gpuDriver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range gpusPerNode {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("gpu-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"index": {IntValue: new(int64(i))}},
		})
	}
	return s
}

// checkClaims says what is wrong with the devices of a drain when all of its pods are bound.
func (b *bench) checkClaims(ctx context.Context, drain string, s Shape, all *seen) ([]string, error) {
	if !s.Claims {
		return nil, nil
	}
	list, err := b.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{LabelSelector: perfLabel + "=" + drain})
	if err != nil {
		return nil, err
	}
	return wrongDevices(s, list.Items, all), nil
}

// wrongDevices lists claims with another number of devices than requested, or a device of another node, and devices of
// two claims.
func wrongDevices(s Shape, claims []resourceapi.ResourceClaim, all *seen) (wrong []string) {
	of := map[string]string{}
	for i := range claims {
		c := &claims[i]
		var has []resourceapi.DeviceRequestAllocationResult
		if c.Status.Allocation != nil {
			has = c.Status.Allocation.Devices.Results
		}
		if len(has) != s.GPUs {
			wrong = append(wrong, fmt.Sprintf("%s has %d devices", c.Name, len(has)))
		}
		for _, d := range has {
			id := d.Pool + "/" + d.Device
			if of[id] != "" {
				wrong = append(wrong, fmt.Sprintf("%s is of %s and %s", id, of[id], c.Name))
			}
			of[id] = c.Name
			if at := all.places[c.Name].node; at != d.Pool {
				wrong = append(wrong, fmt.Sprintf("%s has %s and is on %s", c.Name, id, at))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}
