package elasticquota

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// world is a Manager, and what it has reported.
type world struct {
	*Manager
	*hooks
	t     testing.TB
	pods  toolscache.Indexer
	notes []string
	calls int
	grows func() // rebuilds the tree of quotas
	deaf  bool   // pod events have not arrived yet
	busy  bool   // more urgent work than the background's exists
}

func newWorld(t testing.TB, args func(*config.QuotaArgs)) *world {
	a, err := config.DecodeQuota(nil)
	require.NoError(t, err)
	if args != nil {
		args(&a)
	}
	w := &world{t: t, pods: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})}
	w.Manager, w.hooks = NewManager(), &hooks{reserved: map[string]bool{}, evicted: map[string]bool{}, Changed: func() { w.calls++ }}
	w.started, w.args, w.lister = true, a, corelisters.NewPodLister(w.pods)
	w.Connect(cluster{w}, testingclock.NewFakePassiveClock(time.Unix(1000, 0)), 0)
	return w
}

// hooks are the behaviour of a world's cluster; nil does nothing.
type hooks struct {
	reserved      map[string]bool
	evicted       map[string]bool // by revokeFor
	Has           func(*v1.Pod) bool
	Leaves        func(*v1.Pod) bool
	Terminates    func(pod *v1.Pod, within time.Duration) bool
	Unseen        func(within time.Duration) (accepted, others []*v1.Pod)
	Violated      func([]*v1.Pod) []string
	Changed, Next func()
	Gained        func(map[string]*v1.Pod)
	Open          func() bool
	Write         func(key string, after time.Duration, do func(context.Context) error)
	Idle          func(key string, after time.Duration, do func(context.Context, func() bool) error)
	Patch         func(ctx context.Context, of schema.GroupVersionResource, ns, name string, patch []byte, sub string) error
}

// cluster is Cluster by the hooks of a world.
type cluster struct{ w *world }

func (c cluster) Place(p *v1.Pod) Place {
	return Place{Assigned: c.w.hooks.Has != nil && c.w.hooks.Has(p), Reserved: c.w.reserved[key(p)]}
}
func (c cluster) Leaves(p *v1.Pod) bool { return c.w.hooks.Leaves != nil && c.w.hooks.Leaves(p) }

func (c cluster) Open() bool { return c.w.hooks.Open == nil || c.w.hooks.Open() }

func (c cluster) Note(n cache.Note) { c.w.notes = append(c.w.notes, n.Reason+": "+n.Message) }

func (c cluster) Templates(pods []*v1.Pod) (all []cache.Template) {
	for _, p := range pods {
		all = append(all, unique.Make(convert.Template(p)))
	}
	return all
}

func (c cluster) Terminates(p *v1.Pod, within time.Duration) bool {
	return c.w.hooks.Terminates != nil && c.w.hooks.Terminates(p, within)
}

func (c cluster) Unseen(within time.Duration) (accepted, others []*v1.Pod) {
	if c.w.hooks.Unseen == nil {
		return nil, nil
	}
	return c.w.hooks.Unseen(within)
}

func (c cluster) Hear(e Event) {
	switch {
	case e.Kind == MayBeAdmitted:
		c.w.hooks.Changed()
	case e.Kind == MayBeNext && c.w.hooks.Next != nil:
		c.w.hooks.Next()
	case e.Kind == MayEvict && c.w.hooks.Gained != nil:
		c.w.hooks.Gained(e.Waits)
	}
}

func (c cluster) Do(key string, after time.Duration, idle bool, work func(context.Context, func() bool) error) {
	switch {
	case idle && c.w.hooks.Idle != nil:
		c.w.hooks.Idle(key, after, work)
	case !idle && c.w.hooks.Write != nil:
		c.w.hooks.Write(key, after, func(ctx context.Context) error { return work(ctx, func() bool { return false }) })
	case key == "the tree of quotas":
		c.w.grows = func() { _ = work(context.Background(), func() bool { return false }) }
	}
}

// setObject is Room.setObject with its background work.
func (w *world) setObject(u *unstructured.Unstructured, x bool) {
	w.Manager.setObject(u, x)
	w.growTree()
}

// dropObject is Room.dropObject with its background work.
func (w *world) dropObject(u *unstructured.Unstructured, x bool) {
	w.Manager.dropObject(u, x)
	w.growTree()
}

func (w *world) growTree() {
	if do := w.grows; do != nil {
		w.grows = nil
		do()
	}
}

func (c cluster) Patch(ctx context.Context, of schema.GroupVersionResource, ns, name string, patch []byte, sub string) error {
	return c.w.hooks.Patch(ctx, of, ns, name, patch, sub)
}

func (w *world) quota(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	require.NoError(w.t, yaml.Unmarshal([]byte(text), &u.Object))
	u.SetUID(types.UID("uid of " + u.GetName()))
	w.setObject(u, strings.Contains(u.GetAPIVersion(), "x-k8s.io"))
	return u
}

// declare declares Koordinator's quotas: "name max=8 parent=p", one a line.
func (w *world) declare(lines ...string) {
	for i, line := range lines {
		words := strings.Fields(line)
		labels, notes, spec := map[string]any{}, map[string]any{}, map[string]any{}
		ns := "default"
		for _, word := range words[1:] {
			k, v, _ := strings.Cut(word, "=")
			switch k {
			case "min", "max":
				spec[k] = map[string]any{"cpu": v}
			case "ns":
				ns = v
			case "namespaces", "total-resource", "shared-weight":
				notes["quota.scheduling.koordinator.sh/"+k] = v
			default:
				labels["quota.scheduling.koordinator.sh/"+k] = v
			}
		}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "spec": spec,
			"metadata": map[string]any{
				"name": words[0], "namespace": ns, "labels": labels, "annotations": notes,
				"creationTimestamp": fmt.Sprintf("2026-01-01T00:00:%02dZ", i),
			},
		}}
		w.setObject(u, false)
	}
}

