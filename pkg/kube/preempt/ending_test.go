package preempt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// stopped is a clock with running timers and a constant time.
type stopped struct {
	clock.RealClock
	now time.Time
}

func (s stopped) Now() time.Time { return s.now }

// running returns members of a gang, each with a node of its own.
func running(name string, n int) (pods []*v1.Pod) {
	for i := range n {
		pods = append(pods, testcluster.A(fmt.Sprint(name, "-", i), 100, "8", fmt.Sprint("n", i)))
	}
	return pods
}

// holding counts the members of a pod's gang that have a node in the cache.
func holding(c *testcluster.Cluster, of *v1.Pod) func() string {
	return func() string { pods, _ := c.Plugin.Cache.Placed(source.GangOf(of)); return fmt.Sprint(len(pods)) }
}

// withoutRepair is a configuration in which no capacity is held for lost members: these tests are about capacity that others may take.
const withoutRepair = testcluster.Config + `  pluginConfig: [{name: Coscheduling, args: {repairTimeout: 0s}}]
`

// ends is a cluster with a gang of two that g may not evict, and a pod that g may evict. The first member of the gang
// was deleted, and the cache has seen that. Then g is created.
func ends(t *testing.T, by clock.WithTicker) *testcluster.Cluster {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.Clock = by
	c.Config = withoutRepair
	end := running("end", 2)
	c.Gang("end", 2, end...)
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	left := holding(c, end[0])
	c.Wait("2", left)
	c.Remove("end-0")
	c.Wait("1", left)
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	return c
}

// The first pod of a finishing gang is deleted, and an eviction would let g start. The second pod follows: no pod is
// evicted.
func TestNoEvictionWhileGangFinishes(t *testing.T) {
	c := ends(t, stopped{now: time.Now()}) // the wait for the second deletion does not time out
	c.WaitSaid(1, "a gang is finishing")
	c.Remove("end-1")
	c.Wait("g-0=n0 g-1=n1", func() string { return c.Where("g-0", "g-1") })
	require.Empty(t, c.Evicted())
}

// The informer's store lacks a member, but its handlers have not run yet. The gang already counts as finishing. A
// member recreated under the same name counts as gone, too.
func TestFinishingGangIsKnownBeforeItsEvents(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	c.Clock = stopped{now: time.Now()}
	c.Config = withoutRepair
	end := running("end", 2)
	c.Gang("end", 2, end...)
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	there := cache.NewStore(cache.MetaNamespaceKeyFunc)
	require.NoError(t, there.Add(end[0]))
	again := end[1].DeepCopy()
	again.UID = "another"
	require.NoError(t, there.Add(again))
	p := c.Plugin.Preemptor
	require.False(t, p.Gone(end[0]))
	require.False(t, p.Gone(end[1]), "as the informer has it")
	p.GoesBy(there)
	require.False(t, p.Gone(end[0]))
	require.True(t, p.Gone(end[1]))
	require.NoError(t, there.Delete(end[0]))
	require.True(t, p.Gone(end[0]))
	require.NoError(t, there.Add(end[0]))
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "a gang is finishing")
	require.Empty(t, c.Evicted())
}

// All members of a gang are deleted, but the scheduler's snapshot still has them. No pod is evicted for capacity that
// is free already.
func TestNoEvictionForPodsDeletedSinceSnapshot(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=4")
	c.Clock = stopped{now: time.Now()}
	c.Config = withoutRepair
	end := running("end", 2)
	c.Gang("end", 2, end...)
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	c.Wait("2", holding(c, end[0]))
	c.Plugin.Preemptor.GoesBy(cache.NewStore(cache.MetaNamespaceKeyFunc))
	c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
	c.WaitSaid(1, "a gang is finishing")
	require.Empty(t, c.Evicted())
}

