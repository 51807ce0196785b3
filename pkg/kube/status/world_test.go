package status_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// world is a cache with a fake API server and a Reporter, on a clock that jumps.
type world struct {
	t      *testing.T
	client *fake.Clientset
	custom *dynamicfake.FakeDynamicClient
	cache  *cache.Cache
	writer *status.Writer
	teller *status.Reporter
	meter  *status.Meter
	runs   atomic.Int64 // of the Filters
	busy   atomic.Bool

	mu     sync.Mutex
	writes []string // what was written, in order
	events []string
}

// settle is how long changes are gathered.
const settle = 300 * time.Millisecond

// native is Kubernetes' own PodGroup, in the only version that the worlds serve.
var native = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1alpha3", Resource: "podgroups"}

// podGangs are Grove's.
var podGangs = schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"}

// inWorld runs a test in a world whose cache knows everything.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, client: fake.NewClientset()}
		w.custom = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			koordinator.ClusterNetworkTopologies: "ClusterNetworkTopologyList", sigs.PodGroups: "PodGroupList", source.PodGroupsX: "PodGroupList",
			native: "PodGroupList", podGangs: "PodGangList",
		})
		w.client.PrependReactor("patch", "*", w.note)
		w.custom.PrependReactor("patch", "*", w.note)
		ctx, cancel := context.WithCancel(t.Context())
		w.writer = status.NewWriter(w.client, w.custom, clock.RealClock{})
		w.teller = status.NewReporter(w.writer, w,
			status.ReporterOptions{Clock: clock.RealClock{}, Settle: settle, Busy: func() bool { return w.busy.Load() }, Topology: true})
		w.meter = status.NewMeter(clock.RealClock{})
		w.cache = cache.New(cache.Options{
			Aware: true, Limits: cache.Limits{Wait: time.Minute, Policy: gang.OnceSatisfied, Leave: time.Minute}, Clock: clock.RealClock{},
			Leading: func() bool { return true }, Note: w.teller.Note,
			Do: func(effects []gang.Effect) {
				for _, e := range effects {
					switch e.Verb {
					case gang.Report:
						w.teller.Report(e.Gang)
						w.meter.Gang(e.Gang)
					case cache.TopologyChanged:
						w.teller.Topology()
					}
				}
			},
		})
		w.cache.Serve(scheduling.SchedulerName)
		w.teller.SetCache(w.cache)
		w.meter.SetSources(w.cache, w.runs.Load, w.nodeOf)
		core := informers.NewSharedInformerFactory(w.client, 0)
		require.NoError(t, w.cache.Start(ctx, cache.Source{Core: core, Dynamic: w.custom, Served: func(
			r schema.GroupVersionResource,
		) (bool, error) {
			return !source.Foreign(r) || r == native || r == podGangs, nil
		}}))
		core.StartWithContext(ctx)
		var done sync.WaitGroup
		done.Go(func() { w.writer.Run(ctx, 2) })
		w.pass(time.Second)
		require.True(t, w.cache.Open())
		test(w)
		cancel()
		done.Wait()
		core.Shutdown()
		time.Sleep(time.Minute) // of the jumping clock: whatever was begun ends
	})
}

// pass lets time pass and everything happen that must by then.
func (w *world) pass(long time.Duration) {
	time.Sleep(long) // of the jumping clock
	synctest.Wait()
}

// note records the names of written objects.
func (w *world) note(action clienttesting.Action) (bool, runtime.Object, error) {
	p := action.(clienttesting.PatchAction)
	what := p.GetName()
	if p.GetSubresource() != "" {
		what += "/" + p.GetSubresource()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, what)
	return false, nil, nil
}

// nodeOf says whether a pod is there, and on which node.
func (w *world) nodeOf(pod *v1.Pod) (node string, there bool) {
	is, err := w.client.CoreV1().Pods(pod.Namespace).Get(w.t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || is.UID != pod.UID {
		return "", false
	}
	return is.Spec.NodeName, true
}

// written lists what was written since it was last asked, by name.
func (w *world) written() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Sorted(slices.Values(w.writes))
	w.writes = nil
	return strings.Join(out, " ")
}

// Eventf implements events.EventRecorder.
func (w *world) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	m, err := meta.Accessor(about)
	require.NoError(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", m.GetName(), kind, reason, fmt.Sprintf(note, args...)))
}

// said lists the events since it was last asked.
func (w *world) said() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, w.events = w.events, nil
	return out
}

func (w *world) create(gvr schema.GroupVersionResource, namespace string, object map[string]any) {
	u := &unstructured.Unstructured{Object: object}
	u.SetUID(types.UID(u.GetName()))
	_, err := w.custom.Resource(gvr).Namespace(namespace).Create(w.t.Context(), u, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// gang declares a gang.
func (w *world) gang(name string, least int) gang.Ref {
	w.create(sigs.PodGroups, "ns", map[string]any{
		"apiVersion": sigs.GroupVersion.String(), "kind": "PodGroup", "metadata": map[string]any{
			"name": name, "namespace": "ns",
			"annotations": map[string]any{scheduling.AnnotationMode: string(scheduling.ModeStrict)}, // which only schedulers like this one read
		},
		"spec": map[string]any{"minMember": int64(least)},
	})
	return gang.Ref{Source: "podgroup", Namespace: "ns", Name: name}
}

// without deletes a gang's object.
func (w *world) without(name string) {
	require.NoError(w.t, w.custom.Resource(sigs.PodGroups).Namespace("ns").Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// pod has a member of a gang exist, on a node if that is given.
func (w *world) pod(of, name, node string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{scheduling.LabelPodGroup: of}},
		Spec:       v1.PodSpec{SchedulerName: scheduling.SchedulerName, NodeName: node},
	}
	for _, f := range change {
		f(p)
	}
	_, err := w.client.CoreV1().Pods("ns").Create(w.t.Context(), p, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return p
}

// condition is what a PodGroup's condition says.
func (w *world) condition(name string) string {
	u, err := w.custom.Resource(sigs.PodGroups).Namespace("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	all, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	require.NoError(w.t, err)
	if len(all) == 0 {
		return ""
	}
	c := all[0].(map[string]any)
	return fmt.Sprint(c["reason"], ": ", c["message"])
}

// scheduled is what a pod's PodScheduled condition says.
func (w *world) scheduled(name string) string {
	p, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
