package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	x "github.com/muster-scheduler/muster/pkg/apis/scheduling/x/v1alpha1"
)

// testCluster is a scheduler with the plugin before an API server that does what a test
// wants: it refuses deletions, or lets pods be slow to leave.
type testCluster struct {
	t      testing.TB
	client *fake.Clientset
	sched  *scheduler.Scheduler
	plugin *Plugin
	custom *dynamicfake.FakeDynamicClient
	config string

	mu      sync.Mutex
	refuse  func(pod string) error // what comes of deleting a pod; nil is nothing
	stay    bool                   // deleted pods stay, terminating
	deleted []string               // requests that were taken, in order
	refused int
	events  []string
}

// newTestCluster starts one; nodes are "spine/block/node=CPUs".
func newTestCluster(t testing.TB, nodes string, objects ...runtime.Object) *testCluster {
	t.Helper()
	c := &testCluster{t: t, config: testConfig}
	for word := range strings.FieldsSeq(nodes) {
		path, cpus, _ := strings.Cut(word, "=")
		names := strings.Split(path, "/")
		list := v1.ResourceList{"cpu": resource.MustParse(cpus), "pods": resource.MustParse("20")}
		objects = append(objects, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: names[2], Labels: map[string]string{"spine": names[0], "block": names[1], v1.LabelHostname: names[2]}},
			Status:     v1.NodeStatus{Capacity: list, Allocatable: list},
		})
	}
	objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	c.client = fake.NewClientset(objects...)
	c.client.PrependReactor("create", "pods", c.bind)
	c.client.PrependReactor("delete", "pods", c.delete)
	c.custom = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		koordinator.ClusterNetworkTopologies: "ClusterNetworkTopologyList", sigs.PodGroups: "PodGroupList", x.PodGroups: "PodGroupList",
	})
	c.create(koordinator.ClusterNetworkTopologies, "", map[string]any{
		"apiVersion": koordinator.GroupVersion.String(), "kind": "ClusterNetworkTopology", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"networkTopologySpec": []any{
			map[string]any{"topologyLayer": "SpineLayer", "labelKey": []any{"spine"}},
			map[string]any{"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": []any{"block"}},
			map[string]any{"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
		}},
	})
	return c
}

