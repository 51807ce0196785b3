package place_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// world is what a planner sees: the book and the tree as the cache has them, and a
// scheduler's snapshot with the Filter plugins of the stock profile. Nothing is scheduled: tests
// make attempts and look at what comes of them.
type world struct {
	t         testing.TB
	client    *fake.Clientset
	custom    *dynamicfake.FakeDynamicClient
	cache     *cache.Cache
	scheduler internalcache.Cache
	snapshot  *internalcache.Snapshot
	profile   framework.Framework
	nominated nominations
	planner   *place.Planner
}

// nominations are the pods that the scheduler has nominated, by node.
type nominations map[string][]fwk.PodInfo

func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo              { return n[node] }
func (nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nominations) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}

// newWorld reads a cluster, a line for each thing:
//
//	node s1/b1/n1 4 gpu=yes         a node with 4 CPUs, and labels; maintenance=1h-3h announces maintenance.
//	gang a min=3 must=SpineLayer    a PodGroup; each= and multiple= are further constraints.
//	pods a 3 cpu=2 priority=5       its pending members a-0, a-1 and a-2.
//	pods a 3-5 cpu=1                further members, a-3 and a-4.
//	pod x cpu=2 on=n1               a running pod without a gang.
func newWorld(t testing.TB, lines string) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(), snapshot: internalcache.NewEmptySnapshot(), nominated: nominations{}}
	metrics.Register()
	w.scheduler = internalcache.New(t.Context(), nil, false, false)
	w.custom = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		koordinator.ClusterNetworkTopologies: "ClusterNetworkTopologyList", sigs.PodGroups: "PodGroupList",
	})
	w.declare(koordinator.ClusterNetworkTopologies, "", scheduling.TopologyName, nil, spec("SpineLayer", "BlockLayer"))
	for line := range strings.Lines(lines) {
		if words := strings.Fields(line); len(words) > 0 {
			w.read(words[0], words[1], words[2:])
		}
	}
	w.start()
	return w
}

// labels name domains, by layer.
var labels = map[string]string{"SpineLayer": "spine", "BlockLayer": "block"}

// spec is a ClusterNetworkTopology's with these layers above the nodes.
func spec(layers ...string) map[string]any {
	var list []any
	parent := ""
	for _, l := range append(layers, scheduling.NodeTopologyLayer) {
		layer := map[string]any{"topologyLayer": l}
		if parent != "" {
			layer["parentTopologyLayer"] = parent
		}
		if key := labels[l]; key != "" {
			layer["labelKey"] = []any{key}
		}
		list, parent = append(list, layer), l
	}
	return map[string]any{"networkTopologySpec": list}
}

// layers changes the layers of the ClusterNetworkTopology.
func (w *world) layers(layers ...string) {
	w.t.Helper()
	all := w.custom.Resource(koordinator.ClusterNetworkTopologies)
	u, err := all.Get(w.t.Context(), scheduling.TopologyName, metav1.GetOptions{})
	require.NoError(w.t, err)
	u.Object["spec"] = spec(layers...)
	_, err = all.Update(w.t.Context(), u, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// start has the cache see everything, and makes the planner.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(w.client, 0)
	w.cache = cache.New(cache.Options{
		Aware: true, Limits: cache.Limits{Wait: time.Minute, Leave: time.Minute, Policy: gang.OnceSatisfied}, Clock: clock.RealClock{},
		Leading: func() bool { return true }, Do: func([]gang.Effect) {}, Note: func(cache.Note) {},
	})
	w.cache.Serve(scheduling.SchedulerName)
	served := func(r schema.GroupVersionResource) (bool, error) {
		ours, err := connect.Ours()(r)
		return ours && (r == koordinator.ClusterNetworkTopologies || r == sigs.PodGroups), err
	}
	require.NoError(w.t, w.cache.Start(ctx, cache.Source{Core: factory, Dynamic: w.custom, Served: served}))
	factory.StartWithContext(ctx)
	w.t.Cleanup(func() { cancel(); factory.Shutdown() })
	w.wait(w.cache.Open)
	w.profile = newProfile(w.t, w.snapshot, w.nominated)
	w.planner = place.NewPlanner(w.profile, w.cache)
}

// newProfile returns kube-scheduler's default profile with the Filters that need no cluster, and more plugins.
func newProfile(t testing.TB, snapshot *internalcache.Snapshot, nominated fwk.PodNominator, more ...fwk.Plugin) framework.Framework {
	cfg, err := latest.Default()
	require.NoError(t, err)
	p := cfg.Profiles[0]
	p.SchedulerName = scheduling.SchedulerName
	kept := p.Plugins.MultiPoint.Enabled[:0]
	for _, pl := range p.Plugins.MultiPoint.Enabled {
		switch pl.Name {
		case "DynamicResources", "VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions", "DefaultPreemption":
		default:
			kept = append(kept, pl)
		}
	}
	p.Plugins.MultiPoint.Enabled = kept
	registry := plugins.NewInTreeRegistry()
	for _, pl := range more {
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, config.Plugin{Name: pl.Name()})
		require.NoError(t, registry.Register(pl.Name(), func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return pl, nil }))
	}
	client := fake.NewClientset()
	f, err := frameworkruntime.NewFramework(t.Context(), registry, &p,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithPodNominator(nominated),
	)
	require.NoError(t, err)
	return f
}

