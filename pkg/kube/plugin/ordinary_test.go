package plugin

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// TestOrdinaryPreemption: whom an ordinary pod of priority 100 that needs a whole node of
// 8 CPUs evicts. Gangs have priority 10.
func TestOrdinaryPreemption(t *testing.T) {
	on := func(priority int32, cpus string, nodes ...string) (pods []*v1.Pod) {
		for _, n := range nodes {
			pods = append(pods, a("", priority, cpus, n))
		}
		return pods
	}
	for name, test := range map[string]struct {
		nodes   string
		given   func(c *testCluster)
		cpus    string
		evicted string
		node    string // "" if there is nobody to evict
	}{
		"a gang that cannot spare anybody is left alone": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testCluster) {
				c.gang("g", 2, on(10, "8", "n0", "n1")...)
				c.pod(a("single", 10, "8", "n2"))
			}, "8", "single", "n2",
		},
		"a spare member is a victim like any other": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testCluster) {
				c.gang("g", 2, append(on(10, "8", "n0", "n1"), younger(a("", 10, "8", "n2")))...)
			}, "8", "g-2", "",
		},
		"of two on a node only one can be spared": {
			"s/b/n0=8 s/b/n1=8", func(c *testCluster) {
				c.gang("g", 2, append(on(10, "4", "n0", "n0"), younger(a("", 10, "4", "n1")))...)
				c.pod(a("single", 10, "8", "n1")) // over the node's size, but it runs
			}, "8", "g-2 single", "n1",
		},
		"where nobody else is, the whole gang leaves": {
			"s/b/n0=8 s/b/n1=8", func(c *testCluster) {
				c.gang("g", 2, on(10, "8", "n0", "n1")...)
			}, "8", "g-0 g-1", "",
		},
		"whole, it is dearer than two others": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8", func(c *testCluster) {
				c.gang("g", 3, on(10, "8", "n0", "n1", "n2")...)
				c.pod(a("x", 10, "4", "n3"))
				c.pod(a("y", 10, "4", "n3"))
			}, "8", "x y", "n3",
		},
		"whole, it is no better than as many others": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testCluster) {
				c.gang("g", 2, younger(a("", 10, "8", "n0")), younger(a("", 10, "8", "n1")))
				c.pod(a("x", 10, "4", "n2"))
				c.pod(a("y", 10, "4", "n2"))
			}, "8", "x y", "n2",
		},
		"as ever, less important ones come first": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testCluster) {
				c.gang("g", 2, on(10, "8", "n0", "n1")...)
				c.pod(a("single", 11, "8", "n2"))
			}, "8", "g-0 g-1", "",
		},
		"with those who leave anyway nobody else need": {
			"s/b/n0=8", func(c *testCluster) {
				c.gang("g", 2, on(10, "2", "n0", "n0", "n0")...)
				c.pod(a("x", 9, "2", "n0"))
			}, "6", "g-0 g-1 g-2", "n0",
		},
		"one member is too important for the whole to leave": {
			"s/b/n0=8 s/b/n1=8", func(c *testCluster) {
				c.gang("g", 2, append(on(10, "8", "n0"), on(100, "8", "n1")...)...)
			}, "8", "", "",
		},
		"nobody evicts a protected pod": {
			"s/b/n0=8", func(c *testCluster) {
				p := a("single", 10, "8", "n0")
				p.Labels = map[string]string{scheduling.LabelDisablePreemptible: "true"}
				c.pod(p)
			}, "8", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestCluster(t, test.nodes)
			test.given(c)
			c.run()
			c.pod(a("high", 100, test.cpus, ""))
			if test.evicted == "" {
				c.never(func() bool { return c.evicted() != "" })
				return
			}
			c.wait("bound", func() string {
				if node := c.get("high").Spec.NodeName; node != "" && (test.node == "" || node == test.node) {
					return "bound"
				}
				return c.where("high")
			})
			c.wait(test.evicted, c.evicted)
		})
	}
}

// younger makes a pod one that has just begun to run.
func younger(p *v1.Pod) *v1.Pod {
	p.Status.StartTime = &metav1.Time{Time: time.Unix(2000, 0)}
	return p
}