// pod makes a pod with this request: "ns/name", its quota ("" names none), its node.
func (w *world) pod(name, of, node, cpu string) *v1.Pod {
	ns, n, _ := strings.Cut(name, "/")
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: n, UID: types.UID(name)},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpu)}}}},
		},
	}
	if of != "" {
		p.Labels = map[string]string{"quota.scheduling.koordinator.sh/name": of}
	}
	require.NoError(w.t, w.pods.Add(p))
	if !w.deaf {
		w.setPod(p)
	}
	return p
}

func (w *world) node(name, cpu string, ready v1.ConditionStatus) {
	w.setNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{
		Allocatable: v1.ResourceList{"cpu": resource.MustParse(cpu)}, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}},
	}})
}

// tree is the quotas and their use, in short.
func (w *world) tree() (out []string) {
	for _, q := range w.Quotas() {
		out = append(out,
			fmt.Sprintf("%s used %s reserved %s request %s runtime %s", q.Name, FormatQuantities(q.Used), FormatQuantities(q.Reserved),
				FormatQuantities(q.Request), FormatQuantities(q.Runtime)))
	}
	return out
}

// Nothing is counted before a quota is declared; then all existing pods are.
func TestFirstQuota(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.pod("default/runs", "q", "n1", "2")
	require.False(t, w.Active())
	require.Nil(t, w.Quotas())
	w.declare("q max=4 min=2")
	require.True(t, w.Active())
	require.Contains(t, w.tree(), "q used cpu:2 reserved - request cpu:2 runtime cpu:2")
	w.dropObject(w.objects["scheduling.sigs.k8s.io/default/q"].raw, false)
	require.False(t, w.Active())
	w.declare("q max=4")
	require.Contains(t, w.tree(), "q used cpu:2 reserved - request cpu:2 runtime cpu:2")
}

// A pod that the scheduler tries before its event arrives counts as one whose event has arrived; a pod deleted meanwhile does not.
func TestPodCountsBeforeItsEvent(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("a max=8 min=1", "b max=8 min=6")
	w.pod("default/a1", "a", "n1", "4")
	w.pod("default/b1", "b", "n1", "2")
	w.deaf = true
	b2 := w.pod("default/b2", "b", "", "2")
	why := w.admitPod(b2)
	require.Empty(t, why)
	require.Contains(t, w.tree(), "b used cpu:2 reserved - request cpu:4 runtime cpu:4")
	b3 := w.pod("default/b3", "b", "", "1")
	require.NoError(t, w.pods.Delete(b3))
	w.admitPod(b3)
	require.Contains(t, w.tree(), "b used cpu:2 reserved - request cpu:4 runtime cpu:4")
	w.setPod(b2)
	require.Contains(t, w.tree(), "b used cpu:2 reserved - request cpu:4 runtime cpu:4")
}

// Waiting pods are retried when the last quota is deleted.
func TestLastQuota(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("q max=1")
	p := w.pod("default/waits", "q", "", "2")
	why := w.admitPod(p)
	require.Contains(t, why, "Quota q: the pod requests 2 cpu; max is 1 cpu, and 0 cpu are used. The pod never starts: "+
		"raise max by at least 1 cpu, or request less. Details: Insufficient quotas, quotaName: q")
	w.calls = 0
	w.Manager.dropObject(w.objects["scheduling.sigs.k8s.io/default/q"].raw, false)
	w.calls = 0 // the pod is retried when the tree is rebuilt without quotas
	w.growTree()
	require.Equal(t, 1, w.calls)
	require.Equal(t, map[string]*v1.Pod{"default/waits": p}, w.Waiting())
	require.Empty(t, w.Waiting())
	w.declare("q max=1")
	require.Empty(t, w.Waiting())
}

// A pod deleted while no quota was declared does not count afterwards, and a late event of it does no harm.
func TestQuotasComeBack(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("q max=4")
	p := w.pod("default/runs", "q", "n1", "2")
	w.dropObject(w.objects["scheduling.sigs.k8s.io/default/q"].raw, false)
	require.NoError(t, w.pods.Delete(p))
	w.dropPod(p)
	w.mu.Lock()
	w.recordPod(p) // the event waited for the lock
	w.mu.Unlock()
	w.admitPod(p)
	w.declare("q max=4")
	require.Contains(t, w.tree(), "q used cpu:0 reserved - request cpu:0 runtime cpu:0")
}

// A pod that changes its quota frees the former one, and a pod with a lower request frees some of it.
func TestChangedPodFreesQuota(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("q max=4", "r max=4")
	w.pod("default/p", "q", "n1", "2")
	w.calls = 0
	w.pod("default/p", "q", "n1", "2")
	require.Zero(t, w.calls)
	w.pod("default/p", "r", "n1", "2")
	require.Equal(t, 1, w.calls)
	less := w.pod("default/p", "r", "n1", "1")
	require.Equal(t, 2, w.calls)
	less = less.DeepCopy()
	less.Labels["quota.scheduling.koordinator.sh/preemptible"] = "false"
	w.setPod(less)
	require.Equal(t, 3, w.calls)
}

// With scheduler-plugins' quotas alone, a namespace without ElasticQuota is not limited.
func TestNoQuota(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.quota("apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: x, namespace: plain}\nspec: {min: {cpu: 2}, " +
		"max: {cpu: 4}}")
	runs, limited := w.pod("default/runs", "", "n1", "2"), w.pod("plain/runs", "", "n1", "2")
	g := w.group("default/g", "", 2)
	choices, why := w.Admit(g)
	require.Len(t, choices, 1, why)
	require.Len(t, choices[0], 2)
	c := w.SearchVictims(g, unlimited)
	require.True(t, c.May(runs, true), "priorities decide")
	require.False(t, c.May(runs, false))
	require.Equal(t, quota.Admitted, c.Check([]*v1.Pod{runs}))
	require.False(t, c.May(limited, true))
	require.NotEqual(t, quota.Admitted, c.Check([]*v1.Pod{limited}))
	require.False(t, w.SearchVictims(w.group("plain/g", "", 2), unlimited).May(runs, true))
}

