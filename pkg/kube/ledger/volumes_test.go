package ledger_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
)

func capacity(name, class, size string, topology map[string]string) *storagev1.CSIStorageCapacity {
	q := resource.MustParse(size)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: "csi", Name: name, UID: types.UID(name)},
		StorageClassName: class, NodeTopology: &metav1.LabelSelector{MatchLabels: topology}, Capacity: &q,
	}
}

func driver(name string) *storagev1.CSIDriver {
	yes := true
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes}}
}

func attachable(node, driver string, n int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: node, Allocatable: &storagev1.VolumeNodeResources{Count: &n}}},
	}}
}

// TestVolumes: so many members take their place on node n that each has a volume of its own.
func TestVolumes(t *testing.T) {
	onN := map[string]string{v1.LabelHostname: "n"}
	for name, c := range map[string]struct {
		class   *storagev1.StorageClass
		size    string
		objects []runtime.Object
		want    offer.Slots
		why     string
		cycles  int // if the members' own cycles let more pass
	}{
		"local volumes": {objects: []runtime.Object{
			disk("a", "c", "1Gi", "n"), disk("b", "c", "1Gi", "n"), disk("o", "c", "1Gi", "other"),
		}, want: 2},
		"none is large enough": {
			size: "2Gi", objects: []runtime.Object{disk("a", "c", "1Gi", "n")}, why: "node(s) didn't find available persistent volumes to bind",
		},
		"of several sizes": {
			size: "2Gi", objects: []runtime.Object{disk("a", "c", "1Gi", "n"), disk("b", "c", "2Gi", "n"), disk("d", "c", "3Gi", "n")}, want: 2,
		},
		"of another class": {
			objects: []runtime.Object{disk("a", "d", "1Gi", "n")}, why: "node(s) didn't find available persistent volumes to bind",
		},
		"made when needed": {class: class("c", "csi"), want: 64, cycles: 5},
		"as many as there is capacity for": {
			class: class("c", "csi"), objects: []runtime.Object{driver("csi"), capacity("n", "c", "3Gi", onN)}, want: 3, cycles: 5,
		},
		"capacity elsewhere": {
			class: class("c", "csi"), why: "node(s) did not have enough free storage",
			objects: []runtime.Object{driver("csi"), capacity("n", "c", "3Gi", map[string]string{v1.LabelHostname: "other"})},
		},
		"as many as can be attached": {class: class("c", "csi"), objects: []runtime.Object{attachable("n", "csi", 2)}, want: 2},
		"volumes, and more are made": {class: class("c", "csi"), objects: []runtime.Object{
			driver("csi"), capacity("n", "c", "1Gi", onN), disk("a", "c", "1Gi", "n"),
		}, want: 2, cycles: 5},
	} {
		t.Run(name, func(t *testing.T) {
			if c.class == nil {
				c.class = class("c", "")
			}
			if c.size == "" {
				c.size = "1Gi"
			}
			members, claims := each(5, "c", c.size)
			w := newCluster(t, slices.Concat([]runtime.Object{node("n"), node("other"), c.class}, claims, c.objects)...)
			got, why := w.slots("n", members...)
			require.Equal(t, c.want, got)
			if c.why != "" {
				require.Contains(t, why, c.why)
			}
			require.False(t, w.counter(members...).Dependent(true), "each node by itself")
			if c.cycles == 0 {
				c.cycles = int(c.want)
			}
			passed, _ := w.cycles(members, "n")
			require.Equal(t, c.cycles, passed, "in cycles of their own")
		})
	}
}

// TestMembersWithClaimsAreAlike: claims' names make no difference, what they ask for does.
func TestMembersWithClaimsAreAlike(t *testing.T) {
	members, claims := each(3, "c", "1Gi")
	large, same := using("large", "large"), using("same", "data-0")
	w := newCluster(t,
		slices.Concat(claims, []runtime.Object{node("n"), class("c", ""), disk("d", "c", "2Gi", "n"), volumeClaim("large", "c", "2Gi")})...)
	key := func(of *v1.Pod, members ...*v1.Pod) string {
		return w.counter(slices.Concat([]*v1.Pod{of}, members)...).Key()
	}
	require.NotEmpty(t, key(members[0], members[1], members[2]))
	require.Equal(t, key(members[0], members[1]), key(members[1], members[0]))
	require.NotEqual(t, key(members[0], large), key(large, members[0]))
	require.NotEqual(t, key(members[0], same), key(members[1], members[0], same), "one claim for two of them")
}

