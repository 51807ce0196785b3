package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/ledger"
	"github.com/muster-scheduler/muster/pkg/offer"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"))
}

// cluster is kube-scheduler with its default profile, all plugins, over objects. It schedules nothing: tests ask the ledgers,
// and put members through the cycles of the real plugins.
type cluster struct {
	t       testing.TB
	sched   *scheduler.Scheduler
	profile framework.Framework
	ledgers []fit.Ledger
	close   func()
}

func newCluster(t testing.TB, objects ...runtime.Object) *cluster {
	t.Helper()
	metrics.Register()
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset(objects...)
	factory := scheduler.NewInformerFactory(client, 0, nil)
	sched, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(0) })
	require.NoError(t, err)
	c := &cluster{t: t, sched: sched, profile: sched.Profiles["default-scheduler"]}
	c.ledgers = ledger.All(c.profile)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	require.NoError(t, sched.WaitForHandlersSync(ctx))
	nodes := 0
	for _, o := range objects {
		if _, ok := o.(*v1.Node); ok {
			nodes++
		}
	}
	require.Eventually(t, func() bool { return len(c.nodes()) == nodes }, 20*time.Second, time.Millisecond)
	c.close = sync.OnceFunc(func() { cancel(); factory.Shutdown(); sched.SchedulingQueue.Close() })
	t.Cleanup(c.close)
	return c
}

// nodes returns the nodes of a new snapshot, by name.
func (c *cluster) nodes() map[string]fwk.NodeInfo {
	snapshot, _ := c.profile.SnapshotSharedLister().(*internalcache.Snapshot)
	require.NoError(c.t, c.sched.Cache.UpdateSnapshot(klog.Background(), snapshot))
	list, err := snapshot.NodeInfos().List()
	require.NoError(c.t, err)
	out := map[string]fwk.NodeInfo{}
	for _, n := range list {
		out[n.Node().Name] = n
	}
	return out
}

// open has the ledgers read what there is for members, each a template of its own.
func (c *cluster) open(members ...*v1.Pod) fit.Pages {
	c.nodes()
	var demand []fit.Demand
	for _, p := range members {
		demand = append(demand, fit.Demand{Pod: p, Members: 1})
	}
	pages, err := fit.Open(c.t.Context(), c.ledgers, demand)
	require.NoError(c.t, err)
	return pages
}

// counter counts members like the first of some.
func (c *cluster) counter(members ...*v1.Pod) *fit.Counter {
	counter, err := fit.NewCounter(c.t.Context(), c.profile, members[0], c.open(members...)...)
	require.NoError(c.t, err)
	return counter
}

// slots is how many members like the first a node takes.
func (c *cluster) slots(node string, members ...*v1.Pod) (offer.Slots, []string) {
	return c.counter(members...).Count(c.t.Context(), c.nodes()[node], nil)
}

// cycles puts members through cycles of their own, for their node each, until one is refused, and takes
// them back. It says how many passed, and why no more.
func (c *cluster) cycles(members []*v1.Pod, nodes ...string) (passed int, why string) {
	ctx := c.t.Context()
	var back []func()
	defer func() {
		for i := len(back) - 1; i >= 0; i-- {
			back[i]()
		}
	}()
	for i, pod := range members {
		there := c.nodes()
		node := nodes[i%len(nodes)]
		state := framework.NewCycleState()
		if _, s, _ := c.profile.RunPreFilterPlugins(ctx, state, pod); !s.IsSuccess() {
			return i, s.Message()
		}
		if s := c.profile.RunFilterPlugins(ctx, state, pod, there[node]); !s.IsSuccess() {
			return i, s.Message()
		}
		assumed := pod.DeepCopy()
		assumed.Spec.NodeName = node
		require.NoError(c.t, c.sched.Cache.AssumePod(klog.Background(), assumed))
		back = append(back, func() { require.NoError(c.t, c.sched.Cache.ForgetPod(klog.Background(), assumed)) })
		if s := c.profile.RunReservePluginsReserve(ctx, state, assumed, node); !s.IsSuccess() {
			return i, s.Message()
		}
		back = append(back, func() { c.profile.RunReservePluginsUnreserve(ctx, state, assumed, node) })
	}
	return len(members), ""
}