// TestOrdinaryPreemptionTwice: a gang can spare one, and two pods look for victims before
// anybody is seen leaving.
func TestOrdinaryPreemptionTwice(t *testing.T) {
	c := newTestCluster(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	c.gang("g", 2, a("", 10, "8", "n0"), a("", 10, "8", "n1"), younger(a("", 10, "8", "n2")))
	c.pod(a("single", 10, "8", "n3"))
	c.run()
	goOn := c.holdEvictions(&c.plugin.ordinary.stock.Executor.PreemptPod)
	c.pod(a("high-0", 100, "8", ""))
	c.pod(a("high-1", 100, "8", ""))
	c.wait("high-0>n2 high-1>n3", func() string {
		if where := c.where("high-1", "high-0"); where == "high-1>n2 high-0>n3" {
			return "high-0>n2 high-1>n3"
		}
		return c.where("high-0", "high-1")
	})
	goOn()
	c.wait("g-2 single", c.evicted)
	c.wait("g-0=n0 g-1=n1 g-2 gone single gone", func() string { return c.where("g-0", "g-1", "g-2", "single") })
}

// TestOrdinaryPreemptionOfAnyProfile: gangs are safe from pods of a profile, too, that
// does not run our PostFilter.
func TestOrdinaryPreemptionOfAnyProfile(t *testing.T) {
	c := newTestCluster(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.config = testConfig + `
- schedulerName: default-scheduler
  plugins: {postFilter: {disabled: [{name: Coscheduling}]}}
`
	c.gang("g", 2, younger(a("", 10, "8", "n0")), younger(a("", 10, "8", "n1")))
	c.pod(a("single", 10, "8", "n2"))
	c.run()
	high := a("high", 100, "8", "")
	high.Spec.SchedulerName = "default-scheduler"
	c.pod(high)
	c.wait("high=n2", func() string { return c.where("high") })
	require.Equal(t, "single", c.evicted())
}

// TestOrdinaryPreemptionOfWaiting: members that wait in Permit for the last one go back to
// the queue, and none is deleted: the first takes the others along, for whom the executor
// comes nevertheless.
func TestOrdinaryPreemptionOfWaiting(t *testing.T) {
	const size = 8
	c := newTestCluster(t, "s/b/n0=8 s/b/n1=8")
	c.run()
	var names []string
	c.gang("g", size, append(pending(size-1, 10, "2"), held(a("", 10, "2", ""), "outside"))...)
	for i := range size - 1 {
		names = append(names, fmt.Sprintf("g-%d", i))
	}
	c.waitHeld(names...)
	evict := &c.plugin.ordinary.stock.Executor.PreemptPod
	do, first := *evict, make(chan struct{}, 1)
	first <- struct{}{}
	*evict = func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		select {
		case <-first:
		default: // so late that it is back already
			c.within(waitFor, func() bool { return c.plugin.handle.GetWaitingPod(victim.UID) == nil })
		}
		return do(ctx, to, by, victim, plugin)
	}
	c.pod(a("high", 100, "8", ""))
	c.wait("bound", func() string {
		if c.get("high").Spec.NodeName != "" {
			return "bound"
		}
		return c.where("high")
	})
	c.wait("none", func() string {
		for _, name := range names {
			if c.plugin.handle.GetWaitingPod(types.UID(name)) != nil {
				return name
			}
		}
		return "none"
	})
	c.never(func() bool { return c.evicted() != "" })
	for _, name := range names {
		require.Empty(t, c.get(name).Spec.NodeName, c.describe())
	}
}

// TestMembersThatLeaveTheirGang: pods that were kept out for their gang are tried when
// they no longer name one.
func TestMembersThatLeaveTheirGang(t *testing.T) {
	c := newTestCluster(t, "s/b/n=8").run()
	c.gang("g", 3, of(2, func() *v1.Pod { return a("", 0, "1", "") })...)
	c.wait("kept out", func() string {
		if ok, why := c.plugin.Cache.Admit(c.get("g-0")); !ok && why == "2 of 3 members exist" {
			return "kept out"
		}
		return ""
	})
	for _, name := range []string{"g-0", "g-1"} {
		p := c.get(name).DeepCopy()
		p.Labels, p.ResourceVersion = nil, "2"
		require.NoError(t, c.client.Tracker().Update(podsResource, p, "default"))
	}
	c.wait("g-0=n g-1=n", func() string { return c.where("g-0", "g-1") })
}
