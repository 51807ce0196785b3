package allot_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/allot"
)

// TestReview: a claim stays while a user has a reserved node, and is forgotten once its users are bound. It is listed
// once if an unbound user has no node.
func TestReview(t *testing.T) {
	for name, c := range map[string]struct {
		fates []allot.Fate
		back  bool
		known bool // afterwards
	}{
		"no pod uses it":                {nil, true, true},
		"one comes":                     {[]allot.Fate{allot.Assigned}, false, true},
		"the last one comes":            {[]allot.Fate{allot.Unassigned, allot.Unassigned, allot.Assigned}, false, true},
		"one has it":                    {[]allot.Fate{allot.Unassigned, allot.Bound}, true, true},
		"one has it, one comes":         {[]allot.Fate{allot.Unassigned, allot.Bound, allot.Assigned}, false, true},
		"the only existing user has it": {[]allot.Fate{allot.Deleted, allot.Bound}, false, false},
		"no user is assigned":           {[]allot.Fate{allot.Unassigned, allot.Unassigned}, true, true},
		"no user exists":                {[]allot.Fate{allot.Deleted, allot.Deleted}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			claim, r := marked(t, "gpu", len(c.fates)), &allot.Allocations{}
			r.Find([]*resourceapi.ResourceClaim{claim}, func(allot.User, bool) bool { return true })
			fate := func(u allot.User) allot.Fate { return c.fates[u.Name[0]-'a'] }
			var want []types.UID
			if c.back {
				want = []types.UID{claim.UID}
			}
			require.Equal(t, want, r.Review(fate))
			require.Empty(t, r.Review(fate), "once")
			require.Equal(t, c.known, r.Any())

			who := naming("who", "gpu")
			waits := ""
			if c.back {
				waits = "ns/gpu"
			}
			require.Equal(t, waits, r.WaitForRelease(who, []*v1.Pod{naming("x", "other"), who}))
			require.Empty(t, r.WaitForRelease(who, []*v1.Pod{naming("x", "other")}), "of another claim")
			require.Len(t, r.Forget(claim.UID), len(want))
			require.False(t, c.back && r.Any())
		})
	}
}

// TestKeep: a pod that got a node during Review keeps its claim, and waiting pods are returned; otherwise the claim is taken back.
func TestKeep(t *testing.T) {
	claim, r := marked(t, "gpu", 2), &allot.Allocations{}
	r.Find([]*resourceapi.ResourceClaim{claim}, func(allot.User, bool) bool { return true })
	says := func(is allot.Fate) func(allot.User) allot.Fate { return func(allot.User) allot.Fate { return is } }
	require.Len(t, r.Review(says(allot.Unassigned)), 1)
	who := naming("who", "gpu")
	require.Equal(t, "ns/gpu", r.WaitForRelease(who, []*v1.Pod{who}))
	kept, waiting := r.KeepIfNeeded(claim.UID, says(allot.Unassigned))
	require.False(t, kept)
	require.Empty(t, waiting)
	kept, waiting = r.KeepIfNeeded(claim.UID, says(allot.Assigned))
	require.True(t, kept)
	require.Equal(t, map[string]*v1.Pod{"ns/who": who}, waiting)
	require.Empty(t, r.WaitForRelease(who, []*v1.Pod{who}))
	require.Len(t, r.Review(says(allot.Unassigned)), 1, "it is known as before")
	kept, _ = r.KeepIfNeeded("another", says(allot.Assigned))
	require.False(t, kept)
}

// TestFind: only what this scheduler has written, for pods that are its own or gone, is taken up after a restart.
func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*resourceapi.ResourceClaim)
		ours   bool
		found  bool
		waits  bool
	}{
		"ours":                    {func(*resourceapi.ResourceClaim) {}, true, true, false},
		"for a foreign pod":       {func(*resourceapi.ResourceClaim) {}, false, false, false},
		"not marked":              {func(c *resourceapi.ResourceClaim) { c.Annotations = nil }, true, false, false},
		"by a member's own cycle": {func(c *resourceapi.ResourceClaim) { c.Annotations = nil }, true, true, true},
		"not reserved":            {func(c *resourceapi.ResourceClaim) { c.Annotations, c.Status.ReservedFor = nil, nil }, true, false, true},
		"taken back":              {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, true, false, false},
		"allocated anew by others": {
			func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "other" }, true, false, false,
		},
		"reserved for no pod": {func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor[0].Resource = "jobs" }, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			claim, r := marked(t, "gpu", 1), &allot.Allocations{}
			c.change(claim)
			r.Find([]*resourceapi.ResourceClaim{claim}, func(_ allot.User, waits bool) bool { return c.ours && !waits || c.waits })
			require.Equal(t, c.found, r.Any())
		})
	}
}

// marked is a claim that was written for so many pods, a, b, c and so on.
func marked(t *testing.T, name string, pods int) *resourceapi.ResourceClaim {
	t.Helper()
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid of " + name)}}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "gpu-0"}},
	}}
	for i := range pods {
		user := string(rune('a' + i))
		c.Status.ReservedFor = append(c.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: user, UID: types.UID(user)})
	}
	c.Annotations = map[string]string{scheduling.AnnotationAllocatedAhead: allot.MarkOf(c.Status.Allocation)}
	require.True(t, allot.AllocatedByMuster(c))
	return c
}

