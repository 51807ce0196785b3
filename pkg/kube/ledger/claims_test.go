package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
)

const driverName = "gpu.example.com"

func deviceClass(name string, selectors ...string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	for _, s := range selectors {
		c.Spec.Selectors = append(c.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: s}})
	}
	return c
}

// slice is a pool of devices of a node; of all nodes if none is named.
func slice(pool, node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pool, UID: types.UID(pool)},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driverName, Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
		},
	}
	if node == "" {
		s.Spec.AllNodes = new(true)
	} else {
		s.Spec.NodeName = &node
	}
	return s
}

// gpus are devices gpu-0 to gpu-(n-1).
func gpus(n int) (devices []resourceapi.Device) {
	for i := range n {
		devices = append(devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	return devices
}

// typed is a device with an attribute.
func typed(name, kind string) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &kind}}}
}

// asks is one request for n devices of a class.
func asks(name, class string, n int64, selectors ...string) resourceapi.DeviceRequest {
	r := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: n}
	for _, s := range selectors {
		r.Selectors = append(r.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: s}})
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: r}
}

func kindIs(kind string) string {
	return fmt.Sprintf(`device.attributes["%s"].kind == %q`, driverName, kind)
}

// claiming makes members 0 to n-1, for each of which a claim was made from a template.
func claiming(n int, requests ...resourceapi.DeviceRequest) (members []*v1.Pod, objects []runtime.Object) {
	return claimingAs("m", n, requests...)
}

func claimingAs(name string, n int, requests ...resourceapi.DeviceRequest) (members []*v1.Pod, objects []runtime.Object) {
	for i := range n {
		p := pod(fmt.Sprint(name, "-", i)).Req(map[v1.ResourceName]string{"cpu": "1"}).Obj()
		c := claimOf(p, requests...)
		members, objects = append(members, p), append(objects, p, c)
	}
	return members, objects
}

// claimOf gives a pod a claim from a template.
func claimOf(p *v1.Pod, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name + "-gpu", UID: types.UID(p.Name + "-gpu"),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
	template := "template"
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &c.Name}}
	return c
}

// given is a claim that has devices of a pool, and its users.
func given(c *resourceapi.ResourceClaim, pool string, devices []string, users ...*v1.Pod) *resourceapi.ResourceClaim {
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: driverName, Pool: pool, Device: d})
	}
	for _, u := range users {
		c.Status.ReservedFor = append(c.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: u.Name, UID: u.UID})
	}
	return c
}

