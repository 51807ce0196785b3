package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// TestFollowingGangIsRetriedInTime: of two gangs that ask for the same the second is kept out of the
// scheduler, where it hears of nothing. It starts all the same whenever it can.
func TestFollowingGangIsRetriedInTime(t *testing.T) {
	leave := func(c *testcluster.Cluster, pods ...string) {
		for _, name := range pods {
			c.Remove(name)
		}
	}
	const first, second = "a-0=n0 a-1=n0 b-0> b-1>", "a-0> a-1> b-0=n0 b-1=n0"
	for name, do := range map[string]struct {
		what  func(c *testcluster.Cluster)
		want  string
		alone bool // the gangs have one member
	}{
		"room for one":  {func(c *testcluster.Cluster) { leave(c, "x") }, first, false},
		"room for both": {func(c *testcluster.Cluster) { leave(c, "x", "y") }, "a-0=n0 a-1=n0 b-0=n1 b-1=n1", false},
		"the first goes, and then room comes": {func(c *testcluster.Cluster) {
			leave(c, "a-0", "a-1", "x")
		}, "a-0 gone a-1 gone b-0=n0 b-1=n0", false},
		"room comes, and the first goes": {func(c *testcluster.Cluster) {
			leave(c, "x", "a-1", "a-0")
		}, "a-0 gone a-1 gone b-0=n0 b-1=n0", false},
		"the first gets scheduling gates, and room comes": {func(c *testcluster.Cluster) {
			for _, name := range []string{"a-0", "a-1"} {
				c.Edit(name, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}} })
			}
			leave(c, "x")
		}, second, false},
		"it needs fewer": {func(c *testcluster.Cluster) {
			leave(c, "z")
			c.Never(func() bool { return c.Where("a-0") != "a-0>" })
			group, err := c.Custom.Resource(sigs.PodGroups).Namespace("default").Get(t.Context(), "b", metav1.GetOptions{})
			require.NoError(t, err)
			require.NoError(t, unstructured.SetNestedField(group.Object, int64(1), "spec", "minMember"))
			_, err = c.Custom.Resource(sigs.PodGroups).Namespace("default").Update(t.Context(), group, metav1.UpdateOptions{})
			require.NoError(t, err)
		}, "a-0> a-1> b-0=n2 b-1>", false},
		"its member is made again, and smaller": {func(c *testcluster.Cluster) {
			leave(c, "b-0")
			c.Wait("gone", func() string {
				if _, queued := c.Scheduler.SchedulingQueue.GetPod("b-0", "default", nil); !queued && c.Plugin.Cache.Pod("default/b-0") == nil {
					return "gone"
				}
				return ""
			})
			p := testcluster.A("b-0", 0, "4", "")
			p.UID, p.Labels = "another", map[string]string{scheduling.LabelPodGroup: "b"}
			c.Pod(p)
			leave(c, "z")
		}, "a-0> a-1 gone b-0=n2 b-1 gone", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=4")
			c.Pod(testcluster.A("x", 0, "8", "n0"))
			c.Pod(testcluster.A("y", 0, "8", "n1"))
			c.Pod(testcluster.A("z", 0, "4", "n2"))
			c.Run()
			members, cpus := 2, "4"
			if do.alone {
				members, cpus = 1, "8"
			}
			c.Gang("a", members, testcluster.Pending(members, 0, cpus)...)
			c.Gang("b", members, testcluster.Pending(members, 0, cpus)...)
			c.Wait("kept out", func() string {
				if pod := c.Plugin.Cache.Pod("default/b-0"); pod != nil && wasTried(c, pod) && c.Plugin.Follows(pod) {
					return "kept out"
				}
				return ""
			})
			do.what(c)
			c.Wait(do.want, func() string { return c.Where("a-0", "a-1", "b-0", "b-1") })
		})
	}
}

