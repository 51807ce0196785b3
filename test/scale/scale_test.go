// Package scale measures what a large cluster costs: the tree, the plan, the slots and the
// book of gangs, each with one number changing at a time. docs/measurements/scale.md has the figures.
//
// The base point is 15,000 nodes in 8 layers with 100 pods on each, and 10,000 members.
// Names of benchmarks hold the sizes, as in nodes=15000, for test/scale/growth to read.
package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// The base point, around which one number changes at a time.
const (
	baseNodes  = 15_000
	baseLayers = 8
	basePods   = 100
)

// below is how many nodes a domain holds, from the lowest layer up.
var below = [...]int{8, 32, 128, 512, 1024, 2048, 4096, 8192}

// network is a cluster with nodes that are labelled at so many layers, and the names of the layers from the top down.
// With fewer layers the upper ones are missing. The nodes are in no order, as in the cache.
func network(nodes, layers int) (names []string, list []topology.Node) {
	for l := layers; l > 0; l-- {
		names = append(names, fmt.Sprint("layer-", l))
	}
	for i := range nodes {
		n := topology.Node{Name: fmt.Sprint("node-", i)}
		for l := layers; l > 0; l-- {
			n.Path = append(n.Path, fmt.Sprintf("d%d-%d", l, i/below[l-1]))
		}
		list = append(list, n)
	}
	shuffle(list)
	return names, list
}

// shuffle gives the same order each time.
func shuffle[T any](list []T) {
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// slots of a node: 0 to 8.
func slots(node int) int { return node * 2654435761 % 1009 % 9 }

// kept is what making something leaves in memory.
func kept[T any](do func() T) float64 {
	before := heap()
	v := do()
	size := heap() - before
	runtime.KeepAlive(v)
	return size
}

// heap is what is in use. It collects twice: what pools hold goes only the second time.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkTree builds the tree, as is done after a node came, went or changed labels.
func BenchmarkTree(b *testing.B) {
	for _, c := range []struct{ nodes, layers int }{
		{1000, baseLayers},
		{4000, baseLayers},
		{60_000, baseLayers},
		{baseNodes, 1},
		{baseNodes, 2},
		{baseNodes, 4},
		{baseNodes, baseLayers},
	} {
		names, nodes := network(c.nodes, c.layers)
		size := kept(func() *topology.Tree { return topology.Build(names, nodes) })
		b.Run(fmt.Sprintf("nodes=%d/layers=%d", c.nodes, c.layers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				topology.Build(names, nodes)
			}
			b.ReportMetric(size/float64(c.nodes), "kept-B/node")
		})
	}
}

// BenchmarkChange updates a tree after some nodes have moved to another lowest domain. Muster does so before a plan when
// nodes come, go or change labels, instead of building a new tree as BenchmarkTree does.
func BenchmarkChange(b *testing.B) {
	for _, c := range []struct{ nodes, moved int }{
		{1000, 1}, {5000, 1}, {60_000, 1}, {baseNodes, 1}, {baseNodes, 10}, {baseNodes, 100}, {baseNodes, 1000},
	} {
		names, nodes := network(c.nodes, baseLayers)
		tree := topology.Build(names, nodes)
		var gone []int
		var come []topology.Node
		for k := range c.moved { // the nodes are in no order
			moved := nodes[k]
			i, _ := tree.NodeIndex(moved.Name)
			moved.Path = nodes[len(nodes)-1-k].Path
			gone, come = append(gone, i), append(come, moved)
		}
		b.Run(fmt.Sprintf("nodes=%d/layers=%d/moved=%d", c.nodes, baseLayers, c.moved), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tree.Change(gone, come)
			}
		})
	}
}

// BenchmarkStatus lists the domains for the status of the ClusterNetworkTopology, which is
// one object: the API server's store takes 1.5 MiB. It ends above the layers for which there is no room.
func BenchmarkStatus(b *testing.B) {
	for _, nodes := range []int{1000, 4000, baseNodes, 60_000} {
		names, list := network(nodes, baseLayers)
		tree := topology.Build(names, list)
		b.Run(fmt.Sprintf("nodes=%d/layers=%d", nodes, baseLayers), func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				details, _, _ := convert.DetailStatus(tree, 1<<20)
				out, err := json.Marshal(details)
				require.NoError(b, err)
				size = len(out)
			}
			b.ReportMetric(float64(size), "object-B")
		})
	}
}

