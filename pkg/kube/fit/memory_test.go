package fit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/test/worlds"
)

// cluster is a scheduler's cache, with the snapshot that its profile sees.
type cluster struct {
	framework.Framework
	t        testing.TB
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	nodes    map[string]*v1.Node
	pods     map[string]*v1.Pod
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	snapshot := internalcache.NewEmptySnapshot()
	return &cluster{
		Framework: newProfile(t, snapshot), t: t, cache: internalcache.New(t.Context(), nil, false, false), snapshot: snapshot,
		nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{},
	}
}

func (c *cluster) setNode(n *v1.Node) {
	if old := c.nodes[n.Name]; old != nil {
		c.cache.UpdateNode(klog.Background(), old, n)
	} else {
		c.cache.AddNode(klog.Background(), n)
	}
	c.nodes[n.Name] = n
}

func (c *cluster) dropNode(name string) {
	for key, p := range c.pods {
		if p.Spec.NodeName == name {
			c.dropPod(key)
		}
	}
	require.NoError(c.t, c.cache.RemoveNode(klog.Background(), c.nodes[name]))
	delete(c.nodes, name)
}

func (c *cluster) addPod(p *v1.Pod) {
	require.NoError(c.t, c.cache.AddPod(klog.Background(), p))
	c.pods[p.Name] = p
}

func (c *cluster) dropPod(name string) {
	require.NoError(c.t, c.cache.RemovePod(klog.Background(), c.pods[name]))
	delete(c.pods, name)
}

// list returns the nodes as the next cycle sees them.
func (c *cluster) list() []fwk.NodeInfo {
	require.NoError(c.t, c.cache.UpdateSnapshot(klog.Background(), c.snapshot))
	nodes, err := c.snapshot.NodeInfos().List()
	require.NoError(c.t, err)
	return nodes
}

// TestMemory: after any change of a cluster, remembered answers equal the current answers of the Filters.
func TestMemory(t *testing.T) {
	kinds := []string{"known from before", "moved", "beside other pods", "apart", "kept off a rack", "not to be remembered", "left out"}
	worlds.Check(t, 600, kinds, func(rt *rapid.T, tally worlds.Tally) {
		h := &history{cluster: newCluster(t), T: rt, Tally: tally}
		h.memory = fit.NewMemory(h.cluster)
		for range rapid.IntRange(1, 5).Draw(rt, "nodes") {
			h.newNode()
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			h.step()
		}
	})
}

type history struct {
	*cluster
	*rapid.T
	worlds.Tally
	memory *fit.Memory
	made   int
	at     map[string]int // where nodes were when they were last counted
}

func (h *history) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(h.T, what) }

// name draws one of several names; "" if there are none.
func name[V any](h *history, of map[string]V) string {
	if len(of) == 0 {
		return ""
	}
	names := make([]string, 0, len(of))
	for i := range h.made {
		for _, prefix := range []string{"node-", "pod-"} {
			if n := fmt.Sprint(prefix, i); has(of, n) {
				names = append(names, n)
			}
		}
	}
	return names[h.pick("which", len(names))]
}

func has[V any](of map[string]V, name string) bool { _, ok := of[name]; return ok }

func (h *history) newNode() {
	h.setNode(node(fmt.Sprint("node-", h.made),
		[]string{"4", "8"}[h.pick("size", 2)]).Label(rack, []string{"r0", "r1"}[h.pick("rack", 2)]).Obj())
	h.made++
}

func (h *history) step() {
	switch what := h.pick("what", 9); what {
	case 0:
		h.newNode()
	case 1:
		if n := name(h, h.nodes); n != "" {
			h.dropNode(n)
		}
	case 2:
		if n := name(h, h.nodes); n != "" {
			changed := h.nodes[n].DeepCopy()
			changed.Spec.Unschedulable = !changed.Spec.Unschedulable
			h.setNode(changed)
		}
	case 3, 4:
		if n := name(h, h.nodes); n != "" {
			h.newPod(n)
		}
	case 5:
		if p := name(h, h.pods); p != "" {
			h.dropPod(p)
		}
	default:
		h.compare()
	}
}

// newPod puts a pod on a node; some pods have anti-affinity.
func (h *history) newPod(on string) {
	p := pod(fmt.Sprint("pod-", h.made)).Node(on).Req(cpu([]string{"1", "1500m", "3"}[h.pick("request", 3)]))
	h.made++
	switch h.pick("apart", 8) {
	case 0:
		p.PodAntiAffinity(v1.LabelHostname, like("a"), st.PodAntiAffinityWithRequiredReq)
	case 1:
		p.PodAntiAffinity(rack, like("b"), st.PodAntiAffinityWithRequiredReq)
	case 2:
		p.HostPort(80)
	}
	h.addPod(p.Obj())
}