// group is a waiting gang of so many pods of one CPU.
func (w *world) group(name, of string, many int) *cache.Group {
	ns, n, _ := strings.Cut(name, "/")
	g := &cache.Group{Pods: map[string]*v1.Pod{}}
	g.Key = gang.Ref{Namespace: ns, Name: n}
	g.Gangs = []gang.Gang{{Spec: gang.Spec{Ref: g.Key, Min: many}, Need: many}}
	for i := range many {
		p := w.pod(fmt.Sprint(name, "-", i), of, "", "1").DeepCopy()
		p.Labels = map[string]string{"pod-group.scheduling.sigs.k8s.io": n}
		w.setPod(p)
		m := gang.Member{Gang: g.Key, Pod: key(p)}
		g.Pending, g.Pods[m.Pod] = append(g.Pending, m), p
	}
	return g
}

// A pod's request is counted as requested, then reserved, then used, and back.
func TestStates(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("q max=6")
	p := w.pod("default/p", "q", "", "2")
	require.Contains(t, w.tree(), "q used cpu:0 reserved - request cpu:2 runtime cpu:2")
	w.assume(p, true)
	require.Contains(t, w.tree(), "q used cpu:0 reserved cpu:2 request cpu:2 runtime cpu:2")
	w.assume(p, false)
	require.Contains(t, w.tree(), "q used cpu:0 reserved - request cpu:2 runtime cpu:2")
	w.assume(p, true)
	bound := w.pod("default/p", "q", "n1", "2")
	require.Contains(t, w.tree(), "q used cpu:2 reserved - request cpu:2 runtime cpu:2")
	leaving := bound.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	w.setPod(leaving)
	require.Contains(t, w.tree(), "q used cpu:2 reserved - request cpu:2 runtime cpu:2", "it counts until it is gone")
	w.calls = 0
	other := bound.DeepCopy()
	other.UID = "another"
	w.dropPod(other)
	require.Contains(t, w.tree(), "q used cpu:2 reserved - request cpu:2 runtime cpu:2", "late news of one of that name before it")
	w.dropPod(leaving)
	require.Contains(t, w.tree(), "q used cpu:0 reserved - request cpu:0 runtime cpu:0")
	require.Equal(t, 1, w.calls, "others may be admitted now")
	finished := w.pod("default/p", "q", "n1", "2").DeepCopy()
	finished.Status.Phase = v1.PodSucceeded
	w.setPod(finished)
	require.Contains(t, w.tree(), "q used cpu:0 reserved - request cpu:0 runtime cpu:0")
}

// The cache of gangs decides whether a member is planned.
func TestMembersArePlanned(t *testing.T) {
	w := newWorld(t, nil)
	placed := map[string]bool{}
	w.Has = func(p *v1.Pod) bool { return placed[p.Name] }
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("q max=6")
	p := w.pod("default/m", "q", "", "2").DeepCopy()
	p.Labels["pod-group.scheduling.sigs.k8s.io"] = "g"
	w.setPod(p)
	placed["m"] = true
	w.UpdatePod("default/m")
	require.Contains(t, w.tree(), "q used cpu:0 reserved cpu:2 request cpu:2 runtime cpu:2")
	w.calls = 0
	placed["m"] = false
	w.UpdatePod("default/m")
	require.Contains(t, w.tree(), "q used cpu:0 reserved - request cpu:2 runtime cpu:2")
	require.Equal(t, 1, w.calls)
	w.UpdatePod("default/unknown")
}

// A node that is not ready counts only with what its pods use.
func TestTotals(t *testing.T) {
	w := newWorld(t, nil)
	w.declare("a", "b")
	w.declare("a min=1 max=100", "b min=1 max=100")
	w.node("n1", "8", v1.ConditionTrue)
	w.node("n2", "8", v1.ConditionTrue)
	w.pod("default/a", "a", "n2", "3")
	w.pod("default/b", "b", "", "20")
	w.pod("default/a2", "a", "", "20")
	require.Contains(t, w.tree(), "b used cpu:0 reserved - request cpu:20 runtime cpu:8")
	w.node("n2", "8", v1.ConditionUnknown)
	require.Contains(t, w.tree(), "b used cpu:0 reserved - request cpu:20 runtime cpu:5500m", "half of 8 and 3")
	w.dropNode("n1")
	require.Contains(t, w.tree(), "b used cpu:0 reserved - request cpu:20 runtime cpu:1500m")
	w.pod("kube-system/agent", "", "n2", "1")
	require.Contains(t, w.tree(), "b used cpu:0 reserved - request cpu:20 runtime cpu:1500m", "the default quota's pods are taken off once")
}

func TestWhichQuota(t *testing.T) {
	w := newWorld(t, nil)
	w.declare(`listed namespaces=["team","other"]`, "team ns=team", "named")
	for name, want := range map[[2]string]string{
		{"team/p", "named"}: "named", {"team/p", ""}: "team", {"other/p", ""}: "listed", {"default/p", ""}: "koordinator-default-quota",
		{"team/p", "typo"}: "koordinator-default-quota", {"x/p", "koordinator-system-quota"}: "koordinator-system-quota",
	} {
		got, _ := w.quotaOf(w.pod(name[0], name[1], "", "1"))
		require.Equal(t, want, got, name)
	}
	w.dropObject(w.objects["scheduling.sigs.k8s.io/team/team"].raw, false)
	got, _ := w.quotaOf(w.pod("team/p", "", "", "1"))
	require.Equal(t, "listed", got)
	w.quota("apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: x, namespace: plain}\nspec: {min: {cpu: 2}, " +
		"max: {cpu: 4}}")
	got, _ = w.quotaOf(w.pod("plain/p", "", "", "1"))
	require.Equal(t, "plain/x", got)
	require.Equal(t, []string{SchedulerPluginsRoot, "plain/x"}, w.book.Tree().Path("plain/x"))
}

