package preempt_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// terms returns one term about pods of an app.
func terms(of, layer string) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": of}}, TopologyKey: layer}}
}

// repels keeps pods of an app out of the pod's domain of a layer.
func repels(of, layer string, p *v1.Pod) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(of, layer)}}
	return p
}

// near requires a pod of an app in the pod's domain of a layer.
func near(of, layer string, p *v1.Pod) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(of, layer)}}
	return p
}

// want returns n pending members of one app.
func want(n int, cpus string, are func(*v1.Pod) *v1.Pod) []*v1.Pod {
	return testcluster.Of(n, func() *v1.Pod { return are(app(a("", 100, cpus, ""), "want")) })
}

// Pod affinity makes the capacity of a node depend on pods on other nodes. The test shows the victims of such a gang.
func TestInterdependentMembersPreemptAcrossNodes(t *testing.T) {
	plain := func(p *v1.Pod) *v1.Pod { return p }
	apart := func(p *v1.Pod) *v1.Pod { return repels("want", "block", p) }
	seeks := func(cpus string) *v1.Pod { return near("data", v1.LabelHostname, app(a("", 100, cpus, ""), "want")) }
	const noHelp, noVictims = "preemption is not helpful for scheduling", "no potential victims"
	const repelled = "not every set of victims was tried"
	for name, test := range map[string]struct {
		nodes  string
		wants  []*v1.Pod
		given  func(c *testcluster.Cluster)
		evicts string
	}{
		"a pod that repels all members from its block": {"s/b/n0=4 s/b/n1=4", want(2, "4", plain), func(c *testcluster.Cluster) {
			c.Pod(repels("want", "block", a("guard", 10, "1", "n0")))
		}, repelled},
		"that pod is more important": {"s/b/n0=4 s/b/n1=4", want(2, "4", plain), func(c *testcluster.Cluster) {
			c.Pod(repels("want", "block", a("guard", 200, "1", "n0")))
			c.Pod(a("x", 10, "1", "n1"))
		}, noHelp},
		"that pod repels other pods": {"s/b/n0=4 s/b/n1=4", want(2, "4", plain), func(c *testcluster.Cluster) {
			c.Pod(repels("others", "block", a("guard", 10, "1", "n0")))
			c.Pod(a("x", 10, "1", "n1"))
		}, "guard x for want-0=n0 want-1=n1"},
		"a gang, for members apart": {"s/b/n0=4 s/c/n1=4", want(2, "4", apart), func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "1", "n1"), a("", 10, "1", "n1"))
		}, "g-0 g-1 for want-0=n0 want-1=n1"},
		"a pod rather than a gang of two": {"s/b/n0=4 s/c/n1=4 s/d/n2=4", want(2, "4", apart), func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "1", "n1"), a("", 10, "1", "n1"))
			c.Pod(a("x", 20, "1", "n2"))
		}, "x for want-0=n0 want-1=n2"},
		"not a gang with a more important member": {"s/b/n0=4 s/c/n1=4", want(2, "4", apart), func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "1", "n1"), a("", 200, "1", "n0"))
		}, noVictims},
		"the spare member of a gang": {"s/b/n0=4 s/c/n1=4", want(2, "4", apart), func(c *testcluster.Cluster) {
			c.Gang("g", 1, a("", 10, "4", "n0"), a("", 10, "0", "n1"))
		}, "g-0 for want-0=n0 want-1=n1"},
		"the spare member of a gang that is in the way": {"s/b/n0=4 s/c/n1=4 s/d/n2=4", want(2, "4", apart), func(c *testcluster.Cluster) {
			c.Pod(a("x", 200, "3", "n2"))
			c.Gang("g", 1, a("", 10, "1", "n2"), a("", 10, "4", "n1"), a("", 10, "0", "n2"))
		}, "g-1 for want-0=n0 want-1=n1"},
		"a pod on none of the nodes": {"s/b/n0=4 s/c/n1=4 s/c/n2=4", want(2, "4", apart), func(c *testcluster.Cluster) {
			c.Pod(repels("want", "block", a("leader", 10, "1", "n2")))
			c.Pod(a("x", 200, "3", "n2"))
		}, "leader for want-0=n0 want-1=n1"},
		"not the pod that members must be near": {"s/b/n0=4", want(1, "2",
			func(p *v1.Pod) *v1.Pod { return near("data", v1.LabelHostname, p) }), func(c *testcluster.Cluster) {
			c.Pod(app(a("data", 10, "1", "n0"), "data"))
			c.Pod(a("x", 10, "3", "n0"))
		}, "x for want-0=n0"},
		"all such pods but one": {"s/b/n0=4", want(1, "2",
			func(p *v1.Pod) *v1.Pod { return near("data", v1.LabelHostname, p) }), func(c *testcluster.Cluster) {
			c.Pod(app(a("small", 10, "1", "n0"), "data"))
			c.Pod(app(a("large", 20, "3", "n0"), "data"))
		}, "large for want-0=n0"},
		"all such pods on two nodes but one": {"s/b/n0=8 s/c/n1=8", []*v1.Pod{
			app(a("", 100, "8", ""), "want"), seeks("4"),
		}, func(c *testcluster.Cluster) {
			c.Pod(app(a("small", 10, "1", "n0"), "data"))
			c.Pod(app(a("large", 20, "4", "n1"), "data"))
		}, "small for want-0=n0 want-1=n1"},
		"not the gang with a pod that members must be near": {"s/b/n0=8 s/c/n1=8", []*v1.Pod{seeks("6")}, func(c *testcluster.Cluster) {
			c.Gang("g", 2, app(a("", 10, "1", "n0"), "data"), a("", 10, "1", "n1"))
			c.Pod(a("x", 20, "6", "n0"))
		}, "x for want-0=n0"},
		"a spare pod of such a gang": {"s/b/n0=12 s/c/n1=8", []*v1.Pod{seeks("8")}, func(c *testcluster.Cluster) {
			data := func(node string) *v1.Pod { return app(a("", 10, "4", node), "data") }
			c.Gang("g", 3, data("n1"), data("n1"), data("n0"), data("n0"))
		}, "g-2 for want-0=n0"},
		"spare members of a gang": {"s/b/n0=8 s/c/n1=4", []*v1.Pod{seeks("4"), app(a("", 100, "4", ""), "data")}, func(c *testcluster.Cluster) {
			c.Gang("g", 1, a("", 10, "4", "n1"), a("", 10, "4", "n0"), a("", 10, "4", "n0"))
		}, "g-1 g-2 for want-0=n0 want-1=n0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, test.nodes)
			test.given(c)
			c.GangWith(map[string]string{scheduling.AnnotationTopologySpec: testcluster.InOneSpine}, "want", len(test.wants), test.wants...)
			c.Run()
			gone, where, evicts := strings.Cut(test.evicts, " for want-")
			if !evicts {
				c.WaitSaid(1, test.evicts)
				require.Empty(t, c.Evicted())
				return
			}
			var names []string
			for _, p := range test.wants {
				names = append(names, p.Name)
			}
			c.Wait("want-"+where, func() string { return c.Where(names...) })
			require.Equal(t, gone, c.Evicted())
		})
	}
}

