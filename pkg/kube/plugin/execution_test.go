package plugin

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// pending makes members that wait.
func pending(n int, priority int32, cpus string) []*v1.Pod {
	return of(n, func() *v1.Pod { return a("", priority, cpus, "") })
}

// full is a spine of four full nodes and one of two, which is too small for three.
func full(t *testing.T) *testCluster {
	c := newTestCluster(t, "s1/b1/n0=8 s1/b1/n1=8 s1/b2/n2=8 s1/b2/n3=8 s2/b3/n4=8 s2/b3/n5=8")
	for _, i := range []string{"0", "1", "2", "3"} {
		c.pod(a("low-"+i, 10, "8", "n"+i))
	}
	return c.run()
}

// TestEvictionIsTold: the victim, the speaker and the PodGroup read of each other, and
// where the places are, once.
func TestEvictionIsTold(t *testing.T) {
	c := newTestCluster(t, "s1/b1/n0=8 s1/b1/n1=8")
	c.pod(a("low", 10, "8", "n0"))
	c.run()
	c.gang("g", 2, pending(2, 100, "8")...)
	c.wait("g-0=n0 g-1=n1", func() string { return c.where("g-0", "g-1") })
	require.Equal(t, []string{"*v1.Pod/low Normal Preempted: Preempted by gang default/g on node n0, for places in s1/b1 [*v1.Pod/g-0]"}, c.said("Preempted"))
	told := c.said(" preempts ")
	slices.Sort(told)
	require.Equal(t, []string{
		"*v1.Pod/g-0 Normal Preempting: preempts default/low on n0, for places in s1/b1 [*v1.Pod/low]",
		"*v1alpha1.PodGroup/g Normal Preempting: preempts default/low on n0, for places in s1/b1 [*v1.Pod/low]",
	}, told)
}

// TestRefusedEviction: nobody may evict one of three victims. The other two have left, which
// counts: one more leaves instead of it, and the one that stays is told so.
func TestRefusedEviction(t *testing.T) {
	c := full(t)
	c.refusing(func(pod string) error {
		if pod == "low-1" {
			return apierrors.NewForbidden(v1.Resource("pods"), pod, errors.New("a webhook says no"))
		}
		return nil
	})
	c.gang("g", 3, pending(3, 100, "8")...)
	c.wait("g-0=n2 g-1=n3 g-2=n0", func() string { return c.where("g-0", "g-1", "g-2") })
	require.Equal(t, "low-0 low-2 low-3", c.evicted(), c.describe())
	require.Len(t, c.deleted, 3)
	c.wait("False", func() string {
		_, cond := podutil.GetPodCondition(&c.get("low-1").Status, v1.DisruptionTarget)
		if cond == nil {
			return "never asked"
		}
		return string(cond.Status)
	})
	require.NotEmpty(t, c.said("PodGroup/g Warning EvictionFailed: cannot evict default/low-1 on n1: "), c.describe())
}

// TestEvictionTriedAgain: an API server that cannot for a while is asked again, and nobody
// is evicted twice or instead.
func TestEvictionTriedAgain(t *testing.T) {
	c := full(t)
	c.stay = true
	failures := 0
	c.refusing(func(pod string) error {
		if pod == "low-1" && failures < 2 {
			failures++
			return apierrors.NewInternalError(errors.New("etcd is slow"))
		}
		return nil
	})
	c.gang("g", 3, pending(3, 100, "8")...)
	c.wait("low-0 low-1 low-2", c.evicted)
	require.Equal(t, "g-0>n0 g-1>n1 g-2>n2", c.where("g-0", "g-1", "g-2"))
	require.Len(t, c.said("PodGroup/g Warning EvictionFailed: cannot evict default/low-1 on n1: "), 1)
	require.NotEmpty(t, c.said("it is tried again"))
	c.release()
	c.wait("g-0=n0 g-1=n1 g-2=n2", func() string { return c.where("g-0", "g-1", "g-2") })
	require.Len(t, c.deleted, 3)
}