func (w *world) wait(is func() bool) {
	w.t.Helper()
	require.Eventually(w.t, is, 20*time.Second, 2*time.Millisecond)
}

func (w *world) declare(gvr schema.GroupVersionResource, namespace, name string, annotations map[string]string, spec map[string]any) {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetName(name)
	u.SetUID(types.UID(name))
	u.SetAnnotations(annotations)
	u.SetGroupVersionKind(gvr.GroupVersion().WithKind("PodGroup"))
	_, err := w.custom.Resource(gvr).Namespace(namespace).Create(w.t.Context(), u, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// read takes one line of a cluster.
func (w *world) read(what, name string, words []string) {
	w.t.Helper()
	switch what {
	case "node":
		w.node(name, words)
	case "gang":
		w.gang(name, words)
	case "pods":
		from, to, ok := strings.Cut(words[0], "-")
		if !ok {
			from, to = "0", words[0]
		}
		first, err := strconv.Atoi(from)
		require.NoError(w.t, err)
		end, err := strconv.Atoi(to)
		require.NoError(w.t, err)
		for i := first; i < end; i++ {
			w.pod(name, i, words[1:])
		}
	case "pod":
		w.pod(name, -1, words)
	default:
		w.t.Fatalf("what is a %s?", what)
	}
}

func (w *world) node(path string, words []string) {
	names := strings.Split(path, "/")
	list := v1.ResourceList{"cpu": resource.MustParse(words[0]), "pods": resource.MustParse("20")}
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: names[2], UID: types.UID(names[2]), Labels: map[string]string{"spine": names[0], "block": names[1], v1.LabelHostname: names[2]},
		},
		Status: v1.NodeStatus{Capacity: list, Allocatable: list},
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if key == "maintenance" { // from, to: after now
			n.Annotations = map[string]string{scheduling.AnnotationMaintenance: window(w.t, value)}
			continue
		}
		n.Labels[key] = value
	}
	require.NoError(w.t, w.client.Tracker().Add(n))
	w.scheduler.AddNode(klog.Background(), n)
}

// window returns the annotation of a maintenance from and to a time after now, written as "1h-3h".
func window(t testing.TB, text string) string {
	t.Helper()
	var times []string
	for part := range strings.SplitSeq(text, "-") {
		after, err := time.ParseDuration(part)
		require.NoError(t, err)
		times = append(times, time.Now().Add(after).UTC().Format(time.RFC3339))
	}
	return strings.Join(times, "/")
}

// gang declares one; its rules go by layer.
func (w *world) gang(name string, words []string) {
	annotations, spec := map[string]string{}, map[string]any{}
	var rules []string
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		layer, count, _ := strings.Cut(value, ":")
		switch key {
		case "min":
			n, err := strconv.ParseInt(value, 10, 64)
			require.NoError(w.t, err)
			spec["minMember"] = n
		case "groups":
			annotations[scheduling.AnnotationGroups] = `["default/` + strings.ReplaceAll(value, ",", `","default/`) + `"]`
		case "must":
			rules = append(rules, fmt.Sprintf(`{"layer":%q,"strategy":"MustGather"}`, layer))
		case "prefer":
			rules = append(rules, fmt.Sprintf(`{"layer":%q,"strategy":"PreferGather"}`, layer))
		case "each":
			rules = append(rules, fmt.Sprintf(`{"layer":%q,"strategy":"MustGather","scope":"PodGroup"}`, layer))
		case "multiple":
			rules = append(rules, fmt.Sprintf(`{"layer":%q,"strategy":"PreferGather","podCountMultiple":%s}`, layer, count))
		default:
			w.t.Fatalf("gang %s: what is %s?", name, word)
		}
	}
	if len(rules) > 0 {
		annotations[scheduling.AnnotationTopologySpec] = `{"gatherStrategy":[` + strings.Join(rules, ",") + `]}`
	}
	w.declare(sigs.PodGroups, "default", name, annotations, spec)
}