// atOnce says whether the allocator finds devices on a node for all claims of members, if it is asked for all of them;
// false, too, if it finds out nothing in many steps: it tries all ways.
func (c *cluster) atOnce(members []*v1.Pod, node string) bool {
	manager := c.profile.SharedDRAManager()
	state, err := manager.ResourceClaims().GatherAllocatedState()
	require.NoError(c.t, err)
	all, err := manager.ResourceSlices().ListWithDeviceTaintRules()
	require.NoError(c.t, err)
	features := dynamicresources.AllocatorFeatures(feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	allocator, err := structured.NewAllocator(c.t.Context(), features, *state, manager.DeviceClasses(), all, cel.NewCache(10, cel.Features{}))
	require.NoError(c.t, err)
	var claims []*resourceapi.ResourceClaim
	for _, m := range members {
		claim, err := manager.ResourceClaims().Get(m.Namespace, *m.Status.ResourceClaimStatuses[0].ResourceClaimName)
		require.NoError(c.t, err)
		claims = append(claims, claim)
	}
	results, err := allocator.Allocate(&steps{c.t.Context(), 1_000}, c.nodes()[node].Node(), claims)
	return err == nil && len(results) == len(claims)
}

// steps is a context that ends after so many questions whether it has.
type steps struct {
	context.Context
	left int
}

func (s *steps) Err() error {
	if s.left--; s.left < 0 {
		return context.DeadlineExceeded
	}
	return s.Context.Err()
}

func node(name string) *v1.Node {
	return st.MakeNode().Name(name).UID(name).Label(v1.LabelHostname, name).
		Capacity(map[v1.ResourceName]string{"cpu": "64", "memory": "64Gi", "pods": "110"}).Obj()
}

// class is a StorageClass; without a provisioner volumes are made by hand.
func class(name, provisioner string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	if provisioner == "" {
		provisioner = "kubernetes.io/no-provisioner"
	}
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// disk is a volume that some nodes reach; all if none is named.
func disk(name, class, size string, nodes ...string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/d"}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	if len(nodes) > 0 {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: nodes}},
		}}}}
	}
	return pv
}

func volumeClaim(name, class, size string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

func pod(name string) *st.PodWrapper { return st.MakePod().Namespace("ns").Name(name).UID(name) }

// using is a pod that names claims.
func using(name string, claims ...string) *v1.Pod {
	p := pod(name).Req(map[v1.ResourceName]string{"cpu": "1"})
	for _, c := range claims {
		p = p.PVC(c)
	}
	return p.Obj()
}

// each makes members 0 to n-1 with a claim each.
func each(n int, class, size string) (members []*v1.Pod, objects []runtime.Object) {
	for i := range n {
		claim := fmt.Sprint("data-", i)
		members = append(members, using(fmt.Sprint("m-", i), claim))
		objects = append(objects, volumeClaim(claim, class, size))
	}
	return members, objects
}

// assume has a pod pass its cycle, and leaves it there.
func (c *cluster) assume(pod *v1.Pod, node string) { c.holds(pod, node) }

// holds has a pod pass its cycle, and says how to take it back.
func (c *cluster) holds(pod *v1.Pod, node string) (back func()) {
	c.t.Helper()
	there := c.nodes()
	state := framework.NewCycleState()
	_, s, _ := c.profile.RunPreFilterPlugins(c.t.Context(), state, pod)
	require.True(c.t, s.IsSuccess(), s.Message())
	s = c.profile.RunFilterPlugins(c.t.Context(), state, pod, there[node])
	require.True(c.t, s.IsSuccess(), s.Message())
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	require.NoError(c.t, c.sched.Cache.AssumePod(klog.Background(), assumed))
	s = c.profile.RunReservePluginsReserve(c.t.Context(), state, assumed, node)
	require.True(c.t, s.IsSuccess(), s.Message())
	return func() {
		c.profile.RunReservePluginsUnreserve(c.t.Context(), state, assumed, node)
		require.NoError(c.t, c.sched.Cache.ForgetPod(klog.Background(), assumed))
	}
}
