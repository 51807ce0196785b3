package plugin_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// Case 54 in a whole scheduler: one of four members of a NonStrict gang loses its node at the barrier. Once the
// others have arrived it gets another node, and the barrier opens.
func TestALostPlace(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8").Run()
	members := testcluster.Pending(4, 100, "4")
	testcluster.Held(members[3], "outside")
	c.GangWith(map[string]string{
		scheduling.AnnotationMode: string(scheduling.ModeNonStrict), scheduling.AnnotationTopologySpec: testcluster.InOneSpine,
	}, "g", 4, members...)
	c.WaitHeld("g-0", "g-1", "g-2")
	waits := func(name string) fwk.WaitingPod { return c.Profile().GetWaitingPod(types.UID(name)) }
	waits("g-2").Reject("Holder", "somebody wants the place back")
	c.Wait("lost", func() string {
		if waits("g-2") == nil {
			return "lost"
		}
		return "held"
	})
	require.NotNil(t, waits("g-0"))
	require.NotNil(t, waits("g-1"))
	c.Edit("g-3", func(p *v1.Pod) { delete(p.Labels, "hold") })
	c.Wait("g-0=n0 g-1=n0 g-2=n2 g-3=n1", func() string { return c.Where("g-0", "g-1", "g-2", "g-3") })
	require.Empty(t, c.Said("ScheduleTimeout"))
}

// A binding fails. Before its retry, another gang of equal priority reserves the same node, where a victim
// terminates. That gang counted the member, which need not wait for the victim.
func TestLaterReservationDoesNotBlockMember(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8")
	low := testcluster.A("low", 10, "4", "n0")
	low.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	c.Pod(low)
	c.Run()
	var reserved atomic.Bool
	c.Answering(func(r testcluster.Request) error {
		if r.What == "binding" && !reserved.Load() {
			return apierrors.NewServiceUnavailable("soon")
		}
		return nil
	})
	c.Gang("g", 1, testcluster.Pending(1, 100, "4")...)
	c.WaitSaid(1, "soon")
	c.Gang("h", 1, testcluster.Pending(1, 100, "4")...)
	c.Wait("h-0>n0", func() string { return c.Where("h-0") })
	reserved.Store(true)
	c.Wait("g-0=n0 h-0>n0", func() string { return c.Where("g-0", "h-0") })
	c.Remove("low")
	c.Wait("h-0=n0", func() string { return c.Where("h-0") })
}

// A reservation keeps three members on a node, where the first may start only before the others. One of them has a
// claim, so the gang is not planned again when the node is free.
func TestLaterSiblingsDoNotBlockMember(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
	c.Pod(testcluster.A("low", 0, "8", "n0"))
	local, meta := "local", metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c"}
	delayed, size := storagev1.VolumeBindingWaitForFirstConsumer, v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	_, err := c.Client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: local}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &delayed,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.Client.CoreV1().PersistentVolumes().Create(t.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "v"},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: local, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Capacity: size,
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"n0"}}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.Client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: meta, Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &local, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.Run()
	members := testcluster.Pending(3, 100, "2")
	for _, m := range members {
		m.Labels = map[string]string{"role": "x"}
		m.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n0"}
	}
	ignore := v1.NodeInclusionPolicyIgnore
	members[0].Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, NodeAffinityPolicy: &ignore,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "x"}},
	}}
	members[2].Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
	}
	c.Gang("g", 3, members...)
	c.Wait("g-0=n0 g-1=n0 low gone", func() string { return c.Where("g-0", "g-1", "low") }) // g-2 waits for the claim, which is never bound
	require.Empty(t, c.Said("left out for this attempt"))
}