// TestVolumesOfSeveralNodes: what is taken on one node is missing on another, so nodes cannot be counted
// one by one; where there is enough for all they can.
func TestVolumesOfSeveralNodes(t *testing.T) {
	for name, c := range map[string]struct {
		class   *storagev1.StorageClass
		objects []runtime.Object
		far     bool
	}{
		"enough for all": {objects: []runtime.Object{disk("a", "c", "1Gi"), disk("b", "c", "1Gi"), disk("d", "c", "1Gi")}},
		"not enough":     {objects: []runtime.Object{disk("a", "c", "1Gi"), disk("b", "c", "1Gi")}, far: true},
		"too small": {objects: []runtime.Object{
			disk("a", "c", "1Gi"), disk("b", "c", "1Gi"), disk("d", "c", "1Mi"),
		}, far: true},
		"of two nodes": {objects: []runtime.Object{disk("a", "c", "1Gi", "n", "other")}, far: true},
		"little capacity": {
			class: class("c", "csi"), objects: []runtime.Object{driver("csi"), capacity("z", "c", "2Gi", nil)}, far: true,
		},
		"much capacity": {class: class("c", "csi"), objects: []runtime.Object{driver("csi"), capacity("z", "c", "3Gi", nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.class == nil {
				c.class = class("c", "")
			}
			members, claims := each(3, "c", "1Gi")
			w := newCluster(t, slices.Concat([]runtime.Object{node("n"), node("other"), c.class}, claims, c.objects)...)
			require.Equal(t, c.far, w.counter(members...).Dependent(true))
		})
	}
}

// TestAssumedVolumes: volumes assumed for waiting members are taken, though no object shows it.
func TestAssumedVolumes(t *testing.T) {
	members, claims := each(4, "c", "1Gi")
	w := newCluster(t, slices.Concat([]runtime.Object{
		node("n"), class("c", ""), disk("a", "c", "1Gi", "n"), disk("b", "c", "1Gi", "n"), disk("d", "c", "1Gi", "n"),
	}, claims)...)
	w.assume(members[0], "n")
	w.assume(members[1], "n")
	got, _ := w.slots("n", members[2], members[3])
	require.Equal(t, offer.Slots(1), got)
}

// TestVolumesOfWhichEitherMayBeTaken: where VolumeBinding may take a volume that another node needs, the order in which
// members come is one that holds whichever it takes; to hope for the other one is a page of its own.
func TestVolumesOfWhichEitherMayBeTaken(t *testing.T) {
	for name, c := range map[string]struct {
		disks            []runtime.Object
		first            string // the node that is taken first; then the other one
		holds, different bool
	}{
		"the one that both reach may be taken": {
			[]runtime.Object{disk("a", "c", "1Gi", "n"), disk("b", "c", "1Gi", "n", "other")}, "n", false, true,
		},
		"it is the only one there": {[]runtime.Object{disk("a", "c", "1Gi", "n"), disk("b", "c", "1Gi", "n", "other")}, "other", true, false},
		"the smaller one is taken": {[]runtime.Object{disk("a", "c", "1Gi", "n"), disk("b", "c", "2Gi", "n", "other")}, "n", true, false},
		"one for each": {[]runtime.Object{
			disk("a", "c", "1Gi", "n", "other"), disk("b", "c", "1Gi", "other", "n", "more"), disk("d", "c", "1Gi", "other"),
		}, "n", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			members, claims := each(2, "c", "1Gi")
			w := newCluster(t, slices.Concat([]runtime.Object{node("n"), node("other"), class("c", "")}, claims, c.disks)...)
			pages := w.open(members...)
			fits := func(pages fit.Pages) bool {
				s, err := fit.NewTrial(t.Context(), w.profile, members, []string{"n", "other"}, pages...)
				require.NoError(t, err)
				first := map[string]int{"n": 0, "other": 1}[c.first]
				require.True(t, s.Fits(0, first))
				s.Put(0, first)
				fits := s.Fits(1, 1-first)
				require.NoError(t, s.Close())
				return fits
			}
			require.Equal(t, c.holds, fits(pages))
			hopeful := pages.Optimistic()
			require.Equal(t, c.different, hopeful != nil)
			if hopeful != nil {
				require.True(t, fits(hopeful))
				require.Nil(t, hopeful.Optimistic())
			}
		})
	}
}