// A reservation waits for a victim that is on none of its nodes, and does not end.
func TestReservationWaitsForVictimOnOtherNode(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=4 s/c/n1=4 s/c/n2=4")
	c.Stay()
	c.Pod(repels("want", "block", a("leader", 10, "1", "n2")))
	c.Pod(a("x", 200, "3", "n2"))
	wants := want(2, "4", func(p *v1.Pod) *v1.Pod { return repels("want", "block", p) })
	c.GangWith(map[string]string{scheduling.AnnotationTopologySpec: testcluster.InOneSpine}, "want", 2, wants...)
	c.Run()
	c.Wait("want-0>n0 want-1>n1", func() string { return c.Where("want-0", "want-1") })
	c.Wait("leader", c.Evicted)
	for i := range 3 { // each new node makes the scheduler check the waiting gang
		c.Node(fmt.Sprintf("s/d/more%d=1", i))
		c.Never(func() bool { return len(c.Said("given up")) > 0 })
	}
	c.Release()
	c.Wait("want-0=n0 want-1=n1", func() string { return c.Where("want-0", "want-1") })
	require.Equal(t, "leader", c.Evicted())
}

// Workers must be in one block with their leader and evict pods from full nodes. There are many victim sets, and no
// victim of the chosen set could have stayed on its node.
func TestInterdependentMembersEvictNoNeedlessVictim(t *testing.T) {
	for seed := range 4 {
		t.Run(fmt.Sprint(seed+2), func(t *testing.T) {
			r := rand.New(rand.NewSource(int64(seed + 2)))
			var nodes []string
			blocks, each := 3+r.Intn(3), 3+r.Intn(3)
			for i := range blocks * each {
				nodes = append(nodes, fmt.Sprintf("s/b%d/n%d=8", i/each, i))
			}
			c := testcluster.New(t, strings.Join(nodes, " "))
			size, on := map[string]int{}, map[string]string{}
			for i := range nodes {
				for left := 8; left > 0; {
					name := fmt.Sprint("v", len(size))
					size[name], on[name] = min(left, 1+r.Intn(2)), fmt.Sprint("n", i)
					left -= size[name]
					c.Pod(a(name, int32(10+r.Intn(20)), fmt.Sprint(size[name]), on[name]))
				}
			}
			wants := []*v1.Pod{app(a("", 100, "2", ""), "leader")}
			for range 4 + r.Intn(4) {
				wants = append(wants, near("leader", "block", app(a("", 100, "3", ""), "worker")))
			}
			c.GangWith(map[string]string{scheduling.AnnotationTopologySpec: testcluster.InOneSpine}, "want", len(wants), wants...)
			c.Run()
			used := map[string]int{}
			for i, p := range wants {
				require.True(t, c.Within(testcluster.WaitFor, func() bool { return c.Get(p.Name).Spec.NodeName != "" }), c.Describe())
				used[c.Get(p.Name).Spec.NodeName] += 2 + min(i, 1)
			}
			evicted := strings.Fields(c.Evicted())
			require.NotEmpty(t, evicted)
			for name := range size {
				if !slices.Contains(evicted, name) {
					used[on[name]] += size[name]
				}
			}
			for _, name := range evicted {
				require.Greater(t, used[on[name]]+size[name], 8, "%s could stay on %s", name, on[name])
			}
		})
	}
}

