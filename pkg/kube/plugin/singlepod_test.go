package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// Victims of a single pod of priority 100 that needs a whole node of 8 CPUs. Gangs have priority 10.
func TestOrdinaryPreemption(t *testing.T) {
	on := func(priority int32, cpus string, nodes ...string) (pods []*v1.Pod) {
		for _, n := range nodes {
			pods = append(pods, testcluster.A("", priority, cpus, n))
		}
		return pods
	}
	for name, test := range map[string]struct {
		nodes   string
		given   func(c *testcluster.Cluster)
		cpus    string
		evicted string
		node    string // "" if no pod is evicted
	}{
		"a gang that cannot spare anybody is left alone": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, on(10, "8", "n0", "n1")...)
				c.Pod(testcluster.A("single", 10, "8", "n2"))
			}, "8", "single", "n2",
		},
		"a spare member is a victim like any other": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, append(on(10, "8", "n0", "n1"), testcluster.Younger(testcluster.A("", 10, "8", "n2")))...)
			}, "8", "g-2", "",
		},
		"of two on a node only one can be spared": {
			"s/b/n0=8 s/b/n1=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, append(on(10, "4", "n0", "n0"), testcluster.Younger(testcluster.A("", 10, "4", "n1")))...)
				c.Pod(testcluster.A("single", 10, "8", "n1")) // over the node's size, but it runs
			}, "8", "g-2 single", "n1",
		},
		"without another victim the whole gang is evicted": {
			"s/b/n0=8 s/b/n1=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, on(10, "8", "n0", "n1")...)
			}, "8", "g-0 g-1", "",
		},
		"whole, it is dearer than two others": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8", func(c *testcluster.Cluster) {
				c.Gang("g", 3, on(10, "8", "n0", "n1", "n2")...)
				c.Pod(testcluster.A("x", 10, "4", "n3"))
				c.Pod(testcluster.A("y", 10, "4", "n3"))
			}, "8", "x y", "n3",
		},
		"whole, it is no better than as many others": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, testcluster.Younger(testcluster.A("", 10, "8", "n0")), testcluster.Younger(testcluster.A("", 10, "8", "n1")))
				c.Pod(testcluster.A("x", 10, "4", "n2"))
				c.Pod(testcluster.A("y", 10, "4", "n2"))
			}, "8", "x y", "n2",
		},
		"as ever, less important ones come first": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, on(10, "8", "n0", "n1")...)
				c.Pod(testcluster.A("single", 11, "8", "n2"))
			}, "8", "g-0 g-1", "",
		},
		"with terminating pods no other victim is needed": {
			"s/b/n0=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, on(10, "2", "n0", "n0", "n0")...)
				c.Pod(testcluster.A("x", 9, "2", "n0"))
			}, "6", "g-0 g-1 g-2", "n0",
		},
		"one member is too important for the whole to leave": {
			"s/b/n0=8 s/b/n1=8", func(c *testcluster.Cluster) {
				c.Gang("g", 2, append(on(10, "8", "n0"), on(100, "8", "n1")...)...)
			}, "8", "", "",
		},
		"a GangGroup leaves whole (case 50)": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8", func(c *testcluster.Cluster) {
				group(c, 3, on(10, "8", "n0")[0], on(10, "8", "n1", "n2", "n3")...)
			}, "8", "l-0 w-0 w-1 w-2", "",
		},
		"a GangGroup is dearer than two others": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8", func(c *testcluster.Cluster) {
				group(c, 1, on(10, "8", "n0")[0], on(10, "8", "n1")...)
				c.Pod(testcluster.A("x", 10, "4", "n2"))
				c.Pod(testcluster.A("y", 10, "4", "n2"))
			}, "8", "x y", "n2",
		},
		"what a gang of a GangGroup can spare leaves alone": {
			"s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8", func(c *testcluster.Cluster) {
				group(c, 2, on(10, "8", "n0")[0], on(10, "8", "n1", "n2", "n3")...)
			}, "8", "w-0", "n1",
		},
		"a GangGroup with a too important member stays": {
			"s/b/n0=8 s/b/n1=8", func(c *testcluster.Cluster) {
				group(c, 1, on(100, "8", "n0")[0], on(10, "8", "n1")...)
			}, "8", "", "",
		},
		"two of a GangGroup on one node leave with the rest": {
			"s/b/n0=8 s/b/n1=8", func(c *testcluster.Cluster) {
				group(c, 2, on(10, "4", "n0")[0], on(10, "4", "n0", "n1")...)
				c.Pod(testcluster.A("x", 100, "4", "n1"))
			}, "8", "l-0 w-0 w-1", "n0",
		},
		"a protected pod is not evicted": {
			"s/b/n0=8", func(c *testcluster.Cluster) {
				p := testcluster.A("single", 10, "8", "n0")
				p.Labels = map[string]string{scheduling.LabelDisablePreemptible: "true"}
				c.Pod(p)
			}, "8", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, test.nodes)
			test.given(c)
			c.Run()
			c.Pod(testcluster.A("high", 100, test.cpus, ""))
			if test.evicted == "" {
				c.Never(func() bool { return c.Evicted() != "" })
				return
			}
			c.Wait("bound", func() string {
				if node := c.Get("high").Spec.NodeName; node != "" && (test.node == "" || node == test.node) {
					return "bound"
				}
				return c.Where("high")
			})
			c.Wait(test.evicted, c.Evicted)
		})
	}
}