// Totals are computed at a question, and not for each pod and node of the start.
func TestTotalsAreComputedOnDemand(t *testing.T) {
	w := newWorld(t, nil)
	w.declare("a max=100")
	w.pod("default/a", "a", "n1", "3")
	require.True(t, w.totalsStale, "its node is not known yet")
	require.Contains(t, w.tree(), "a used cpu:3 reserved - request cpu:3 runtime cpu:3")
	require.False(t, w.totalsStale)
	w.node("n1", "8", v1.ConditionTrue)
	w.pod("default/b", "a", "", "20")
	require.True(t, w.totalsStale)
	require.Contains(t, w.tree(), "a used cpu:3 reserved - request cpu:23 runtime cpu:8")
	require.False(t, w.totalsStale)
	w.pod("default/b", "a", "n1", "2")
	require.False(t, w.totalsStale, "neither is on a node that does not count")
}

// Trees have a total of their own, and take it from the cluster's if they say so.
func TestTrees(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "100", v1.ConditionTrue)
	w.declare(`top tree-id=t is-root=true is-parent=true total-resource={"cpu":"40"}`, "below tree-id=t max=100", "plain max=200")
	w.pod("default/b", "below", "", "90")
	w.pod("default/p", "plain", "", "150")
	require.Equal(t, []string{"top", "below"}, w.book.Tree().Path("below"))
	require.Equal(t, []string{"koordinator-root-quota", "plain"}, w.book.Tree().Path("plain"))
	require.Contains(t, w.tree(), "below used cpu:0 reserved - request cpu:90 runtime cpu:40")
	require.Contains(t, w.tree(), "plain used cpu:0 reserved - request cpu:150 runtime cpu:100")
	w.declare(`top tree-id=t is-root=true is-parent=true ignore-default-tree=true total-resource={"cpu":"40"}`)
	require.Contains(t, w.tree(), "plain used cpu:0 reserved - request cpu:150 runtime cpu:60")
}

// The root has another name in objects of Koordinator before 1.0.
func TestOlderRoot(t *testing.T) {
	w := newWorld(t, nil)
	w.declare("q parent=root max=8", "top parent= max=8")
	require.Empty(t, w.notes)
	require.Equal(t, []string{"koordinator-root-quota", "q"}, w.book.Tree().Path("q"))
	require.Equal(t, []string{"koordinator-root-quota", "top"}, w.book.Tree().Path("top"))
	w.declare("q parent=root max=8", "root is-parent=true max=9")
	require.Equal(t, []string{"koordinator-root-quota", "root", "q"}, w.book.Tree().Path("q"))
}

// A problem of an object is reported once, on that object.
func TestNotes(t *testing.T) {
	w := newWorld(t, nil)
	open := false
	w.Open = func() bool { return open }
	w.declare("bad max=many", "lost parent=nobody", "fine max=8", "fine ns=other max=9")
	w.pod("default/p", "typo", "", "1")
	require.Empty(t, w.notes, "it is not reported")
	open = true
	w.Resume()
	require.ElementsMatch(t, []string{
		`QuotaNotUsable: the quota cannot be used, and its pods wait: spec.max.cpu: many is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi`,
		`QuotaNotUsable: the quota cannot be used, and its pods wait: its parent "nobody" does not exist; create that quota, or name a quota that is marked as a parent`,
		`QuotaNotUsable: the quota cannot be used, and its pods wait: there is an older quota named "fine", which counts`,
		`QuotaNotFound: there is no ElasticQuota named "typo" (label quota.scheduling.koordinator.sh/name of the pod): the pod counts in quota koordinator-default-quota; correct the label`,
	}, w.notes)
	w.notes = nil
	w.declare("more max=8")
	w.pod("default/p", "typo", "", "1")
	require.Empty(t, w.notes)
	w.declare("bad max=8")
	require.Empty(t, w.notes)
	w.declare("bad max=-8")
	require.Equal(t, []string{"QuotaNotUsable: the quota cannot be used, and its pods wait: spec.max.cpu: -8 is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi"}, w.notes)
}

// The request of a starving gang is held as long as it starves.
func TestStarving(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "96", v1.ConditionTrue)
	w.declare("c max=64")
	for i := range 5 {
		w.pod(fmt.Sprint("default/s-", i), "c", "n1", "8")
	}
	g := &cache.Group{Pods: map[string]*v1.Pod{}}
	g.Key = gang.Ref{Namespace: "default", Name: "big"}
	g.Gangs = []gang.Gang{{Spec: gang.Spec{Ref: g.Key, Min: 8}, Need: 8}}
	for i := range 8 {
		p := w.pod(fmt.Sprint("default/big-", i), "c", "", "8").DeepCopy()
		p.Labels["pod-group.scheduling.sigs.k8s.io"] = "big"
		w.setPod(p)
		m := gang.Member{Gang: g.Key, Pod: key(p)}
		g.Pending, g.Pods[m.Pod] = append(g.Pending, m), p
	}
	single := w.pod("default/later", "c", "", "8")
	_, said := w.Admit(g)
	require.Contains(t, said.Text, "max: cpu:64, used: cpu:40")
	require.Equal(t, "Quota c: the gang requests 64 cpu; max is 64 cpu, and 40 cpu are used. Wait until pods of the quota release 40 cpu, or "+
		"raise max.",
		said.Sentence)
	why := w.admitPod(single)
	require.Empty(t, why, "it overtakes the gang as long as that does not starve")
	g.Starving = true
	_, said = w.Admit(g)
	require.Contains(t, said.Text, "the gang is starving: free capacity of its quotas is held for it")
	why = w.admitPod(single)
	require.Contains(t, why, "quota claimed by default/big")
	w.Review(g.Key, g.Starving)
	why = w.admitPod(single)
	require.NotEmpty(t, why)
	g.Starving = false
	w.calls = 0
	w.Review(g.Key, g.Starving)
	why = w.admitPod(single)
	require.Empty(t, why)
	require.Equal(t, 1, w.calls)
	g.Starving = true
	_, _ = w.Admit(g)
	for i := range 5 {
		w.dropPod(w.Manager.pods[fmt.Sprint("default/s-", i)].Pod)
	}
	choices, said := w.Admit(g)
	require.Nil(t, said)
	require.Len(t, choices, 1)
	require.Len(t, choices[0], 8)
	why = w.admitPod(single)
	require.Empty(t, why, "the gang has its places now, or will ask again")
}