// requests are three ways to ask for a place in a tree of so many layers.
func requests(layers int) map[string]plan.Request {
	all := plan.Request{}
	for l := range layers {
		all.Prefer = append(all.Prefer, plan.Preference{Layer: l + 1})
	}
	return map[string]plan.Request{
		"must":   {Must: 2},
		"prefer": {Prefer: plan.PreferGather(2, layers)}, // one near the top, and the lowest
		"all":    all,
	}
}

func planWorld(nodes, layers int) plan.World {
	names, list := network(nodes, layers)
	w := plan.World{Tree: topology.Build(names, list)}
	for i := range nodes {
		w.Free = append(w.Free, offer.Slots(slots(i)))
	}
	return w
}

// BenchmarkPlan chooses the places of a gang where the slots are known.
func BenchmarkPlan(b *testing.B) {
	for _, nodes := range []int{1000, 4000, baseNodes, 60_000} {
		w := planWorld(nodes, baseLayers)
		members := []int{1000}
		if nodes == baseNodes {
			members = []int{10, 100, 1000, 10_000}
		}
		for _, name := range []string{"must", "prefer", "all"} {
			r := requests(baseLayers)[name]
			for _, n := range members {
				b.Run(fmt.Sprintf("request=%s/nodes=%d/layers=%d/members=%d", name, nodes, baseLayers, n), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						choose(b, w, r, n)
					}
				})
			}
		}
	}
}

func choose(t testing.TB, w plan.World, r plan.Request, members int) {
	r.Want, r.Min = offer.Slots(members), offer.Slots(members)
	if p, refusal := plan.Choose(w, r); refusal != nil || p.Count() != r.Want {
		t.Fatal("no plan: ", refusal)
	}
}

// BenchmarkEvict finds the cheapest victims that free capacity for a gang, below one domain of the second layer. Each
// node is full: eight pods of one size and ten priorities.
func BenchmarkEvict(b *testing.B) {
	for _, c := range []struct{ nodes, members int }{
		{1000, 1000}, {4000, 1000}, {60_000, 1000}, {60_000, 10_000}, {baseNodes, 100}, {baseNodes, 1000}, {baseNodes, 10_000},
	} {
		w, nodes := full(c.nodes)
		r := plan.Request{Want: offer.Slots(c.members), Min: offer.Slots(c.members), Must: 2, Prefer: plan.PreferGather(baseLayers)}
		b.Run(fmt.Sprintf("nodes=%d/layers=%d/members=%d", c.nodes, baseLayers, c.members), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if e := evict.Cheapest(evict.Problem{World: w, Request: r, Nodes: nodes}); e.Plan == nil || e.Plan.Count() != r.Want {
					b.Fatal("no eviction")
				}
			}
		})
	}
}

func full(nodes int) (plan.World, []evict.RawNode) {
	names, list := network(nodes, baseLayers)
	out := make([]evict.RawNode, nodes)
	for i := range out {
		for v := range 8 {
			n := (i*8 + v) * 2654435761 % 1009
			out[i].Victims = append(out[i].Victims, evict.Victim{
				Name: fmt.Sprint(v), Priority: int32(n % 10), Started: int64(n), Shape: "pod",
			})
		}
		out[i].Slots = func(gone []int) offer.Slots { return offer.Slots(len(gone)) }
	}
	return plan.World{Tree: topology.Build(names, list)}, out
}

// cluster is kube-scheduler with its default profile, all plugins, and its cache full of
// nodes with eight GPUs and of small pods.
type cluster struct {
	*scheduler.Scheduler
	profile framework.Framework
	nodes   int
	pods    int     // on each node
	turn    int     // counts changes
	heap    float64 // what the heap held before it
	loose   map[int]*v1.Pod
}

const gpu = "nvidia.com/gpu"