const testConfig = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {preEnqueue: {enabled: [{name: Holder}]}, permit: {enabled: [{name: Holder}]}}
`

// holder has pods with a label wait in Permit, or not get even there.
type holder struct{}

func (holder) PreEnqueue(_ context.Context, p *v1.Pod) *fwk.Status {
	if p.Labels["hold"] != "outside" {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "is held")
}

func (holder) Name() string { return "Holder" }

func (holder) Permit(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if p.Labels["hold"] != "inside" {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait), time.Minute
}

// held has a pod wait for Holder, inside or outside.
func held(p *v1.Pod, where string) *v1.Pod {
	p.Labels = map[string]string{"hold": where}
	return p
}

// waitHeld waits until pods wait in Permit.
func (c *testCluster) waitHeld(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.wait("waits", func() string {
			if c.plugin.handle.GetWaitingPod(types.UID(name)) != nil {
				return "waits"
			}
			return ""
		})
	}
}

// run starts the scheduler.
func (c *testCluster) run() *testCluster {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	config.InstallDefaults()
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode([]byte(c.config), nil, nil)
	require.NoError(c.t, err)
	cfg := obj.(*schedulerconfig.KubeSchedulerConfiguration)
	informers := scheduler.NewInformerFactory(c.client, 0, nil)
	ours := Factories(Options{Dynamic: c.custom, Settle: 10 * time.Millisecond})
	c.sched, err = scheduler.New(ctx, c.client, informers, nil, func(string) events.EventRecorderLogger { return c },
		scheduler.WithComponentConfigVersion(gvk.GroupVersion().String()),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(1),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{Name: func(ctx context.Context, raw runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p, err := ours[Name](ctx, raw, h)
			if err == nil {
				c.plugin = p.(*Plugin)
			}
			return p, err
		}, GateName: ours[GateName], "Holder": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return holder{}, nil }}),
	)
	require.NoError(c.t, err)
	informers.StartWithContext(ctx)
	informers.WaitForCacheSyncWithContext(ctx)
	require.NoError(c.t, c.sched.WaitForHandlersSync(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.sched.Run(ctx)
	}()
	c.t.Cleanup(func() {
		cancel()
		for _, p := range c.sched.Profiles {
			p.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Reject(Name, "the test ends") })
		}
		<-ended
		informers.Shutdown()
	})
	return c
}

// Eventf implements events.EventRecorder.
func (c *testCluster) Eventf(about, related runtime.Object, kind, reason, _, note string, args ...any) {
	name := func(o runtime.Object) string {
		m, err := meta.Accessor(o)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%T/%s", o, m.GetName())
	}
	line := fmt.Sprintf("%s %s %s: %s", name(about), kind, reason, fmt.Sprintf(note, args...))
	if related != nil {
		line += " [" + name(related) + "]"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, line)
}

// WithLogger implements events.EventRecorderLogger.
func (c *testCluster) WithLogger(klog.Logger) events.EventRecorderLogger { return c }

func (c *testCluster) create(gvr schema.GroupVersionResource, namespace string, object map[string]any) {
	c.t.Helper()
	u := &unstructured.Unstructured{Object: object}
	u.SetUID(types.UID(u.GetName()))
	u.SetCreationTimestamp(metav1.Now())
	_, err := c.custom.Resource(gvr).Namespace(namespace).Create(context.Background(), u, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// gang makes a PodGroup and its members, NAME-0 and so on, all of one spine. Members with
// a node run.
func (c *testCluster) gang(name string, least int, members ...*v1.Pod) {
	c.t.Helper()
	c.create(sigs.PodGroups, "default", map[string]any{
		"apiVersion": sigs.GroupVersion.String(), "kind": "PodGroup", "metadata": map[string]any{
			"name": name, "namespace": "default", "annotations": map[string]any{
				scheduling.AnnotationTopologySpec: `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`,
			},
		},
		"spec": map[string]any{"minMember": int64(least)},
	})
	for i, p := range members {
		p.Name = fmt.Sprintf("%s-%d", name, i)
		metav1.SetMetaDataLabel(&p.ObjectMeta, scheduling.LabelPodGroup, name)
		c.pod(p)
	}
}

// a makes a pod of a priority and a size, on a node if that is given.
func a(name string, priority int32, cpus, node string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			SchedulerName: scheduling.SchedulerName, Priority: &priority, NodeName: node,
			Containers: []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpus)}}}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	if node != "" {
		p.Status.Phase = v1.PodRunning
		p.Status.StartTime = &metav1.Time{Time: time.Unix(1000, 0)}
	}
	return p
}

// of makes so many pods.
func of(n int, make func() *v1.Pod) (pods []*v1.Pod) {
	for range n {
		pods = append(pods, make())
	}
	return pods
}

func (c *testCluster) pod(p *v1.Pod) {
	c.t.Helper()
	p.Namespace, p.UID, p.CreationTimestamp = "default", types.UID(p.Name), metav1.Now()
	require.NoError(c.t, c.client.Tracker().Add(p))
}

func (c *testCluster) get(name string) *v1.Pod {
	o, err := c.client.Tracker().Get(podsResource, "default", name) // a reactor may not use the client
	if err != nil {
		return nil
	}
	return o.(*v1.Pod)
}

var podsResource = v1.SchemeGroupVersion.WithResource("pods")

func (c *testCluster) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := create.GetObject().(*v1.Binding)
	p := c.get(b.Name)
	if p == nil {
		return true, nil, fmt.Errorf("no pod %s", b.Name)
	}
	p = p.DeepCopy()
	p.Spec.NodeName, p.Status.NominatedNodeName, p.Status.Phase = b.Target.Name, "", v1.PodRunning
	return true, b, c.client.Tracker().Update(podsResource, p, "default")
}

func (c *testCluster) delete(action clienttesting.Action) (bool, runtime.Object, error) {
	name := action.(clienttesting.DeleteAction).GetName()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse(name); err != nil {
			c.refused++
			return true, nil, err
		}
	}
	c.deleted = append(c.deleted, name)
	if !c.stay {
		return false, nil, nil
	}
	o, err := c.client.Tracker().Get(podsResource, "default", name)
	if err != nil {
		return true, nil, err
	}
	p := o.(*v1.Pod).DeepCopy()
	p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return true, nil, c.client.Tracker().Update(podsResource, p, "default")
}

// holdEvictions has an executor wait before each eviction until the function that it
// returns is called. It comes before the scheduler evicts anybody.
func (c *testCluster) holdEvictions(evict *preemptPod) (goOn func()) {
	held, do := make(chan struct{}), *evict
	*evict = func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		<-held
		return do(ctx, to, by, victim, plugin)
	}
	goOn = sync.OnceFunc(func() { close(held) })
	c.t.Cleanup(goOn)
	return goOn
}

// release lets pods go that stay.
func (c *testCluster) release() {
	c.mu.Lock()
	c.stay = false
	names := slices.Clone(c.deleted)
	c.mu.Unlock()
	for _, name := range names {
		_ = c.client.Tracker().Delete(podsResource, "default", name)
	}
}

// refusing has deletions answered so from now on.
func (c *testCluster) refusing(f func(pod string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = f
}

// evicted lists whose deletion was taken, by name.
func (c *testCluster) evicted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(c.deleted)), " ")
}

// where says where pods are, as "name=node name>nominated".
func (c *testCluster) where(names ...string) string {
	var out []string
	for _, name := range names {
		switch p := c.get(name); {
		case p == nil:
			out = append(out, name+" gone")
		case p.Spec.NodeName != "":
			out = append(out, name+"="+p.Spec.NodeName)
		default:
			out = append(out, name+">"+p.Status.NominatedNodeName)
		}
	}
	return strings.Join(out, " ")
}

// waitFor is the longest wait of a test.
const waitFor = 20 * time.Second

// wait waits until a value is what it should be.
func (c *testCluster) wait(want string, value func() string) {
	c.t.Helper()
	if !c.within(waitFor, func() bool { return value() == want }) {
		require.Equal(c.t, want, value(), c.describe())
	}
}

// never waits a while in which something must not come true.
func (c *testCluster) never(is func() bool) {
	c.t.Helper()
	require.False(c.t, c.within(2*time.Second, is), c.describe())
}

func (c *testCluster) within(long time.Duration, is func() bool) bool {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return is()
}

// said lists the events that contain a text.
func (c *testCluster) said(text string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if strings.Contains(e, text) {
			found = append(found, e)
		}
	}
	return found
}

func (c *testCluster) describe() string {
	var out []string
	list, _ := c.client.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{})
	byName := map[string]v1.Pod{}
	for _, p := range list.Items {
		byName[p.Name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		line := fmt.Sprintf("%s node=%q nominated=%q leaving=%v", name, p.Spec.NodeName, p.Status.NominatedNodeName, p.DeletionTimestamp != nil)
		for _, cond := range p.Status.Conditions {
			line += " " + string(cond.Type) + "=" + string(cond.Status) + " " + cmp.Or(cond.Message, cond.Reason)
		}
		out = append(out, line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(append(append(out, "deleted "+strings.Join(c.deleted, " ")), c.events...), "\n")
}