// The capacity to borrow is held for a starving gang. It is not held against gangs within their min, nor for a gang
// that is larger than the total.
func TestStarvingToBorrow(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare(`a max=80 namespaces=["default"]`, `b min=4 max=80 namespaces=["other"]`)
	w.pod("default/a1", "", "n1", "2")
	w.pod("other/b1", "", "n1", "3")
	big, small, later := w.group("default/big", "", 6), w.pod("other/small", "", "", "1"), w.pod("other/later", "", "", "2")
	refused := w.admitPod
	_, said := w.Admit(big)
	require.Contains(t, said.Text, "quotaName: a, runtime: ")
	require.Empty(t, refused(small))
	require.Empty(t, refused(later))

	big.Starving = true
	_, said = w.Admit(big)
	require.Contains(t, said.Text, "is held for it")
	require.Empty(t, refused(small))
	require.Contains(t, refused(later), "quota claimed by default/big")

	w.dropPod(w.Manager.pods["default/a1"].Pod)
	require.Contains(t, refused(later), "quota claimed by default/big", "two of the six that it needs are missing")
	w.dropPod(w.Manager.pods["other/b1"].Pod)
	choices, _ := w.Admit(big)
	require.Len(t, choices, 1)
	require.Len(t, choices[0], 6)

	huge := w.group("default/huge", "", 9)
	huge.Starving = true
	_, said = w.Admit(huge)
	require.NotContains(t, said.Text, "is held for it")

	wide := w.group("default/wide", "", 9) // five of one quota and four of another, and there are eight
	for _, m := range wide.Pending[5:] {
		wide.Pods[m.Pod].Labels["quota.scheduling.koordinator.sh/name"] = "b"
		w.setPod(wide.Pods[m.Pod])
	}
	wide.Starving = true
	_, said = w.Admit(wide)
	require.Contains(t, said.Text, "quotaName: a, runtime: ")
	require.NotContains(t, said.Text, "is held for it")
}

// Without quotas no pod is rejected.
func TestWithoutQuotas(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	g := group.Alone(p, "")
	r := NewManager()
	require.Nil(t, r.Why(g, g.Pending))
	require.Nil(t, r.SearchVictims(g, unlimited))
	require.Nil(t, r.SearchOverdueVictims(g))
	require.False(t, r.WaitsForTurn(g))
	r.Tick()
}

// A system-critical pod evicts by priority alone; an ordinary pod of the default quota takes nothing back.
func TestCriticalPods(t *testing.T) {
	w := newWorld(t, nil)
	w.declare("q max=8")
	victim := w.pod("default/v", "q", "n1", "1")
	p := w.pod("kube-system/agent", "", "", "1")
	require.False(t, w.SearchVictims(group.Alone(p, ""), unlimited).May(victim, true))
	critical := int32(2_000_000_000)
	p.Spec.Priority = &critical
	require.Nil(t, w.SearchVictims(group.Alone(p, ""), unlimited))
}

// runs notes background work by key. Nothing is more urgent, unless the world is busy.
func (w *world) runs(jobs map[string]func(context.Context) error) {
	w.Write = func(key string, _ time.Duration, do func(context.Context) error) { jobs[key] = do }
	w.Idle = func(key string, _ time.Duration, do func(context.Context, func() bool) error) {
		jobs[key] = func(ctx context.Context) error { return do(ctx, func() bool { return w.busy }) }
	}
}

// Writing quotas yields to more urgent work, also between two objects.
func TestStatusWritesYield(t *testing.T) {
	w := newWorld(t, nil)
	jobs := map[string]func(context.Context) error{}
	w.runs(jobs)
	var patched []string
	w.Patch = func(_ context.Context, _ schema.GroupVersionResource, _, name string, _ []byte, _ string) error {
		patched = append(patched, name)
		w.busy = len(patched) == 1
		return nil
	}
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("a max=4", "b max=4")
	w.pod("default/p", "a", "n1", "2")
	w.pod("default/q", "b", "n1", "2")
	for range 2 {
		do := jobs["quotas of objects"]
		delete(jobs, "quotas of objects")
		require.NoError(t, do(t.Context()))
		require.Equal(t, []string{"a"}, patched)
		require.Contains(t, jobs, "quotas of objects")
	}
	w.busy = false
	require.NoError(t, jobs["quotas of objects"](t.Context()))
	require.Contains(t, patched, "b")
}