// compare asks about a template with and without the memory.
func (h *history) compare() {
	template := pod("m").Req(cpu([]string{"1", "2"}[h.pick("size", 2)]))
	switch h.pick("template", 7) {
	case 0:
		template.HostPort(80)
	case 1:
		template.Toleration(v1.TaintNodeUnschedulable)
	case 2:
		template.PodAntiAffinity(v1.LabelHostname, like("a"), st.PodAntiAffinityWithRequiredReq)
	case 3:
		template.Label("app", "z") // which no pod keeps off
	case 4:
		template.Label("app", "b") // which some keep off their rack
	}
	nodes := h.list()
	if len(nodes) > 1 && h.pick("left out", 4) == 0 {
		nodes = append([]fwk.NodeInfo{nil}, nodes[1:]...)
	}
	beside := map[int]fit.Pods{}
	if len(nodes) > 0 && h.pick("beside", 3) == 0 {
		other, err := framework.NewPodInfo(pod("other").Req(cpu("3")).Obj())
		require.NoError(h, err)
		beside[h.pick("where", len(nodes))] = fit.Pods{other}
	}
	counter, err := fit.NewCounter(h.t.Context(), h.cluster, template.Obj())
	require.NoError(h, err)
	before := fit.FilterRuns()
	got := h.memory.Count(h.t.Context(), counter, nodes, beside)
	asked := fit.FilterRuns() - before
	fresh, err := fit.NewCounter(h.t.Context(), h.cluster, template.Obj())
	require.NoError(h, err)
	for i, n := range nodes {
		if n == nil {
			require.Zero(h, got.Slots[i])
			continue
		}
		want, why := fresh.Count(h.t.Context(), n, beside[i])
		require.Equal(h, want, got.Slots[i], "%s: %v", n.Node().Name, why)
		require.ElementsMatch(h, why, got.Why(i).All(), n.Node().Name)
	}
	h.Count("known from before", asked < int64(len(nodes)))
	h.Count("beside other pods", len(beside) > 0)
	h.Count("apart", counter.Remembered() && counter.Apart())
	h.Count("kept off a rack", slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return n != nil && keptOffFrom(counter, n) }))
	h.Count("not to be remembered", !counter.Remembered())
	h.Count("left out", slices.Contains(nodes, nil))
	h.Count("moved", h.moved(nodes))
}

// keptOffFrom returns whether a pod on the node keeps a member off other nodes too.
func keptOffFrom(c *fit.Counter, n fwk.NodeInfo) bool {
	return slices.ContainsFunc(n.GetPods(), func(p fwk.PodInfo) bool { return c.KeptOffBy(p.GetPod()) })
}

// TestMemoryOfANodeThatWasLeftOut: an answer beside a pod is not used for the node alone, even after a question without the node.
func TestMemoryOfANodeThatWasLeftOut(t *testing.T) {
	c := newCluster(t)
	c.setNode(node("n", "4").Obj())
	nodes := c.list()
	m := fit.NewMemory(c)
	count := func(nodes []fwk.NodeInfo, beside map[int]fit.Pods) int {
		counter, err := fit.NewCounter(t.Context(), c, pod("m").Req(cpu("2")).Obj())
		require.NoError(t, err)
		return int(m.Count(t.Context(), counter, nodes, beside).Slots[0])
	}
	other := infos(t, []*v1.Pod{pod("other").Req(cpu("3")).Obj()})
	require.Equal(t, 0, count(nodes, map[int]fit.Pods{0: other}))
	require.Equal(t, 0, count([]fwk.NodeInfo{nil}, nil))
	require.Equal(t, 2, count(nodes, nil))
}

// moved says whether a node that was there before is at another index.
func (h *history) moved(nodes []fwk.NodeInfo) (moved bool) {
	now := map[string]int{}
	for i, n := range nodes {
		if n != nil {
			was, ok := h.at[n.Node().Name]
			moved = moved || ok && was != i
			now[n.Node().Name] = i
		}
	}
	h.at = now
	return moved
}

// TestPortsOfInitContainers: a port of an init container, which ends, is not one that
// members compete for, and the two kinds of pod are not one template.
func TestPortsOfInitContainers(t *testing.T) {
	c := newCluster(t)
	c.setNode(node("n", "8").Obj())
	c.addPod(pod("there").Node("n").HostPort(80).Obj())
	main := pod("m").Req(cpu("1")).HostPort(80).Obj()
	begins := pod("m").Req(cpu("1")).Obj()
	begins.Spec.InitContainers = []v1.Container{{Name: "init", Ports: []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}}}
	m := fit.NewMemory(c)
	for _, want := range []struct {
		pod   *v1.Pod
		slots offer.Slots
	}{{main, 0}, {begins, 8}, {main, 0}} {
		counter, err := fit.NewCounter(t.Context(), c, want.pod)
		require.NoError(t, err)
		require.Equal(t, want.slots, m.Count(t.Context(), counter, c.list(), nil).Slots[0])
	}
}

// TestMemoryOfManyTemplates: gangs that ask for different things are tried in turn, again and again. With one template too few
// remembered the Filters would run for all of them each time.
func TestMemoryOfManyTemplates(t *testing.T) {
	c := newCluster(t)
	c.setNode(node("n", "4").Obj())
	nodes := c.list()
	m := fit.NewMemory(c)
	round := func() int64 {
		before := fit.FilterRuns()
		for i := range 200 {
			counter, err := fit.NewCounter(t.Context(), c,
				pod("m").Req(map[v1.ResourceName]string{v1.ResourceCPU: fmt.Sprintf("%dm", 1000+i)}).Obj())
			require.NoError(t, err)
			m.Count(t.Context(), counter, nodes, nil)
		}
		return fit.FilterRuns() - before
	}
	require.NotZero(t, round())
	require.Zero(t, round(), "nothing has changed")
}