// TestWaitingVictim: a victim that waits in Permit goes back to the queue and is not
// deleted.
func TestWaitingVictim(t *testing.T) {
	c := newTestCluster(t, "s1/b1/n0=8")
	c.run()
	c.pod(held(a("low", 10, "8", ""), "inside"))
	c.waitHeld("low")
	c.gang("g", 1, pending(1, 100, "8")...)
	c.wait("g-0=n0 low>", func() string { return c.where("g-0", "low") })
	require.Empty(t, c.evicted())
	require.NotEmpty(t, c.said("(in kube-scheduler memory)"), c.describe())
}

// TestWaitingGang: members that wait at Permit go back to the queue, and none is deleted.
func TestWaitingGang(t *testing.T) {
	c := newTestCluster(t, "s1/b1/n0=8 s1/b1/n1=8")
	c.run()
	c.gang("low", 2, held(a("", 10, "8", ""), "inside"), held(a("", 10, "8", ""), "inside"))
	c.waitHeld("low-0", "low-1")
	c.gang("g", 2, pending(2, 100, "8")...)
	c.wait("g-0=n0 g-1=n1", func() string { return c.where("g-0", "g-1") })
	require.Empty(t, c.evicted())
	require.Empty(t, c.deleted)
	for _, name := range []string{"low-0", "low-1"} {
		require.Nil(t, c.plugin.handle.GetWaitingPod(types.UID(name)))
		require.Empty(t, c.get(name).Spec.NodeName)
	}
	require.NotEmpty(t, c.said("(in kube-scheduler memory)"), c.describe())
}

// TestGangsPreemptTogether: two gangs of equal priority look for victims before anybody is
// seen leaving. They choose neither the same victims nor the same places.
func TestGangsPreemptTogether(t *testing.T) {
	for name, test := range map[string]struct {
		nodes   string
		low     string // priority 10, "name=node"
		size    int
		cpus    string
		evicted string
		room    int // for so many of the two gangs
	}{
		"room for both":            {"s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8", "a=n0 b=n1 c=n2 d=n3", 2, "8", "a b c d", 2},
		"room for both on a node":  {"s/b/n0=8", "a=n0 b=n0", 1, "4", "a b", 2},
		"room for one":             {"s/b/n0=8 s/b/n1=8", "a=n0 b=n1", 2, "8", "a b", 1},
		"room for one and a half":  {"s/b/n0=8 s/b/n1=8 s/b/n2=8", "a=n0 b=n1 c=n2", 2, "8", "a b", 1},
		"in two spines, one each":  {"s/b/n0=8 s/b/n1=8 t/c/n2=8 t/c/n3=8", "a=n0 b=n1 c=n2 d=n3", 2, "8", "a b c d", 2},
		"the second needs no more": {"s/b/n0=8", "a=n0", 1, "4", "a", 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestCluster(t, test.nodes)
			pods := strings.Fields(test.low)
			for _, word := range pods {
				name, node, _ := strings.Cut(word, "=")
				cpus := test.cpus
				if len(pods) == 1 {
					cpus = "8"
				}
				c.pod(a(name, 10, cpus, node))
			}
			c.stay = true
			c.run()
			goOn := c.holdEvictions(&c.plugin.executor.PreemptPod)
			c.gang("g", test.size, pending(test.size, 100, test.cpus)...)
			c.gang("h", test.size, pending(test.size, 100, test.cpus)...)
			members := []string{"g-0", "h-0"}
			if test.size == 2 {
				members = []string{"g-0", "g-1", "h-0", "h-1"}
			}
			nominated := func() (n int) {
				for _, name := range members {
					if c.get(name).Status.NominatedNodeName != "" {
						n++
					}
				}
				return n
			}
			require.True(t, c.within(waitFor, func() bool { return nominated() == test.room*test.size }), c.describe())
			if test.room == 1 {
				c.never(func() bool { return nominated() != test.size })
			}
			goOn()
			c.wait(test.evicted, c.evicted)
			c.release()
			require.True(t, c.within(waitFor, func() bool {
				bound := 0
				for _, name := range members {
					if c.get(name).Spec.NodeName != "" {
						bound++
					}
				}
				return bound == test.room*test.size
			}), c.describe())
			require.Len(t, c.deleted, len(strings.Fields(test.evicted)), c.describe())
		})
	}
}