// A quota is written into its object only if it changed.
func TestStatusIsWrittenWhenChanged(t *testing.T) {
	w := newWorld(t, nil)
	jobs := map[string]func(context.Context) error{}
	patches := map[string]string{}
	w.runs(jobs)
	w.Patch = func(_ context.Context, of schema.GroupVersionResource, ns, name string, patch []byte, sub string) error {
		patches[of.Group+" "+ns+"/"+name+" "+sub] = string(patch)
		return nil
	}
	w.node("n1", "8", v1.ConditionTrue)
	u := w.quota("apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: q, namespace: default}\nspec: {max: " +
		"{cpu: 4}}")
	w.quota("apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: x, namespace: plain}\nspec: {min: {cpu: 2}, " +
		"max: {cpu: 4}}")
	w.pod("default/p", "q", "n1", "2")
	w.pod("plain/p", "", "n1", "1500m")
	run := func() {
		for key, do := range jobs {
			delete(jobs, key)
			require.NoError(t, do(t.Context()))
		}
	}
	run()
	require.JSONEq(t, `{"metadata":{"uid":"uid of q","annotations":{"quota.scheduling.koordinator.sh/runtime":"{\"cpu\":\"2\"}","quota.scheduling.koordinator.sh/request":"{\"cpu\":\"2\"}",
		"quota.scheduling.koordinator.sh/non-preemptible-used":"{}"}},"status":{"used":{"cpu":"2"}}}`, patches["scheduling.sigs.k8s.io "+
		"default/q "])
	require.JSONEq(t, `{"metadata":{"uid":"uid of x"},"status":{"used":{"cpu":"1500m"}}}`, patches["scheduling.x-k8s.io plain/x status"])

	var patch map[string]any // as the API server would
	require.NoError(t, json.Unmarshal([]byte(patches["scheduling.sigs.k8s.io default/q "]), &patch))
	is := u.DeepCopy()
	is.Object["status"] = patch["status"]
	notes := map[string]string{}
	for k, v := range patch["metadata"].(map[string]any)["annotations"].(map[string]any) {
		notes[k] = v.(string)
	}
	is.SetAnnotations(notes)
	w.setObject(is, false)
	patches = map[string]string{}
	w.pod("default/waits", "other", "", "1")
	run()
	require.NotContains(t, patches, "scheduling.sigs.k8s.io default/q ", "nothing has changed of it")
}

// A change before this process leads is written once it does.
func TestStatusIsWrittenOnceLeading(t *testing.T) {
	w := newWorld(t, nil)
	open, patches := false, 0
	jobs := map[string]func(context.Context) error{}
	w.Open = func() bool { return open }
	w.runs(jobs)
	w.Patch = func(context.Context, schema.GroupVersionResource, string, string, []byte, string) error {
		patches++
		return nil
	}
	run := func() {
		for key, do := range jobs {
			delete(jobs, key)
			require.NoError(t, do(t.Context()))
		}
	}
	w.declare("q max=4")
	w.pod("default/p", "q", "n1", "2")
	run()
	require.Zero(t, patches)
	open = true
	w.Resume()
	run()
	require.Equal(t, 1, patches)
}

// For a hundred quotas that arrive at once one tree is built. It answers the next question, and its problems are reported without one.
func TestManyQuotasBuildOneTree(t *testing.T) {
	w := newWorld(t, nil)
	w.declare("first max=1")
	jobs := map[string]func(context.Context) error{}
	w.runs(jobs)
	w.Patch = func(context.Context, schema.GroupVersionResource, string, string, []byte, string) error { return nil }
	w.node("n1", "800", v1.ConditionTrue)
	w.pod("default/known", "q7", "n1", "2")
	was := w.book
	for i := range 100 {
		w.declare(fmt.Sprintf("q%d max=9 parent=%s", i, map[bool]string{true: "nobody", false: "koordinator-root-quota"}[i == 5]))
		w.pod(fmt.Sprintf("default/p%d", i), fmt.Sprintf("q%d", i), "n1", "1")
	}
	require.Same(t, was, w.book, "no request since")
	require.Empty(t, w.notes[min(1, len(w.notes)):], "but for the pod whose quota there was not")
	for _, do := range jobs {
		require.NoError(t, do(t.Context()))
	}
	require.Contains(t, strings.Join(w.notes, ";"), `QuotaNotUsable: the quota cannot be used, and its pods wait: its parent "nobody" does not exist`)
	is := w.book
	require.NotSame(t, was, is)
	require.Contains(t, w.tree(), "q7 used cpu:3 reserved - request cpu:3 runtime cpu:3")
	require.Contains(t, w.tree(), "q99 used cpu:1 reserved - request cpu:1 runtime cpu:1")
	require.Same(t, is, w.book)
}

// Profiles share the quotas: a profile without arguments uses another profile's.
func TestArgumentsOfProfiles(t *testing.T) {
	none, err := config.DecodeQuota(nil)
	require.NoError(t, err)
	some := none
	some.Reclaim = "Never"
	r := &Manager{}
	require.NoError(t, r.adoptArgs(none, false))
	require.NoError(t, r.adoptArgs(some, true))
	require.NoError(t, r.adoptArgs(none, false))
	require.Equal(t, some, r.args)
	require.NoError(t, r.adoptArgs(some, true))
	require.ErrorContains(t, r.adoptArgs(none, true), "all profiles need the same")
}

// Messages show names.
func TestNames(t *testing.T) {
	ref := gang.Ref{Source: "JobSet", Namespace: "default", Name: "j", UID: "1-2-3"}
	require.Equal(t, []string{"default/j", "default/g", "default/p"},
		shortNames([]string{"gang " + ref.ID(), "gang " + gang.Ref{Namespace: "default", Name: "g"}.ID(), "pod default/p"}))
}

func TestWords(t *testing.T) {
	r := &quota.Refusal{
		Cause: quota.OverMax, Quota: "p", Path: []string{"root", "p", "q"}, Limit: quota.List{"cpu": 24000, "memory": 64 << 30},
		Used:     quota.List{"cpu": 500, "memory": 0},
		Reserved: quota.List{"cpu": 0, "memory": 0}, Request: quota.List{"cpu": 32000, "memory": 1 << 30}, Pods: 4, Exceeds: []string{"cpu"},
	}
	require.Equal(t,
		"Insufficient quotas, quotaName: p, max: cpu:24,memory:64Gi, used: cpu:500m,memory:0, reserved: cpu:0,memory:0, gang's request: "+
			"cpu:32,memory:1Gi (4 pods), "+
			"exceedDimensions: [cpu]; path: root/p/q", Message(r, "gang's"))
	r.Cause, r.Holder = quota.Held, "g"
	require.Contains(t, Message(r, "pod's"), "pod's request: cpu:32,memory:1Gi, exceedDimensions: [cpu]; path: root/p/q; quota claimed by g")
	require.Equal(t, "quota q cannot be used: why", Message(&quota.Refusal{Cause: quota.Broken, Quota: "q", Message: "why"}, "gang's"))
}