// A gang that waits for a finishing gang reserves only nodes without victims. A small gang may therefore evict the
// least important pod, or requeue such a pod at Permit.
func TestGangThatWaitsForFinishReservesNoVictims(t *testing.T) {
	on := func(p *v1.Pod, nodes ...string) *v1.Pod {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: nodes},
			}}},
		}}}
		return p
	}
	for _, runs := range []bool{true, false} {
		c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
		c.Clock, c.Config = stopped{now: time.Now()}, withoutRepair
		end := running("end", 2)
		c.Gang("end", 2, end...)
		c.Pod(testcluster.A("mid", 50, "8", "n3"))
		if runs {
			c.Pod(testcluster.A("low", 10, "8", "n2"))
		}
		c.Run()
		if !runs {
			c.Gang("low", 1, testcluster.Held(on(testcluster.A("", 10, "8", ""), "n2"), "inside"))
			c.WaitHeld("low-0")
		}
		left := holding(c, end[0])
		c.Wait("2", left)
		c.Remove("end-0")
		c.Wait("1", left)
		c.Gang("g", 3, testcluster.Pending(3, 100, "8")...)
		c.WaitSaid(1, "a gang is finishing")
		c.Gang("b", 1, on(testcluster.A("", 100, "8", ""), "n2", "n3"))
		c.Wait("b-0=n2", func() string { return c.Where("b-0") })
		c.Remove("end-1")
		c.Wait("g-0=n0 g-1=n1 g-2=n3", func() string { return c.Where("g-0", "g-1", "g-2") })
		if runs {
			require.Equal(t, "low mid", c.Evicted())
		} else {
			require.Equal(t, "mid", c.Evicted())
		}
	}
}

// The second member of the gang is not deleted. After a short wait g evicts a pod.
func TestPreemptionContinuesWhenGangDoesNotFinish(t *testing.T) {
	c := ends(t, nil)
	c.Wait("low", c.Evicted)
	c.Wait("g-0=n0 g-1=n2", func() string { return c.Where("g-0", "g-1") })
}

// A gang that lost only a spare member does not finish, and no gang waits for it.
func TestLostSpareMemberDoesNotDelayPreemption(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	runs := running("runs", 3)
	c.Gang("runs", 2, runs...)
	c.Pod(testcluster.A("low", 10, "8", "n3"))
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "PodGroup/g Warning Unschedulable")
	c.Remove("runs-0")
	c.Wait("g-0=n0 g-1=n3", func() string { return c.Where("g-0", "g-1") })
	require.Empty(t, c.Said("a gang is finishing"))
}

// A gang of one sub-group lost a member, and its replacement waits. The gang does not wait for its own running
// members to finish, though planners see them as another gang.
func TestGangDoesNotWaitForItsOwnSubGroup(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	member := func(cpus, node string) *v1.Pod {
		p := testcluster.A("", 100, cpus, node)
		p.Labels = map[string]string{"app": "g", "part": "0"}
		return p
	}
	c.VolcanoGang("g", map[string]any{"minMember": int64(2), "subGroupPolicy": []any{map[string]any{
		"name": "part", "subGroupSize": int64(2), "minSubGroups": int64(1),
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app": "g"}}, "matchLabelKeys": []any{"part"},
	}}}, member("8", "n0"), member("4", "n1"), member("8", ""))
	c.Pod(testcluster.A("beside", 100, "4", "n1"))
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	c.WaitSaid(1, "minMember is reached")
	c.Remove("g-1")
	c.Wait("g-2=n2", func() string { return c.Where("g-2") })
	require.Equal(t, "low", c.Evicted())
	require.Empty(t, c.Said("a gang is finishing"))
}

// A later and smaller pod does not take the capacity of a gang that waits for a finishing gang.
func TestLaterPodDoesNotTakeCapacityOfWaitingGang(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	c.Config = withoutRepair
	end := running("end", 2)
	c.Gang("end", 2, end...)
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "PodGroup/g Warning Unschedulable")
	later, never := testcluster.A("later", 100, "8", ""), v1.PreemptNever
	later.Spec.PreemptionPolicy = &never
	c.Pod(later)
	c.WaitSaid(1, "Pod/later Warning FailedScheduling")
	c.Remove("end-0")
	c.Wait("g-0=n0 g-1=n2", func() string { return c.Where("g-0", "g-1") })
}