// TestOrdinaryPreemptionTwice: two pods search for victims before the first victim is seen terminating. A gang with
// one spare member loses only that one.
func TestOrdinaryPreemptionTwice(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	c.Gang("g", 2, testcluster.A("", 10, "8", "n0"), testcluster.A("", 10, "8", "n1"), testcluster.Younger(testcluster.A("", 10, "8", "n2")))
	c.Pod(testcluster.A("single", 10, "8", "n3"))
	c.Run()
	goOn := c.HoldEvictions(c.GangEviction())
	c.Pod(testcluster.A("high-0", 100, "8", ""))
	c.Pod(testcluster.A("high-1", 100, "8", ""))
	c.Wait("high-0>n2 high-1>n3", func() string {
		if where := c.Where("high-1", "high-0"); where == "high-1>n2 high-0>n3" {
			return "high-0>n2 high-1>n3"
		}
		return c.Where("high-0", "high-1")
	})
	goOn()
	c.Wait("g-2 single", c.Evicted)
	c.Wait("g-0=n0 g-1=n1 g-2 gone single gone", func() string { return c.Where("g-0", "g-1", "g-2", "single") })
}

// The API server accepted the evictions, and no watch has reported them when the pod is retried. No further pod is
// evicted.
func TestOrdinaryPreemptionIsNotSeenYet(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8")
	c.Gang("g", 2, testcluster.A("", 10, "2", "n0"), testcluster.A("", 10, "2", "n0"), testcluster.A("", 10, "2", "n0"))
	c.Pod(testcluster.A("x", 9, "2", "n0"))
	c.Pod(testcluster.A("q", 200, "0", "n0"))
	c.Unseen()
	c.Run()
	c.Pod(testcluster.A("high", 100, "6", ""))
	c.Wait("g-0 g-1 g-2", c.Evicted)
	c.Remove("q") // which wakes it
	c.Never(func() bool { return c.Evicted() != "g-0 g-1 g-2" })
	c.Release()
	c.Wait("high=n0", func() string { return c.Where("high") })
}

// TestOrdinaryPreemptionFails: a victim that the API server does not let go is no reason to
// wait.
func TestOrdinaryPreemptionFails(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
	c.Pod(testcluster.A("x", 10, "8", "n0"))
	c.Pod(testcluster.A("y", 20, "8", "n1"))
	c.Run()
	c.Refusing(func(pod string) error {
		if pod == "x" {
			return apierrors.NewForbidden(v1.Resource("pods"), pod, errors.New("a webhook says no"))
		}
		return nil
	})
	c.Pod(testcluster.A("high", 100, "8", ""))
	c.Wait("asked", func() string {
		if len(c.Said("")) > 0 {
			return "asked"
		}
		return ""
	})
	c.Wait("high=n1", func() string { return c.Where("high") })
	require.Equal(t, "y", c.Evicted())
}