// TestWaitsForItsOwn: a pod waits for a claim that it names, or that was made for it.
func TestWaitsForItsOwn(t *testing.T) {
	r := &allot.Allocations{}
	r.Find([]*resourceapi.ResourceClaim{marked(t, "gpu", 1)}, func(allot.User, bool) bool { return true })
	require.Len(t, r.Review(func(allot.User) allot.Fate { return allot.Unassigned }), 1)
	who := naming("who", "")
	who.Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: ptr.To("template")}
	require.Empty(t, r.WaitForRelease(who, []*v1.Pod{who}), "it has none yet")
	who.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("other")}}
	require.Empty(t, r.WaitForRelease(who, []*v1.Pod{who}))
	who.Status.ResourceClaimStatuses[0].ResourceClaimName = ptr.To("gpu")
	require.Equal(t, "ns/gpu", r.WaitForRelease(who, []*v1.Pod{who}))
}

func naming(pod, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod},
		Spec:       v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To(claim)}}},
	}
}

// tracker knows one claim.
type tracker struct {
	fwk.ResourceClaimTracker
	is *resourceapi.ResourceClaim
}

func (t tracker) List() ([]*resourceapi.ResourceClaim, error) {
	return []*resourceapi.ResourceClaim{t.is}, nil
}

func (t tracker) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if namespace != t.is.Namespace || name != t.is.Name {
		return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
	}
	return t.is, nil
}

// TestIdle: allocations of unschedulable members are taken back unless another pod uses them, or that was refused before.
func TestIdle(t *testing.T) {
	a, b := naming("a", "gpu"), naming("b", "gpu")
	a.UID, b.UID = "a", "b"
	for name, c := range map[string]struct {
		change  func(*resourceapi.ResourceClaim)
		members []*v1.Pod
		idle    bool
	}{
		"not reserved":           {func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil }, []*v1.Pod{a}, true},
		"reserved for members":   {func(*resourceapi.ResourceClaim) {}, []*v1.Pod{a, b}, true},
		"reserved for another":   {func(*resourceapi.ResourceClaim) {}, []*v1.Pod{a}, false},
		"reserved for no pod":    {func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor[0].Resource = "jobs" }, []*v1.Pod{a, b}, false},
		"not allocated":          {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, []*v1.Pod{a, b}, false},
		"to be used on any node": {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.NodeSelector = nil }, []*v1.Pod{a, b}, false},
		"named by none of them":  {func(*resourceapi.ResourceClaim) {}, []*v1.Pod{naming("a", "other")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			claim := marked(t, "gpu", 2)
			claim.Status.Allocation.NodeSelector = &v1.NodeSelector{}
			c.change(claim)
			r := &allot.Allocations{Claims: tracker{is: claim}}
			require.Equal(t, c.idle, r.RecordIdle(c.members))
			require.Equal(t, c.idle, r.Any())
			require.Equal(t, c.idle, r.RecordIdle(c.members), "once more")
			r.SetUnreleasable(claim.UID)
			require.False(t, r.RecordIdle(c.members))
		})
	}
}

// TestLeftover: a claim for extended resources belongs to its pod, and blocks no other pod.
func TestLeftover(t *testing.T) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "a-extended-resources-x", UID: "x", Annotations: map[string]string{
			resourceapi.ExtendedResourceClaimAnnotation: "true",
		},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "a", UID: "a", Controller: ptr.To(true)}},
	}}
	asks := v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"x.io/gpu": resource.MustParse("1")}}}
	a := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}, Spec: v1.PodSpec{Containers: []v1.Container{asks}}}
	b, again, plain := a.DeepCopy(), a.DeepCopy(), a.DeepCopy()
	b.Name, b.UID = "b", "b"
	again.UID = "another"
	plain.Spec.Containers = []v1.Container{{}}
	for name, c := range map[string]struct {
		members []*v1.Pod
		left    bool
	}{
		"its own": {[]*v1.Pod{b, a}, true}, "another's": {[]*v1.Pod{b}, false}, "made again": {[]*v1.Pod{again}, false},
		"it asks for no such": {[]*v1.Pod{plain}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &allot.Allocations{Claims: tracker{is: claim}}
			require.Equal(t, c.left, r.RecordLeftover(c.members))
			require.Equal(t, c.left, r.Any())
			back := r.Review(func(u allot.User) allot.Fate {
				require.True(t, u.Extended)
				return allot.Unassigned
			})
			require.Equal(t, c.left, len(back) == 1)
			require.Empty(t, r.WaitForRelease(b, []*v1.Pod{b}))
			require.Equal(t, c.left, r.WaitForRelease(a, []*v1.Pod{a}) != "")
		})
	}
	require.False(t, (&allot.Allocations{}).RecordLeftover([]*v1.Pod{a}), "without claims")
}