func tainted(d resourceapi.Device) resourceapi.Device {
	d.Taints = []resourceapi.DeviceTaint{{Key: "sick", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	return d
}

// TestClaims: so many members take their place on node n that each has its devices, and so many pass their
// own cycles.
func TestClaims(t *testing.T) {
	quantity := resource.MustParse
	for name, c := range map[string]struct {
		slices   []*resourceapi.ResourceSlice
		requests []resourceapi.DeviceRequest
		match    string // an attribute that all devices of a claim share
		want     offer.Slots
		why      string
	}{
		"one each": {
			slices: []*resourceapi.ResourceSlice{slice("n", "n", gpus(4)...)}, requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 1)}, want: 4,
		},
		"two each": {
			slices: []*resourceapi.ResourceSlice{slice("n", "n", gpus(5)...)}, requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 2)}, want: 2,
		},
		"elsewhere": {
			slices: []*resourceapi.ResourceSlice{slice("o", "other", gpus(5)...)}, requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 2)},
			why: "cannot allocate all claims",
		},
		"two slices": {
			slices:   []*resourceapi.ResourceSlice{slice("n", "n", gpus(1)...), slice("m", "n", gpus(2)...)},
			requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 1)}, want: 3,
		},
		"a tainted one": {
			slices:   []*resourceapi.ResourceSlice{slice("n", "n", gpus(1)[0], tainted(typed("gpu-1", "")))},
			requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 1)}, want: 1,
		},
		"some of them match": {
			slices:   []*resourceapi.ResourceSlice{slice("n", "n", typed("a", "x"), typed("b", "y"), typed("c", "x"))},
			requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 1, kindIs("x"))}, want: 2,
		},
		"all of the same": {
			slices: []*resourceapi.ResourceSlice{
				slice("n", "n", typed("a", "x"), typed("b", "y"), typed("c", "x"), typed("d", "y"), typed("e", "y")),
			},
			requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 2)}, match: driverName + "/kind", want: 2,
		},
		"a pool is not whole": {
			slices:   []*resourceapi.ResourceSlice{halfSeen(slice("n", "n", gpus(4)...))},
			requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 1)}, why: "cannot allocate all claims",
		},
		"the first, or the other": {
			slices: []*resourceapi.ResourceSlice{slice("n", "n", typed("a", "x"), typed("b", "y"), typed("c", "y"))},
			requests: []resourceapi.DeviceRequest{{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
				{
					Name: "x", DeviceClassName: "gpu", Selectors: asks("", "", 1, kindIs("x")).Exactly.Selectors,
					AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				},
				{
					Name: "y", DeviceClassName: "gpu", Selectors: asks("", "", 1, kindIs("y")).Exactly.Selectors,
					AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2,
				},
			}}}, want: 2,
		},
		"parts of a card": {
			slices: []*resourceapi.ResourceSlice{
				counters("n-cards", "n", 1), partOf(slice("n", "n"), "whole", 2), partOf(slice("n2", "n"), "half-0", 1),
				partOf(slice("n3", "n"), "half-1", 1),
			},
			requests: []resourceapi.DeviceRequest{asks("gpu", "gpu", 1, kindIs("half-0")+" || "+kindIs("half-1"))}, want: 2,
		},
		"a share of a device": {
			slices: []*resourceapi.ResourceSlice{slice("n", "n", resourceapi.Device{
				Name: "big", AllowMultipleAllocations: new(true), Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
					"memory": {Value: quantity("80Gi")},
				},
			})},
			requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": quantity("30Gi")}},
			}}}, want: 2,
		},
		"admin access only": {
			slices: []*resourceapi.ResourceSlice{slice("n", "n", gpus(1)...)},
			requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1, AdminAccess: new(true),
			}}},
			want: 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			members, objects := claiming(6, c.requests...)
			objects = append(objects, node("n"), node("other"), deviceClass("gpu"))
			onePool(c.slices)
			for _, s := range c.slices {
				objects = append(objects, s)
			}
			if c.match != "" {
				attribute := resourceapi.FullyQualifiedName(c.match)
				for _, o := range objects {
					if claim, ok := o.(*resourceapi.ResourceClaim); ok {
						claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
					}
				}
			}
			w := newCluster(t, objects...)
			got, why := w.slots("n", members...)
			require.Equal(t, c.want, min(got, 6))
			if c.why != "" {
				require.Contains(t, why, c.why)
			}
			require.False(t, w.counter(members...).Dependent(true), "each node by itself")
			passed, said := w.cycles(members, "n")
			require.Equal(t, int(c.want), passed, "in cycles of their own: %s", said)
		})
	}
}

func halfSeen(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	s.Spec.Pool.ResourceSliceCount = 2
	return s
}

// counters is the slice of a pool that says how many halves its cards have.
func counters(name, node string, cards int) *resourceapi.ResourceSlice {
	s := slice(name, node)
	for i := range cards {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{
			Name: fmt.Sprint("card-", i), Counters: map[string]resourceapi.Counter{"halves": {Value: resource.MustParse("2")}},
		})
	}
	return s
}

// partOf adds a device that takes some halves of the first card.
func partOf(s *resourceapi.ResourceSlice, name string, halves int) *resourceapi.ResourceSlice {
	d := typed(name, name)
	d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
		CounterSet: "card-0", Counters: map[string]resourceapi.Counter{
			"halves": {Value: *resource.NewQuantity(int64(halves), resource.DecimalSI)},
		},
	}}
	s.Spec.Devices = append(s.Spec.Devices, d)
	return s
}

// onePool puts slices into one pool if there are counters among them.
func onePool(all []*resourceapi.ResourceSlice) {
	if !slices.ContainsFunc(all, func(s *resourceapi.ResourceSlice) bool { return len(s.Spec.SharedCounters) > 0 }) {
		return
	}
	for _, s := range all {
		s.Spec.Pool.Name, s.Spec.Pool.ResourceSliceCount = "cards", int64(len(all))
	}
}

