package allot_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/allot"
)

// TestReview: a claim is kept while somebody comes for whom it was written, is forgotten when those have it who are there, and is
// listed once, to be taken back, when somebody has not who does not come.
func TestReview(t *testing.T) {
	for name, c := range map[string]struct {
		fates []allot.Fate
		back  bool
		known bool // afterwards
	}{
		"nobody was to use it":  {nil, true, true},
		"one comes":             {[]allot.Fate{allot.Comes}, false, true},
		"the last one comes":    {[]allot.Fate{allot.Stays, allot.Stays, allot.Comes}, false, true},
		"one has it":            {[]allot.Fate{allot.Stays, allot.Bound}, true, true},
		"one has it, one comes": {[]allot.Fate{allot.Stays, allot.Bound, allot.Comes}, false, true},
		"who is there has it":   {[]allot.Fate{allot.Gone, allot.Bound}, false, false},
		"nobody comes":          {[]allot.Fate{allot.Stays, allot.Stays}, true, true},
		"nobody is there":       {[]allot.Fate{allot.Gone, allot.Gone}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			claim, r := marked(t, "gpu", len(c.fates)), &allot.Room{}
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
			require.Equal(t, waits, r.Waits(who, []*v1.Pod{naming("x", "other"), who}))
			require.Empty(t, r.Waits(who, []*v1.Pod{naming("x", "other")}), "of another claim")
			require.Len(t, r.Forget(claim.UID), len(want))
			require.False(t, c.back && r.Any())
		})
	}
}

// TestKeep: who got a place while Review asked keeps what was written for him, and who has waited is told; otherwise it is taken back.
func TestKeep(t *testing.T) {
	claim, r := marked(t, "gpu", 2), &allot.Room{}
	r.Find([]*resourceapi.ResourceClaim{claim}, func(allot.User, bool) bool { return true })
	says := func(is allot.Fate) func(allot.User) allot.Fate { return func(allot.User) allot.Fate { return is } }
	require.Len(t, r.Review(says(allot.Stays)), 1)
	who := naming("who", "gpu")
	require.Equal(t, "ns/gpu", r.Waits(who, []*v1.Pod{who}))
	kept, waiting := r.Keep(claim.UID, says(allot.Stays))
	require.False(t, kept)
	require.Empty(t, waiting)
	kept, waiting = r.Keep(claim.UID, says(allot.Comes))
	require.True(t, kept)
	require.Equal(t, map[string]*v1.Pod{"ns/who": who}, waiting)
	require.Empty(t, r.Waits(who, []*v1.Pod{who}))
	require.Len(t, r.Review(says(allot.Stays)), 1, "it is known as before")
	kept, _ = r.Keep("another", says(allot.Comes))
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
		"ours":                       {func(*resourceapi.ResourceClaim) {}, true, true, false},
		"for a pod of somebody else": {func(*resourceapi.ResourceClaim) {}, false, false, false},
		"not marked":                 {func(c *resourceapi.ResourceClaim) { c.Annotations = nil }, true, false, false},
		"by a member's own cycle":    {func(c *resourceapi.ResourceClaim) { c.Annotations = nil }, true, true, true},
		"reserved for nobody":        {func(c *resourceapi.ResourceClaim) { c.Annotations, c.Status.ReservedFor = nil, nil }, true, false, true},
		"taken back":                 {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, true, false, false},
		"allocated anew by others":   {func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "other" }, true, false, false},
		"reserved for no pod":        {func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor[0].Resource = "jobs" }, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			claim, r := marked(t, "gpu", 1), &allot.Room{}
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
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: user, UID: types.UID(user)})
	}
	c.Annotations = map[string]string{scheduling.AnnotationAllocatedAhead: allot.MarkOf(c.Status.Allocation)}
	require.True(t, allot.Ahead(c))
	return c
}

// TestWaitsForItsOwn: who waits until a claim is given back may name it, or have it made for itself.
func TestWaitsForItsOwn(t *testing.T) {
	r := &allot.Room{}
	r.Find([]*resourceapi.ResourceClaim{marked(t, "gpu", 1)}, func(allot.User, bool) bool { return true })
	require.Len(t, r.Review(func(allot.User) allot.Fate { return allot.Stays }), 1)
	who := naming("who", "")
	who.Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: ptr.To("template")}
	require.Empty(t, r.Waits(who, []*v1.Pod{who}), "it has none yet")
	who.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("other")}}
	require.Empty(t, r.Waits(who, []*v1.Pod{who}))
	who.Status.ResourceClaimStatuses[0].ResourceClaimName = ptr.To("gpu")
	require.Equal(t, "ns/gpu", r.Waits(who, []*v1.Pod{who}))
}

func naming(pod, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod},
		Spec:       v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To(claim)}}},
	}
}