// TestVolumesOfPodsBeingBound: one of two volumes is assumed for a pod that is being bound, and another node needs one of them:
// a member fits there if and only if the plugins let it pass. If the volume is unknown, only the hopeful page accepts that
// node.
func TestVolumesOfPodsBeingBound(t *testing.T) {
	for name, disks := range map[string][]runtime.Object{
		"the first one is of both nodes":  {disk("a", "c", "1Gi", "n", "other"), disk("b", "c", "1Gi", "n")},
		"the second one is of both nodes": {disk("a", "c", "1Gi", "n"), disk("b", "c", "1Gi", "n", "other")},
	} {
		t.Run(name, func(t *testing.T) {
			members, claims := each(3, "c", "1Gi")
			members[0] = using("m-0", "tiny", "data-0") // which has a volume beside it, too
			claims = append(claims, volumeClaim("tiny", "c", "1Mi"), disk("t", "c", "1Mi", "n"))
			objects := slices.Concat([]runtime.Object{node("n"), node("other"), class("c", "")}, claims, disks)
			w := newCluster(t, objects...)
			seen := map[int]bool{}
			for range 200 {
				back := w.holds(members[0], "n")
				passed, _ := w.cycles(members[1:2], "other")
				got, _ := w.slots("other", members[1])
				require.Equal(t, offer.Slots(passed), got)
				require.Nil(t, w.open(members[1]).Optimistic(), "it is known")
				back()
				if seen[passed] = true; len(seen) == 2 {
					break
				}
			}
			require.Len(t, seen, 2, "it goes through volumes in no order")

			members[0].Spec.NodeName = "n" // by another scheduler
			w = newCluster(t, append(objects, members[0])...)
			got, _ := w.slots("other", members[1])
			require.Zero(t, got)
			hopeful := w.open(members[1]).Optimistic()
			require.NotNil(t, hopeful)
			require.Nil(t, hopeful.Optimistic())
		})
	}
}

// TestVolumesOfZones: a node takes as many members as there are volumes for its zone; and none with a claim in another zone
// kept for it.
func TestVolumesOfZones(t *testing.T) {
	zonal := func(name, zone string) *v1.PersistentVolume {
		pv := disk(name, "c", "1Gi", zone)
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = v1.LabelTopologyZone
		return pv
	}
	in := func(name, zone string) *v1.Node {
		n := node(name)
		n.Labels[v1.LabelTopologyZone] = zone
		return n
	}
	members, claims := each(4, "c", "1Gi")
	kept := zonal("kept", "x")
	kept.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "data-3"}
	w := newCluster(t, slices.Concat([]runtime.Object{
		in("n", "x"), in("other", "y"), class("c", ""), zonal("a", "x"), zonal("b", "y"), zonal("d", "y"), kept,
	}, claims)...)
	for name, want := range map[string]int{"n": 1, "other": 2} {
		got, _ := w.slots(name, members[:3]...)
		require.EqualValues(t, want, got, name)
		passed, _ := w.cycles(members[:3], name)
		require.Equal(t, want, passed, name)
	}
	for name, want := range map[string]int{"n": 1, "other": 0} {
		got, _ := w.slots(name, members[3])
		require.EqualValues(t, want, min(got, 1), name)
		passed, _ := w.cycles(members[3:], name)
		require.Equal(t, want, passed, name)
		there := w.nodes()[name]
		for _, page := range w.open(members[3]) {
			require.Equal(t, want == 1, page.Rehearse().Take(t.Context(), members[3], there).IsSuccess(), name)
		}
	}
}

// TestTrialOfBoundVolumes: of a claim that is bound the page says nothing; a trial has its plugin say on which nodes its volume is.
func TestTrialOfBoundVolumes(t *testing.T) {
	members, claims := each(1, "c", "1Gi")
	volume, claim := disk("a", "c", "1Gi", "other"), claims[0].(*v1.PersistentVolumeClaim)
	volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	claim.Spec.VolumeName = "a"
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	w := newCluster(t, node("n"), node("other"), class("c", ""), volume, claim)
	s, err := fit.NewTrial(t.Context(), w.profile, members, []string{"n", "other"}, w.open(members...)...)
	require.NoError(t, err)
	require.False(t, s.Fits(0, 0))
	require.True(t, s.Fits(0, 1))
	require.NoError(t, s.Close())
}