func newCluster(t testing.TB, nodes int) *cluster {
	t.Helper()
	metrics.Register()
	before := heap()
	client := fake.NewClientset()
	sched, err := scheduler.New(t.Context(), client, scheduler.NewInformerFactory(client, 0, nil), nil,
		func(string) events.EventRecorderLogger { return events.NewFakeRecorder(0) },
		scheduler.WithPercentageOfNodesToScore(new(int32(100))))
	require.NoError(t, err)
	c := &cluster{Scheduler: sched, profile: sched.Profiles["default-scheduler"], nodes: nodes, heap: before, loose: map[int]*v1.Pod{}}
	for i := range nodes {
		c.Cache.AddNode(klog.Background(), st.MakeNode().Name(nodeName(i)).Label("kubernetes.io/hostname", nodeName(i)).
			Capacity(map[v1.ResourceName]string{"cpu": "128", "memory": "1Ti", "pods": "250", gpu: "8"}).Obj())
	}
	return c
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

// fill puts pods on each node until there are so many. The first one takes GPUs, so that
// there are 0 to 8 free. Little is collected meanwhile, which is most of what it would take.
func (c *cluster) fill(t testing.TB, pods int) {
	t.Helper()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(6 << 30))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var kinds []*v1.Pod
	for cpu := range 7 {
		kinds = append(kinds, small(map[v1.ResourceName]string{"cpu": fmt.Sprint(100+50*cpu, "m"), "memory": "256Mi"}))
	}
	var first []*v1.Pod
	for free := range 9 {
		first = append(first, small(map[v1.ResourceName]string{"cpu": "1", "memory": "1Gi", gpu: fmt.Sprint(8 - free)}))
	}
	for i := range c.nodes {
		for k := c.pods; k < pods; k++ {
			like := kinds[(i+k)%len(kinds)]
			if k == 0 {
				like = first[slots(i)]
			}
			p := *like // containers and labels are shared: a million pods are to fit here
			p.Name = fmt.Sprintf("pod-%d-%d", i, k)
			p.UID, p.Spec.NodeName = types.UID(p.Name), nodeName(i)
			require.NoError(t, c.Cache.AddPod(klog.Background(), &p))
		}
	}
	c.pods = pods
}

func small(need map[v1.ResourceName]string) *v1.Pod {
	return st.MakePod().Namespace("ns").Name("p").Label("app", "a").Req(need).Obj()
}

// change starts a pod on one node in a hundred, or ends the one that was started there.
func (c *cluster) change(t testing.TB) {
	t.Helper()
	for i := c.turn % 100; i < c.nodes; i += 100 {
		if p := c.loose[i]; p != nil {
			require.NoError(t, c.Cache.RemovePod(klog.Background(), p))
			delete(c.loose, i)
			continue
		}
		p := small(map[v1.ResourceName]string{"cpu": "500m"})
		p.Name = fmt.Sprint("loose-", i)
		p.UID, p.Spec.NodeName = types.UID(p.Name), nodeName(i)
		require.NoError(t, c.Cache.AddPod(klog.Background(), p))
		c.loose[i] = p
	}
	c.turn++
}

// list brings the snapshot up to date and returns its nodes.
func (c *cluster) list(t testing.TB) []fwk.NodeInfo {
	t.Helper()
	snapshot, ok := c.profile.SnapshotSharedLister().(*internalcache.Snapshot)
	require.True(t, ok)
	require.NoError(t, c.Cache.UpdateSnapshot(klog.Background(), snapshot))
	nodes, err := snapshot.NodeInfos().List()
	require.NoError(t, err)
	return nodes
}

// member of a gang: one GPU.
func member() *v1.Pod {
	return small(map[v1.ResourceName]string{"cpu": "2", "memory": "16Gi", gpu: "1"})
}

// count does what is done for a gang that is planned, and returns how many slots there are.
func (c *cluster) count(ctx context.Context, t testing.TB, m *fit.Memory, list []fwk.NodeInfo) (sum int) {
	t.Helper()
	counter, err := fit.NewCounter(ctx, c.profile, member())
	require.NoError(t, err)
	for _, n := range m.Count(ctx, counter, list, nil).Slots {
		sum += int(n)
	}
	return sum
}

