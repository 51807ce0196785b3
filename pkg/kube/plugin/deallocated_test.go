package plugin_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// withClaim has a pod have a claim for one device, which was made for it.
func withClaim(c *testcluster.Cluster, t *testing.T, p *v1.Pod, device string) *v1.Pod {
	template := "one"
	p.UID = types.UID(p.Name)
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: p.Name + "-gpu", UID: types.UID(p.Name + "-gpu"),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
	if device != "" {
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "d", Pool: device, Device: "gpu"}},
		}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim.Name}}
	require.NoError(t, c.Client.Tracker().Add(claim))
	return p
}

// The victims are gone, and their claims are deallocated later. Until then no further pod is evicted, neither for
// the gang nor for another one. Then the gang starts on the victims' nodes.
func TestPlacesWaitForDeallocation(t *testing.T) {
	t.Parallel()
	c := testcluster.New(t, "s/b/n0=16 s/b/n1=16 s/b/n2=16 s/b/n3=16")
	require.NoError(t, c.Client.Tracker().Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}))
	for i := range 4 {
		name := fmt.Sprint("n", i)
		require.NoError(t, c.Client.Tracker().Add(&resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "d", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
				Devices: []resourceapi.Device{{Name: "gpu"}},
			},
		}))
		c.Pod(withClaim(c, t, testcluster.A(fmt.Sprint("low-", i), 1000, "1", name), name))
	}
	c.Run()
	members := testcluster.Pending(2, 1000000, "1")
	for i, p := range members {
		p.Name = fmt.Sprint("g-", i)
		withClaim(c, t, p, "")
	}
	c.Gang("g", 2, members...)
	c.Wait("low-0 low-1", c.Evicted)
	c.Never(func() bool { return c.Evicted() != "low-0 low-1" || c.Get("g-0").Spec.NodeName != "" })
	claims := resourceapi.SchemeGroupVersion.WithResource("resourceclaims")
	for _, name := range []string{"low-0-gpu", "low-1-gpu"} {
		require.NoError(t, c.Client.Tracker().Delete(claims, "default", name))
	}
	c.Wait("g-0=n0 g-1=n1", func() string { return c.Where("g-0", "g-1") })
	require.Equal(t, "low-0 low-1", c.Evicted())
}