// TestOrdinaryPreemptionOfAnyProfile: gangs are safe from pods of a profile, too, that
// does not run our PostFilter.
func TestOrdinaryPreemptionOfAnyProfile(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.Config = testcluster.Config + `
- schedulerName: default-scheduler
  plugins: {postFilter: {disabled: [{name: Coscheduling}]}}
`
	c.Gang("g", 2, testcluster.Younger(testcluster.A("", 10, "8", "n0")), testcluster.Younger(testcluster.A("", 10, "8", "n1")))
	c.Pod(testcluster.A("single", 10, "8", "n2"))
	c.Run()
	high := testcluster.A("high", 100, "8", "")
	high.Spec.SchedulerName = "default-scheduler"
	c.Pod(high)
	c.Wait("high=n2", func() string { return c.Where("high") })
	require.Equal(t, "single", c.Evicted())
}

// Members that wait in Permit for the last one go back to the queue, and none is deleted.
func TestOrdinaryPreemptionOfWaiting(t *testing.T) {
	const size = 8
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
	c.Run()
	var names []string
	c.Gang("g", size, append(testcluster.Pending(size-1, 10, "2"), testcluster.Held(testcluster.A("", 10, "2", ""), "outside"))...)
	for i := range size - 1 {
		names = append(names, fmt.Sprintf("g-%d", i))
	}
	c.WaitHeld(names...)
	evict := c.GangEviction()
	do, first := *evict, make(chan struct{}, 1)
	first <- struct{}{}
	*evict = func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		select {
		case <-first:
		default: // so late that it is back already
			c.Within(testcluster.WaitFor, func() bool { return c.Profile().GetWaitingPod(victim.UID) == nil })
		}
		return do(ctx, to, by, victim, plugin)
	}
	c.Pod(testcluster.A("high", 100, "8", ""))
	c.Wait("bound", func() string {
		if c.Get("high").Spec.NodeName != "" {
			return "bound"
		}
		return c.Where("high")
	})
	c.Wait("none", func() string {
		for _, name := range names {
			if c.Profile().GetWaitingPod(types.UID(name)) != nil {
				return name
			}
		}
		return "none"
	})
	c.Never(func() bool { return c.Evicted() != "" })
	for _, name := range names {
		require.Empty(t, c.Get(name).Spec.NodeName, c.Describe())
	}
}

// A pod needs the capacity of two victims. One terminates slowly, and the API server rejects the eviction of the
// other, which is repeated. The pod is nominated for the node, and other pods stay off it.
func TestRejectedEvictionIsRepeated(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8")
	c.Pod(testcluster.A("low-0", 10, "4", "n0"))
	c.Pod(testcluster.A("low-1", 10, "4", "n0"))
	c.Stay()
	c.Run()
	failures := 0
	c.Refusing(func(pod string) error {
		if pod == "low-1" && failures < 2 {
			failures++
			return apierrors.NewServiceUnavailable("soon")
		}
		return nil
	})
	c.Pod(testcluster.A("big", 100, "8", ""))
	c.Wait("low-0 low-1", c.Evicted)
	c.Release()
	c.Wait("big=n0", func() string { return c.Where("big") })
}

// group makes two gangs of one GangGroup: a launcher, and workers of which least are needed.
func group(c *testcluster.Cluster, least int, launcher *v1.Pod, workers ...*v1.Pod) {
	both := map[string]string{scheduling.AnnotationGroups: `["default/l","default/w"]`}
	c.GangWith(both, "l", 1, launcher)
	c.GangWith(both, "w", least, workers...)
}