// BenchmarkFit counts the slots of a gang's template on every node. It does so when nothing is known, when one node in a
// hundred has changed since, and when none has. Two more figures are beside it. One is a whole cycle of the stock
// scheduler for one pod, which filters and scores every node. The other is what the scheduler's cache and snapshot keep.
func BenchmarkFit(b *testing.B) {
	for _, nodes := range []int{1000, 4000, baseNodes} {
		c := newCluster(b, nodes)
		pods := []int{basePods}
		if nodes == baseNodes {
			pods = []int{0, 10, basePods} // of the same cluster, which fills up
		}
		for _, n := range pods {
			c.fill(b, n)
			c.first(b)
		}
		c.again(b)
	}
}

// BenchmarkTemplates asks of every member of a gang what it needs, as is done before slots
// are counted: members that need the same are counted once. It is found out when a pod is first seen (seen),
// and kept with the pod: each plan asks for what is kept (planned).
func BenchmarkTemplates(b *testing.B) {
	for _, members := range []int{100, 1000, 10_000} {
		var pods []*v1.Pod
		for i := range members {
			p := member()
			p.Name = fmt.Sprint("pod-", i)
			p.Labels[scheduling.LabelPodGroup] = "gang"
			pods = append(pods, p)
		}
		run := func(phase string, do func(kinds map[any]bool)) {
			b.Run(fmt.Sprintf("phase=%s/members=%d", phase, members), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					kinds := map[any]bool{}
					if do(kinds); len(kinds) != 1 {
						b.Fatal("members differ")
					}
				}
			})
		}
		run("seen", func(kinds map[any]bool) {
			for _, p := range pods {
				kinds[convert.Template(p)] = true
			}
		})
		c, seen := watching(b, pods)
		run("planned", func(kinds map[any]bool) {
			for _, t := range c.Templates(seen) {
				kinds[t] = true
			}
		})
	}
}

// watching is a cache that has seen some pods, and these as it has seen them.
func watching(t testing.TB, pods []*v1.Pod) (c *cache.Cache, seen []*v1.Pod) {
	t.Helper()
	c = cache.New(cache.Options{
		Limits: cache.Limits{Wait: time.Minute, Policy: gang.OnceSatisfied}, Clock: clock.RealClock{}, Leading: func() bool { return true },
		Do: func([]gang.Effect) {}, Note: func(cache.Note) {},
	})
	c.Serve(pods[0].Spec.SchedulerName)
	client := fake.NewClientset()
	for _, p := range pods {
		require.NoError(t, client.Tracker().Add(p))
	}
	core := informers.NewSharedInformerFactory(client, 0)
	require.NoError(t, c.Start(klog.NewContext(t.Context(), klog.Logger{}),
		cache.Source{Core: core, Served: func(schema.GroupVersionResource) (bool, error) { return false, nil }}))
	core.StartWithContext(t.Context())
	require.Eventually(t, c.Open, time.Minute, time.Millisecond)
	for _, p := range pods {
		seen = append(seen, c.Pod(convert.PodKey(p)))
	}
	return c, seen
}

func (c *cluster) run(b *testing.B, phase string, do func(*testing.B)) {
	b.Run(fmt.Sprintf("phase=%s/nodes=%d/pods=%d", phase, c.nodes, c.pods), func(b *testing.B) {
		b.ReportAllocs()
		do(b)
	})
}

func (c *cluster) first(b *testing.B) {
	list := c.list(b)
	c.count(b.Context(), b, fit.NewMemory(c.profile), list) // what is made once for the profile
	whole := heap() - c.heap
	size := kept(func() *fit.Memory {
		m := fit.NewMemory(c.profile)
		c.count(b.Context(), b, m, list)
		return m
	})
	c.run(b, "first", func(b *testing.B) {
		for b.Loop() {
			c.count(b.Context(), b, fit.NewMemory(c.profile), list)
		}
		b.ReportMetric(size/float64(c.nodes), "kept-B/node")
		b.ReportMetric(whole/float64(c.nodes), "scheduler-B/node")
	})
}