// Of waiting members only the tried ones receive events, and pods without a gang always do. Where an unknown plugin
// may keep pods out, the queue asks every pod.
func TestOnlyTriedMembersReceiveEvents(t *testing.T) {
	require.NoError(t, connect.SetGates())
	for _, config := range []string{
		testcluster.Config, strings.ReplaceAll(testcluster.Config, "preEnqueue: {enabled: [{name: Holder}]}, ", ""),
	} {
		c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
		c.Config = config
		c.Pod(testcluster.A("x", 0, "8", "n0"))
		c.Pod(testcluster.A("y", 0, "8", "n1"))
		c.Run()
		c.Pod(testcluster.A("alone", 0, "9", ""))
		c.WaitSaid(1, "Pod/alone Warning FailedScheduling")
		for g := range 60 {
			c.Gang(fmt.Sprint("g", g), 2, testcluster.Pending(2, 0, "4")...)
		}
		asked := func() string { some, all := c.Plugin.Listeners(); return fmt.Sprint(some, all) }
		c.WaitSaid(60, "Warning Unschedulable") // all were tried: an untried gang would come before a gang that has to wait a little
		if config == testcluster.Config {
			require.Equal(t, "[] true", asked())
			continue
		}
		c.Wait("[alone g0-0] false", asked)
		c.Remove("x")
		c.Wait("g0-0=n0 g0-1=n0 g1-0>", func() string { return c.Where("g0-0", "g0-1", "g1-0") })
		c.Wait("[alone g1-0] false", func() string {
			some, all := c.Plugin.Listeners() // some have left the queue, and are not swept out yet
			return fmt.Sprint(slices.DeleteFunc(some, func(name string) bool { return !strings.HasSuffix(c.Where(name), ">") }), all)
		})
		c.Remove("y")
		c.Wait("g1-0=n1 g1-1=n1 g2-0>", func() string { return c.Where("g1-0", "g1-1", "g2-0") })
	}
}

// TestPlacedMemberReceivesNoEvents: a backlog that fits costs no event anything, however many gangs are let in.
func TestPlacedMemberReceivesNoEvents(t *testing.T) {
	require.NoError(t, connect.SetGates())
	c := testcluster.New(t, "s/b/n0=40 s/b/n1=40 s/b/n2=40 s/b/n3=40 s/b/n4=40 s/b/n5=40")
	c.Config = strings.ReplaceAll(testcluster.Config, "preEnqueue: {enabled: [{name: Holder}]}, ", "")
	c.Run()
	last := 19
	for g := range last + 1 {
		c.Gang(fmt.Sprint("g", g), 2, testcluster.Pending(2, 0, "4")...)
	}
	c.Wait("placed", func() string {
		for g := range last + 1 {
			if strings.HasSuffix(c.Where(fmt.Sprintf("g%d-1", g)), ">") {
				return ""
			}
		}
		return "placed"
	})
	some, all := c.Plugin.Listeners()
	require.Empty(t, some)
	require.False(t, all)
}

// Pods of a profile without Muster receive events too, when the listeners of another profile are few.
func TestPodsOfOtherProfilesReceiveEvents(t *testing.T) {
	require.NoError(t, connect.SetGates())
	c := testcluster.New(t, "s/b/n0=8")
	c.Config = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: "*"}]}}
- schedulerName: other
  plugins: {queueSort: {enabled: [{name: PrioritySort}], disabled: [{name: "*"}]}, multiPoint: {disabled: [{name: Coscheduling}, {name: CoschedulingGate}]}}
`
	c.Pod(testcluster.A("x", 0, "8", "n0"))
	c.Run()
	other := testcluster.A("other", 0, "8", "")
	other.Spec.SchedulerName = "other"
	c.Pod(other)
	c.WaitSaid(1, "Pod/other Warning FailedScheduling")
	_, all := c.Plugin.Listeners()
	require.True(t, all)
	c.Remove("x")
	c.Wait("other=n0", func() string { return c.Where("other") })
}

// wasTried says whether the scheduler looked for a plan in the cycle of a pod.
func wasTried(c *testcluster.Cluster, pod *v1.Pod) bool {
	_, tried, _ := c.Plugin.Cache.Tried(pod)
	return tried
}