// A gang waits for another quota's turn also after one of its members is deleted.
func TestGangWaitsForTurnAfterMemberIsDeleted(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "12", v1.ConditionTrue)
	w.declare(`a max=12 namespaces=["default"]`, `b max=12 namespaces=["other"]`)
	w.pod("default/runs", "", "n1", "5")
	g, first := w.group("default/g", "", 3), w.pod("other/first", "", "", "5")
	w.RecordPassedOver(first, false)
	gone := w.pod("default/gone", "", "", "1").DeepCopy()
	gone.Labels = map[string]string{"pod-group.scheduling.sigs.k8s.io": "g"}
	w.setPod(gone)
	_, said := w.Admit(g)
	require.Contains(t, said.Text, "quota b is served first")
	require.True(t, w.WaitsForTurn(g))
	w.dropPod(gone)
	require.True(t, w.WaitsForTurn(g))
	for _, m := range g.Pending {
		w.dropPod(g.Pods[m.Pod])
	}
	require.Empty(t, w.gangsWaitingForTurn)
}

// A gang that lacked capacity, and waits for another quota's turn once there is more, is retried after that turn.
func TestGangIsRetriedAfterOtherQuotasTurn(t *testing.T) {
	for _, alone := range []bool{false, true} {
		w := newWorld(t, nil)
		tried := 0
		w.Next = func() { tried++ }
		w.node("n1", "12", v1.ConditionTrue)
		w.declare(`a max=12 namespaces=["default"]`, `b max=12 namespaces=["other"]`)
		w.pod("default/runs", "", "n1", "5")
		runs := w.pod("other/runs", "", "n1", "6")
		first := w.pod("other/first", "", "", "3")
		w.pod("other/large", "", "", "11")
		w.RecordPassedOver(first, false)
		if alone {
			p := w.pod("default/p", "", "", "3")
			why := w.admitPod(p)
			require.Contains(t, why, "borrowed by: b")
			w.dropPod(runs)
			require.Empty(t, w.Waiting())
			w.RecordPassedOver(first, true)
			require.Contains(t, w.Waiting(), "default/p")
		} else {
			g := w.group("default/g", "", 3)
			_, said := w.Admit(g)
			require.Contains(t, said.Text, "borrowed by: b")
			w.dropPod(runs)
			require.False(t, w.WouldAdmit(g))
			w.RecordPassedOver(first, true)
			require.True(t, w.WaitsForTurn(g))
			require.True(t, w.WouldAdmit(g))
		}
		require.Equal(t, 1, tried)
	}
}

// A gang with different members waits for another quota's turn as soon as only the turn keeps some members from starting.
func TestGangWaitsForTurnIfOnlyTheTurnIsMissing(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		w := newWorld(t, nil)
		tried := 0
		w.Next = func() { tried++ }
		w.node("n1", "12", v1.ConditionTrue)
		w.quota("apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: q, namespace: default}\nspec: {max: {cpu: " +
			"8, memory: 4}}")
		w.declare(`b max=12 namespaces=["other"]`)
		w.pod("default/runs", "q", "n1", "6")
		runs := w.pod("default/more", "q", "n1", "2")
		first := w.pod("other/first", "", "", "3")
		w.pod("other/large", "", "", "11")
		w.RecordPassedOver(first, false)
		g := w.unlike(1, "4", "1", "2")
		if atOnce { // the second member requests least of the first member's short resource, and too much of another
			large := g.Pods["default/g-1"].DeepCopy()
			large.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("8")
			w.setPod(large)
			g.Pods[key(large)] = large
			w.dropPod(runs)
		}
		_, said := w.Admit(g)
		require.Contains(t, said.Text, "Insufficient quotas, quotaName: q, max: ")
		if !atOnce {
			w.dropPod(runs)
			require.False(t, w.WouldAdmit(g))
		}
		require.True(t, w.WaitsForTurn(g))
		require.False(t, w.WouldAdmit(g), "nothing else is to be said of it")
		w.RecordPassedOver(first, true)
		require.Equal(t, 1, tried)
		require.True(t, w.WaitsForTurn(g))
		require.True(t, w.WouldAdmit(g))
	}
}

// A group of several quotas has its turn with the last of them. Gangs of other quotas need not wait for the group, even if it waited before
// the first quota.
func TestGroupHasTurnWithItsLastQuota(t *testing.T) {
	for _, letIn := range []bool{true, false} {
		w := newWorld(t, nil)
		w.node("n1", "12", v1.ConditionTrue)
		w.declare(`a max=12 namespaces=["na"]`, `b max=12 namespaces=["nb"]`, `c max=12 namespaces=["nc"]`)
		w.pod("nb/runs", "", "n1", "1")
		w.pod("nc/runs", "", "n1", "2")
		g, c, y := w.group("na/x", "", 4), w.group("nc/x", "", 4), w.pod("nb/y", "", "", "5")
		g.Gangs, g.Pending = append(g.Gangs, c.Gangs...), append(g.Pending, c.Pending...)
		maps.Copy(g.Pods, c.Pods)
		w.RecordPassedOver(y, false)
		if letIn {
			w.RecordPassedOverGangs([]gang.Ref{source.GangOf(g.Pods["na/x-0"]), source.GangOf(g.Pods["nc/x-0"])}, false)
		} else {
			_, said := w.Admit(g)
			require.Contains(t, said.Text, "quota b is served first")
		}
		why := w.admitPod(y)
		require.Empty(t, why)
		w.dropPod(y)
		choices, said := w.Admit(g)
		require.Len(t, choices, 1, said)
		require.Len(t, choices[0], 8)
	}
}