// TestExtendedResources: nvidia.com/gpu may be had from a device plugin, or from a class.
func TestExtendedResources(t *testing.T) {
	gpuName := "nvidia.com/gpu"
	for name, c := range map[string]struct {
		plugin string // how many the node has without claims
		class  string // the extended resource of the class
		ask    string
		want   offer.Slots
	}{
		"of a class":          {class: gpuName, ask: gpuName, want: 4},
		"by the class's name": {ask: "deviceclass.resource.kubernetes.io/gpu", want: 4},
		"of the node":         {plugin: "3", class: gpuName, ask: gpuName, want: 3},
		"of nobody":           {ask: gpuName, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			n, class := node("n"), deviceClass("gpu")
			if c.plugin != "" {
				n.Status.Allocatable[v1.ResourceName(gpuName)] = resource.MustParse(c.plugin)
			}
			if c.class != "" {
				class.Spec.ExtendedResourceName = &c.class
			}
			var members []*v1.Pod
			for i := range 6 {
				members = append(members, pod(fmt.Sprint("m-", i)).Req(map[v1.ResourceName]string{"cpu": "1", v1.ResourceName(c.ask): "1"}).Obj())
			}
			w := newCluster(t, n, class, slice("n", "n", gpus(4)...))
			got, _ := w.slots("n", members...)
			require.Equal(t, c.want, got)
			passed, why := w.cycles(members, "n")
			require.Equal(t, int(c.want), passed, why)
		})
	}
}

// TestVictimsGiveDevicesBack: a claim's devices are free once all its users are evicted.
func TestVictimsGiveDevicesBack(t *testing.T) {
	low, mate := pod("low").Node("n").Obj(), pod("mate").Node("n").Obj()
	own := given(claimOf(low, asks("gpu", "gpu", 2)), "n", []string{"gpu-0", "gpu-1"}, low)
	both := given(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "both", UID: "both"}}, "n",
		[]string{"gpu-2"}, low, mate)
	members, objects := claiming(4, asks("gpu", "gpu", 1))
	w := newCluster(t,
		slices.Concat([]runtime.Object{node("n"), deviceClass("gpu"), slice("n", "n", gpus(4)...), own, both, low, mate}, objects)...)
	counter := w.counter(members...)
	n := w.nodes()["n"]
	count := func(gone ...*v1.Pod) int {
		slots, _ := counter.CountWithout(t.Context(), n, nil, gone)
		return int(slots)
	}
	require.Equal(t, 1, count())
	require.Equal(t, 3, count(low))
	require.Equal(t, 1, count(mate))
	require.Equal(t, 4, count(low, mate))
}

// TestDevicesOfSeveralNodes: what several nodes reach is counted on none of them alone.
func TestDevicesOfSeveralNodes(t *testing.T) {
	members, objects := claiming(4, asks("gpu", "gpu", 1, kindIs("net")))
	others, more := claimingAs("o", 1, asks("gpu", "gpu", 1, kindIs("card")))
	w := newCluster(t, slices.Concat([]runtime.Object{
		node("n"), node("other"), deviceClass("gpu"), slice("net", "", typed("a", "net"), typed("b", "net")), slice("n", "n", typed("c", "card")),
	}, objects, more)...)
	require.True(t, w.counter(members...).Dependent(true))
	require.False(t, w.counter(others...).Dependent(true), "a member that needs nothing of it")

	s, err := fit.NewTrial(t.Context(), w.profile, []*v1.Pod{members[0]}, []string{"n", "other"}, w.open(members...)...)
	require.NoError(t, err)
	s.Put(0, 0)
	require.True(t, s.Fits(0, 1))
	s.Put(0, 1)
	require.False(t, s.Fits(0, 0))
	require.False(t, s.Fits(0, 1))
	s.Undo()
	require.True(t, s.Fits(0, 0))
	s.Undo()
	require.NoError(t, s.Close())
	passed, _ := w.cycles(members, "n", "other")
	require.Equal(t, 2, passed)
}

// TestDevicesRemembered: the answer for a node stays true until its devices or their holders change.
func TestDevicesRemembered(t *testing.T) {
	members, objects := claiming(4, asks("gpu", "gpu", 1))
	w := newCluster(t, slices.Concat([]runtime.Object{
		node("n0"), node("n1"), deviceClass("gpu"), slice("n0", "n0", gpus(2)...), slice("n1", "n1", gpus(3)...),
	}, objects)...)
	memory := fit.NewMemory(w.profile)
	count := func() (slots []offer.Slots, ran int64) {
		nodes := w.nodes()
		counter := w.counter(members[1:]...)
		before := fit.FilterRuns()
		slots = memory.Count(t.Context(), counter, []fwk.NodeInfo{nodes["n0"], nodes["n1"]}, nil).Slots
		return slots, fit.FilterRuns() - before
	}
	slots, _ := count()
	require.Equal(t, []offer.Slots{2, 3}, slots)
	slots, ran := count()
	require.Equal(t, []offer.Slots{2, 3}, slots)
	require.Zero(t, ran, "nothing has changed")
	w.assume(members[0], "n1")
	slots, ran = count()
	require.Equal(t, []offer.Slots{2, 2}, slots)
	require.NotZero(t, ran)
}