// fromLow keeps other members and pods of app low out of the member's block.
func fromLow(p *v1.Pod) *v1.Pod {
	required := &repels("want", "block", p).Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, terms("low", "block")...)
	return p
}

// A victim that members must be apart from is recreated. It is not placed on another node next to the reserved nodes,
// and is evicted only once.
func TestRecreatedVictimStaysOffReservedDomains(t *testing.T) {
	apart := func(p *v1.Pod) *v1.Pod { return repels("want", "block", p) }
	for name, test := range map[string]struct {
		wants []*v1.Pod
		comes func(c *testcluster.Cluster, name string) // first as "low", and again once "low" was evicted
		which string                                    // the suffix of its pod
	}{
		"a pod that keeps them off": {want(2, "4", apart), func(c *testcluster.Cluster, name string) {
			c.Pod(apart(a(name, 10, "1", map[bool]string{true: "n2"}[name == "low"])))
		}, ""},
		"a pod that they keep off": {want(2, "4", fromLow), func(c *testcluster.Cluster, name string) {
			c.Pod(app(a(name, 10, "1", map[bool]string{true: "n2"}[name == "low"]), "low"))
		}, ""},
		"a gang that they keep off": {want(2, "4", fromLow), func(c *testcluster.Cluster, name string) {
			c.Gang(name, 1, app(a("", 10, "1", map[bool]string{true: "n2"}[name == "low"]), "low"))
		}, "-0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, "s/b/n0=4 s/c/n1=4 s/c/n2=4 s/c/n3=1")
			c.Stay()
			test.comes(c, "low")
			c.Pod(a("x", 200, "3", "n2"))
			c.GangWith(map[string]string{scheduling.AnnotationTopologySpec: testcluster.InOneSpine}, "want", 2, test.wants...)
			c.Run()
			c.Wait("want-0>n0 want-1>n1", func() string { return c.Where("want-0", "want-1") })
			test.comes(c, "again")
			c.WaitSaid(1, "reserved for")
			c.Release()
			c.Wait("want-0=n0 want-1=n1", func() string { return c.Where("want-0", "want-1") })
			require.Equal(t, "low"+test.which, c.Evicted())
		})
	}
}