// pod makes member number of a gang, or with a number below 0 a pod without one.
func (w *world) pod(name string, number int, words []string) {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{}},
		Spec:       v1.PodSpec{SchedulerName: scheduling.SchedulerName, Priority: new(int32), Containers: []v1.Container{{Name: "main"}}},
	}
	if number >= 0 {
		p.Name = fmt.Sprint(name, "-", number)
		p.Labels[scheduling.LabelPodGroup] = name
	}
	p.UID = types.UID(p.Name)
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		w.word(p, key, value)
	}
	require.NoError(w.t, w.client.Tracker().Add(p))
	switch {
	case p.Spec.NodeName != "":
		require.NoError(w.t, w.scheduler.AddPod(klog.Background(), p))
	case p.Status.NominatedNodeName != "":
		at := p.Status.NominatedNodeName
		info, err := framework.NewPodInfo(p)
		require.NoError(w.t, err)
		w.nominated[at] = append(w.nominated[at], info)
	}
}

func (w *world) word(p *v1.Pod, key, value string) {
	c := &p.Spec.Containers[0]
	number := func() int32 {
		n, err := strconv.ParseInt(value, 10, 32)
		require.NoError(w.t, err)
		return int32(n)
	}
	near := func(app string) []v1.PodAffinityTerm {
		return []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}
	}
	switch key {
	case "cpu":
		c.Resources.Requests = v1.ResourceList{"cpu": resource.MustParse(value)}
	case "on":
		p.Spec.NodeName = value
	case "priority":
		*p.Spec.Priority = number()
	case "port":
		c.Ports = []v1.ContainerPort{{HostPort: number(), ContainerPort: 80}}
	case "selector":
		p.Annotations[scheduling.AnnotationTopologySelector] = value
	case "app":
		p.Labels["app"] = value
	case "wants":
		p.Spec.NodeSelector = map[string]string{value: "yes"}
	case "named": // on the node that has all of these names
		var fields []v1.NodeSelectorRequirement
		for one := range strings.SplitSeq(value, "+") {
			fields = append(fields, v1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{one}})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: fields}},
		}}}
	case "near": // on the node of a pod of that app
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near(value)}}
	case "apart": // on no node of a pod of that app
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near(value)}}
	case "nominated":
		p.Status.NominatedNodeName = value
	case "runs":
		p.Annotations[scheduling.AnnotationMaxRuntime] = value
	case "never":
		never := v1.PreemptNever
		p.Spec.PreemptionPolicy = &never
	default:
		w.t.Fatalf("pod %s: what is %s?", p.Name, key)
	}
}

// get is a pod as the API server has it.
func (w *world) get(name string) *v1.Pod {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return p
}

// bind puts a pod on a node, in the cache and the snapshot.
func (w *world) bind(name, node string) {
	w.t.Helper()
	p := w.get(name)
	p.Spec.NodeName = node
	require.NoError(w.t, w.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), p, "default"))
	require.NoError(w.t, w.scheduler.AddPod(klog.Background(), p))
	if _, member := p.Labels[scheduling.LabelPodGroup]; member {
		w.wait(func() bool { return w.cache.Pod(convert.PodKey(p)).Spec.NodeName == node })
	}
}

// leave has a pod be gone from its node.
func (w *world) leave(name string) {
	w.t.Helper()
	require.NoError(w.t, w.scheduler.RemovePod(klog.Background(), w.get(name)))
}

// nodes returns the nodes of the next cycle.
func (w *world) nodes() []fwk.NodeInfo {
	w.t.Helper()
	require.NoError(w.t, w.scheduler.UpdateSnapshot(klog.Background(), w.snapshot))
	nodes, err := w.snapshot.NodeInfos().List()
	require.NoError(w.t, err)
	return nodes
}

// attempt begins one for a gang that has a member 0.
func (w *world) attempt(gangName string, avoid ...string) *place.Attempt {
	w.t.Helper()
	group, refusal := w.cache.Group(w.get(gangName + "-0"))
	require.False(w.t, refusal.Exists(), refusal)
	return w.planner.NewAttempt(group, w.nodes(), func(n fwk.NodeInfo) bool { return slices.Contains(avoid, n.Node().Name) })
}