func (c *cluster) again(b *testing.B) {
	m := fit.NewMemory(c.profile)
	c.run(b, "hundredth", func(b *testing.B) {
		c.count(b.Context(), b, m, c.list(b))
		for b.Loop() {
			b.StopTimer()
			c.change(b)
			list := c.list(b)
			b.StartTimer()
			c.count(b.Context(), b, m, list)
		}
	})
	c.run(b, "none", func(b *testing.B) {
		list := c.list(b)
		c.count(b.Context(), b, m, list)
		for b.Loop() {
			c.count(b.Context(), b, m, list)
		}
	})
	c.run(b, "stock", func(b *testing.B) {
		c.list(b)
		info, err := framework.NewPodInfo(member())
		require.NoError(b, err)
		for b.Loop() {
			_, err := c.SchedulePod(b.Context(), c.profile, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
			require.NoError(b, err)
		}
	})
}

// life is a gang from the first word of it to the last.
type life struct {
	book    *gang.Book
	spec    gang.Spec
	members []gang.Member // in the order in which they come and go
	plan    gang.Planned
	now     time.Time // of the virtual clock
}

func newLife(members int) *life {
	spec := gang.Spec{
		Ref: gang.Ref{Source: "podgroup", Namespace: "ns", Name: "gang"}, Min: members, Wait: time.Minute, Policy: gang.OnceSatisfied,
	}
	l := &life{spec: spec, now: time.Unix(0, 0)}
	l.plan.Group = l.spec.Ref
	for i := range members {
		m := gang.Member{Gang: l.spec.Ref, Pod: fmt.Sprint("ns/pod-", i), UID: fmt.Sprint("uid-", i), Rank: gang.NoRank}
		l.members = append(l.members, m)
		l.plan.Places = append(l.plan.Places, gang.Assignment{Pod: m.Pod, Node: nodeName(i / 8)})
	}
	shuffle(l.members)
	return l
}

func (l *life) apply(ev gang.Event) []gang.Effect { return l.book.Apply(ev, l.now) }

// begin takes a new book to where the gang has its plan.
func (l *life) begin() {
	l.book = gang.New(topology.CompareNames)
	l.apply(gang.Declared{Spec: l.spec})
	for _, m := range l.members {
		l.apply(gang.Seen{Member: m})
	}
	l.admit()
	l.apply(l.plan)
}

func (l *life) admit() {
	for _, m := range l.members {
		l.book.Admit(m.Pod)
	}
}

// end goes on until no pod is left, and returns how many were allowed to bind.
func (l *life) end() (allowed int) {
	l.admit()
	for _, m := range l.members {
		l.apply(gang.Assumed{Pod: m.Pod})
		for _, e := range l.apply(gang.Held{Pod: m.Pod}) {
			if e.Verb == gang.Allow {
				allowed++
			}
		}
	}
	for _, m := range l.members {
		m.Node = "node"
		l.apply(gang.Seen{Member: m})
	}
	for _, m := range l.members {
		l.apply(gang.MemberDeleted{Pod: m.Pod, UID: m.UID})
	}
	return allowed
}

// BenchmarkBook is the whole life of one gang in the book.
func BenchmarkBook(b *testing.B) {
	for _, members := range []int{100, 1000, 10_000} {
		l := newLife(members)
		size := kept(func() *life { l.begin(); return l })
		b.Run(fmt.Sprint("members=", members), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.begin()
				if n := l.end(); n != members {
					b.Fatalf("%d of %d may bind", n, members)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*members), "ns/member")
			b.ReportMetric(size/float64(members), "kept-B/member")
		})
	}
}

// TestBenchmarksRun runs each benchmark once, on small clusters.
func TestBenchmarksRun(t *testing.T) {
	names, nodes := network(100, baseLayers)
	require.Len(t, names, baseLayers)
	require.Equal(t, 100, topology.Build(names, nodes).NumNodes())
	w := planWorld(1000, baseLayers)
	for _, r := range requests(baseLayers) {
		choose(t, w, r, 1000)
	}
	l := newLife(100)
	l.begin()
	require.Equal(t, 100, l.end())

	c := newCluster(t, 200)
	m := fit.NewMemory(c.profile)
	require.Equal(t, 8*200, c.count(t.Context(), t, m, c.list(t)))
	c.fill(t, 10)
	want := 0
	for i := range c.nodes {
		want += slots(i)
	}
	require.Equal(t, want, c.count(t.Context(), t, m, c.list(t)))
	c.change(t)
	require.Equal(t, want, c.count(t.Context(), t, m, c.list(t)))
}