// A gang that a reservation keeps off a domain does not block another gang with the same requirements that the
// reservation does not keep off.
func TestGangKeptOffByReservationDoesNotBlockSimilarGang(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=4 s/c/n1=4 s/c/n2=4 s/c/n3=1")
	c.Stay()
	c.Pod(app(a("low", 10, "0", "n2"), "low"))
	c.Pod(a("x", 200, "4", "n2"))
	c.Pod(a("y", 200, "1", "n3"))
	c.GangWith(map[string]string{scheduling.AnnotationTopologySpec: testcluster.InOneSpine}, "want", 2, want(2, "4", fromLow)...)
	c.Run()
	c.Wait("want-0>n0 want-1>n1", func() string { return c.Where("want-0", "want-1") })
	c.Gang("again", 1, app(a("", 10, "1", ""), "low"))
	c.WaitSaid(1, "reserved for")
	c.Gang("other", 1, app(a("", 10, "1", ""), "others"))
	c.WaitSaid(1, "other-0 ")
	c.Remove("y")
	c.Wait("other-0=n3", func() string { return c.Where("other-0") })
}

// A reservation keeps the launcher of a gang off its block. The workers use the free nodes of that block, and no pod
// is evicted elsewhere for them.
func TestWorkersUseFreeNodesWhenLauncherIsKeptOff(t *testing.T) {
	plain := func(p *v1.Pod) *v1.Pod { return p }
	by := func(of string) func(*v1.Pod) *v1.Pod { return func(p *v1.Pod) *v1.Pod { return near(of, "spine", p) } }
	for name, are := range map[string]struct{ launcher, worker func(*v1.Pod) *v1.Pod }{
		"each by itself":            {plain, plain},
		"workers near the launcher": {plain, by("launcher")},
		"a launcher near workers":   {by("worker"), plain},
	} {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, "s/b1/n0=16 s/b1/n1=8 s/b1/n2=8 s/b0/n3=8 s/b0/n4=8 s/b0/n5=8")
			c.Stay()
			for node, cpus := range map[string]string{"n0": "16", "n4": "8", "n5": "8"} {
				c.Pod(a("low-"+node, 10, cpus, node))
			}
			c.Run()
			c.Gang("reserves", 1, repels("launcher", "block", a("", 1000, "16", "")))
			c.Wait("low-n0", c.Evicted)
			worker := func() *v1.Pod { return are.worker(app(a("", 500, "8", ""), "worker")) }
			c.Gang("want", 3, are.launcher(app(a("", 500, "8", ""), "launcher")), worker(), worker())
			on := make([]string, 3)
			all := func() bool {
				for i := range on {
					on[i] = c.Get(fmt.Sprint("want-", i)).Spec.NodeName
				}
				return !slices.Contains(on, "")
			}
			require.True(t, c.Within(testcluster.WaitFor, func() bool { return c.Evicted() != "low-n0" || all() }))
			require.Equal(t, "low-n0", c.Evicted())
			slices.Sort(on[1:])
			require.Equal(t, []string{"n3", "n1", "n2"}, on)
		})
	}
}