// In a search for victims, terminating pods count as gone if they are gone in time or their eviction is accepted. Requested evictions count
// only for gangs that may evict them. A new pod of the same name does not count as gone. In all other answers terminating pods still use
// their quota.
func TestTerminatingPodsCountAsGone(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare(`a min=4 max=4 namespaces=["default"]`, `b min=4 max=8 namespaces=["other"]`)
	mine, theirs := w.pod("default/runs", "", "n1", "4"), w.pod("other/runs", "", "n1", "4")
	g := w.group("default/g", "", 3)
	high := int32(5)
	for _, m := range g.Pending {
		g.Pods[m.Pod].Spec.Priority = &high
	}
	enough := func() bool { return w.SearchVictims(g, time.Minute).Check(nil) == quota.Admitted }
	require.False(t, enough())

	var taken, others []*v1.Pod
	w.Unseen = func(time.Duration) (a, b []*v1.Pod) { return taken, others }
	taken = []*v1.Pod{mine}
	require.True(t, enough())
	again := mine.DeepCopy()
	again.UID = "another one"
	taken = []*v1.Pod{again}
	require.False(t, enough())

	taken, others = nil, []*v1.Pod{mine}
	c := w.SearchVictims(g, time.Minute)
	require.Equal(t, quota.Admitted, c.Check(nil), "the gang is more important")
	require.True(t, c.May(mine, true), "and may evict it")
	require.Equal(t, quota.Admitted, c.Check([]*v1.Pod{mine}), "as if it did")
	require.Equal(t, []*v1.Pod{mine}, c.CountedAsGone())
	others = []*v1.Pod{theirs}
	require.Empty(t, w.SearchVictims(g, time.Minute).CountedAsGone(), "its use is guaranteed")

	others = nil
	mine = mine.DeepCopy()
	mine.DeletionTimestamp = &metav1.Time{Time: w.clock.Now().Add(30 * time.Second)}
	w.setPod(mine)
	require.False(t, enough(), "its time to terminate is unknown")
	w.hooks.Terminates = func(p *v1.Pod, within time.Duration) bool { return p.DeletionTimestamp.Sub(w.clock.Now()) <= within }
	require.True(t, enough())
	require.NotEqual(t, quota.Admitted, w.SearchVictims(g, time.Second).Check(nil))
	_, said := w.Admit(g)
	require.Contains(t, said.Text, "max: cpu:4, used: cpu:4", "it uses its quota until it is gone")
	w.dropPod(mine)
	_, said = w.Admit(g)
	require.Nil(t, said)
	require.Empty(t, w.terminating)
}

// A pod that waits for another quota's turn evicts no pod, although it might once the terminating pods are gone: it may not need that then.
func TestPodWaitingForTurnEvictsNoPod(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("a max=8", "b max=8 min=2", "c max=8")
	w.pod("default/c1", "c", "n1", "3")
	b1 := w.pod("default/b1", "b", "n1", "4").DeepCopy()
	b1.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
	w.hooks.Terminates = func(p *v1.Pod, _ time.Duration) bool { return p.Name == "b1" }
	w.setPod(b1)
	a1 := w.pod("default/a1", "a", "", "1")
	w.RecordPassedOver(a1, false)
	b2 := w.pod("default/b2", "b", "", "1")
	searches := func() bool {
		return !w.WaitsForTurn(group.Alone(b2, "")) && w.SearchVictims(group.Alone(b2, ""), unlimited).May(w.Manager.pods["default/c1"].Pod,
			false)
	}
	require.Contains(t, w.admitPod(b2), "quota a is served first")
	require.False(t, searches())
	require.Empty(t, w.Waiting())
	more := w.pod("default/c2", "c", "n1", "1")
	require.Contains(t, w.Waiting(), "default/b2")
	w.admitPod(b2)
	require.True(t, searches(), "what it needs is lent to c now")
	require.Empty(t, w.Waiting())
	w.dropPod(more)
	w.RecordPassedOver(a1, true)
	require.Empty(t, w.admitPod(b2))
}

// early is a profile whose informers alone exist.
type early struct {
	fwk.Handle
	informers informers.SharedInformerFactory
}

func (e early) SharedInformerFactory() informers.SharedInformerFactory { return e.informers }
func (early) SharedDRAManager() fwk.SharedDRAManager                   { return nil }

// Quotas arrive before the profile makes the plugin. They count as soon as the plugin exists, without a further event; without a quota
// nothing counts.
func TestQuotasBeforeTheirPlugin(t *testing.T) {
	for _, quotas := range [][]string{nil, {"a max=8"}} {
		w := newWorld(t, nil)
		w.started = false
		w.declare(quotas...)
		require.False(t, w.Active())
		h := early{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
		require.NoError(t, w.start(w.args, false, h))
		require.Equal(t, quotas != nil, w.Active())
		require.Equal(t, len(quotas), w.calls, "rejected pods are retried")
		require.NoError(t, w.start(w.args, false, h), "of another profile")
		require.Equal(t, len(quotas), w.calls)
		w.declare("b max=8")
		require.True(t, w.Active())
	}
}

// The first profile has no arguments, and a later one has some. Quotas that arrived before either use these.
func TestQuotasBeforeTheirArguments(t *testing.T) {
	w := newWorld(t, nil)
	w.started = false
	w.declare("a max=8")
	h := early{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	defaults, err := config.DecodeQuota(nil)
	require.NoError(t, err)
	require.NoError(t, w.start(defaults, false, h))
	require.True(t, w.book.Runtime)
	args := defaults
	args.Runtime, args.ScaleMin, args.DefaultMax = false, false, map[string]resource.Quantity{"cpu": resource.MustParse("3")}
	require.NoError(t, w.start(args, true, h))
	w.lock()
	defer w.mu.Unlock()
	require.False(t, w.book.Runtime)
	require.False(t, w.book.ScaleMin)
	of, problem := w.book.Tree().Spec(scheduling.DefaultQuota)
	require.Empty(t, problem)
	require.EqualValues(t, 3000, of.Max["cpu"])
}
