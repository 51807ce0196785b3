package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

func needs(cpu string) []v1.Container {
	return []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
}

// While members of a gang with a leader are missing, pods like the future ones stand in for them.
func TestStandInsForFutureMembers(t *testing.T) {
	key := gang.Ref{Source: "lws", Namespace: "ns", Name: "a-0-r"}
	webhooks := &v1.Affinity{PodAffinity: &v1.PodAffinity{}}
	leader := func(p *v1.Pod) {
		leaderOf("a", "0", "4")(p)
		p.Spec.Containers, p.Spec.Priority, p.Spec.PriorityClassName, p.Spec.Affinity = needs("1"), ptr.To(int32(7)), "p", webhooks
	}
	names := func(g *Group) (out []string) {
		for _, m := range g.Future {
			require.Equal(t, key, m.Gang)
			require.Equal(t, gang.NoRank, m.Rank)
			require.Equal(t, int32(7), m.Priority)
			require.Equal(t, m.UID, string(g.Pods[m.Pod].UID))
			out = append(out, m.Pod)
		}
		return out
	}
	start := func(t *testing.T, follower *v1.PodTemplateSpec) *Cache {
		c, _, _ := open(t)
		c.recordDiscovery("LeaderWorkerSet", true)
		set := ownedSet("a", 4)
		set.LeaderFirst, set.Follower = "test", follower
		c.setOwner(set)
		c.setPod(member("a-0", leader))
		return c
	}
	t.Run("like the leader", func(t *testing.T) {
		c := start(t, nil)
		g, refusal := c.GroupOf(key)
		require.False(t, refusal.Exists(), refusal)
		require.Equal(t, []string{"ns/a-0~2", "ns/a-0~3", "ns/a-0~4"}, names(g))
		in := g.Pods["ns/a-0~2"]
		require.Equal(t, needs("1"), in.Spec.Containers)
		require.Equal(t, g.Pods["ns/a-0"].Labels, in.Labels)
		require.Len(t, g.Pending, 1, "they are not members")
	})
	t.Run("as the template says", func(t *testing.T) {
		template := &v1.PodTemplateSpec{Spec: v1.PodSpec{
			Containers: needs("5"), NodeSelector: map[string]string{"gpu": "yes"}, ResourceClaims: []v1.PodResourceClaim{{Name: "c"}},
			Volumes: []v1.Volume{{Name: "e", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}, {Name: "empty"}},
		}}
		template.Labels = map[string]string{"role": "worker"}
		template.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "c"}}
		c := start(t, template)
		g, _ := c.GroupOf(key)
		in := g.Pods["ns/a-0~2"]
		require.Equal(t, needs("5"), in.Spec.Containers)
		require.Equal(t, map[string]string{"gpu": "yes"}, in.Spec.NodeSelector)
		require.Nil(t, in.Spec.Affinity, "the leader's is its own")
		require.Equal(t, "worker", in.Labels["role"])
		require.Equal(t, "a", in.Labels["leaderworkerset.sigs.k8s.io/name"])
		require.Equal(t, []v1.Volume{{Name: "empty"}}, in.Spec.Volumes)
		require.Empty(t, in.Spec.ResourceClaims)
		require.Equal(t, needs("1"), g.Pods["ns/a-0"].Spec.Containers)
	})
	t.Run("fewer as they come", func(t *testing.T) {
		c := start(t, nil)
		c.setPod(member("a-0-1", leader))
		g, _ := c.GroupOf(key)
		require.Equal(t, []string{"ns/a-0~3", "ns/a-0~4"}, names(g))
		for _, name := range []string{"a-0-2", "a-0-3"} {
			c.setPod(member(name, leader))
		}
		g, _ = c.GroupOf(key)
		require.Empty(t, g.Future)
	})
	t.Run("finished members existed", func(t *testing.T) {
		c := start(t, nil)
		c.setPod(member("a-0-1", leader, func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodSucceeded }))
		g, _ := c.GroupOf(key)
		require.Equal(t, []string{"ns/a-0~3", "ns/a-0~4"}, names(g))
	})
	t.Run("less important pods respect their nodes", func(t *testing.T) {
		c := start(t, nil)
		c.Handle(gang.Planned{
			Group: key, Places: []gang.Assignment{{Pod: "ns/a-0", Node: "n0"}}, Future: []gang.Assignment{{Pod: "ns/a-0~2", Node: "n1"}},
		})
		other := func(priority int32) *v1.Pod {
			return member("other", func(p *v1.Pod) { p.Labels, p.Spec.Priority = nil, ptr.To(priority) })
		}
		require.Len(t, c.PlacesOn("n1", other(7)), 1)
		require.Equal(t, "a-0~2", c.PlacesOn("n1", other(0))[0].Name)
		require.Empty(t, c.PlacesOn("n1", other(8)))
		c.setPod(member("a-0-1", leader))
		require.Empty(t, c.PlacesOn("n1", member("a-0-1", leader)), "it is theirs")
		c.dropPod(member("a-0", leader))
		require.Empty(t, c.PlacesOn("n1", other(0)))
		require.False(t, c.AnyPlaces())
	})
	t.Run("a gang that starts at once has none", func(t *testing.T) {
		c, _, _ := open(t)
		c.setObject(ref("a"), podGroup("u"), source.More{})
		c.setPod(member("x"))
		g, _ := c.GroupOf(ref("a"))
		require.Empty(t, g.Future)
	})
}

// TestLeadersWithoutMembersAreFoundAtStart: a process that begins knows of which groups another one may have kept places for members
// that are still to come, and until when.
func TestLeadersWithoutMembersAreFoundAtStart(t *testing.T) {
	now := time.Unix(1000, 0)
	on := func(node string, since ...time.Time) func(*v1.Pod) {
		return func(p *v1.Pod) {
			leaderOf("a", "0", "2")(p)
			p.Annotations["leaderworkerset.sigs.k8s.io/exclusive-topology"] = "rack"
			p.Spec.NodeName = node
			for _, at := range since {
				p.Status.Conditions = append(p.Status.Conditions,
					v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)})
			}
		}
	}
	ofThree := func(p *v1.Pod) { p.Annotations["leaderworkerset.sigs.k8s.io/size"] = "3" }
	for name, test := range map[string]struct {
		pods []*v1.Pod
		want time.Duration // for how long from now; 0 is not at all
	}{
		"the leader waits":        {[]*v1.Pod{member("a-0", on(""))}, 0},
		"it has a node":           {[]*v1.Pod{member("a-0", on("n"))}, time.Minute},
		"for some time":           {[]*v1.Pod{member("a-0", on("n", now.Add(-20*time.Second)))}, 40 * time.Second},
		"for too long":            {[]*v1.Pod{member("a-0", on("n", now.Add(-time.Minute)))}, 0},
		"by a clock that is fast": {[]*v1.Pod{member("a-0", on("n", now.Add(time.Hour)))}, time.Minute},
		"one more has a node since": {[]*v1.Pod{
			member("a-0", on("n", now.Add(-50*time.Second)), ofThree), member("a-1", on("n", now.Add(-20*time.Second)), ofThree),
		}, 40 * time.Second},
		"all exist":                     {[]*v1.Pod{member("a-0", on("n")), member("a-1", on(""))}, 0},
		"another scheduler's, not ours": {[]*v1.Pod{member("a-0", on("n"), func(p *v1.Pod) { p.Spec.SchedulerName = "other" })}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			for _, p := range test.pods {
				c.setPod(p)
			}
			c.mu.Lock()
			c.absent = c.leadersWithoutMembers()
			c.mu.Unlock()
			require.Empty(t, c.TakeAbsent("another", nil))
			var want []Absent
			if test.want > 0 {
				want = []Absent{
					{Group: gang.Ref{Source: "lws", Namespace: "ns", Name: "a-0-r"}, Scheduler: "muster-scheduler", Until: now.Add(test.want)},
				}
			}
			require.Equal(t, want, c.TakeAbsent("muster-scheduler", nil))
			require.Empty(t, c.TakeAbsent("muster-scheduler", nil), "once")
		})
	}
}

// TestStandInsCoverMinResources: stand-ins request what minResources asks for less what the pods request, also where a pod has a part of a
// share. What holds a place requests the same after more pods have come.
func TestStandInsCoverMinResources(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	asks := func(cpu, memory string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: list(cpu, memory)}}}
		}
	}
	c, _, _ := open(t)
	pg := podGroup("u")
	pg.Spec.MinMember, pg.Spec.MinResources = 1, list("6", "6Gi")
	c.setObject(ref("a"), pg, source.More{})
	standIns := func() map[string]string {
		g, refusal := c.GroupOf(ref("a"))
		require.False(t, refusal.Exists(), refusal)
		out := map[string]string{}
		for _, m := range g.Future {
			q := g.Pods[m.Pod].Spec.Containers[0].Resources.Requests
			out[m.Pod] = q.Cpu().String() + " " + q.Memory().String()
		}
		return out
	}
	c.setPod(member("driver", asks("2", "2Gi")))
	require.Equal(t, map[string]string{"ns/driver~1": "2 2Gi", "ns/driver~2": "2 2Gi"}, standIns())
	c.setPod(member("exec-1", asks("1", "3Gi")))
	require.Equal(t, map[string]string{"ns/driver~1~1000~2147483648": "1 0", "ns/driver~2~0~1073741824": "2 1Gi"}, standIns())
	c.setPod(member("exec-2", asks("2", "1Gi")))
	require.Equal(t, map[string]string{"ns/driver~2~1000~2147483648": "1 0"}, standIns())
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, "1", c.assignedPod("ns/driver~1~1000~2147483648").Spec.Containers[0].Resources.Requests.Cpu().String())
}

// A member that terminates on a node that is not ready is missing at once: its object may exist for long. Otherwise it is missing when it is
// gone.
func TestMemberOnLostNodeIsMissingWhenItTerminates(t *testing.T) {
	const held = 10 * time.Minute
	on := func(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }
	terminating := func(p *v1.Pod) {
		p.Spec.NodeName, p.DeletionTimestamp = "n1", &metav1.Time{Time: time.Unix(900, 0)}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "a", Controller: ptr.To(true)}}
	}
	succeeded := func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }
	node := func(ready v1.ConditionStatus, taints ...string) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key})
		}
		return n
	}
	stuck := []StuckMember{{Pod: "x", Node: "n1", Owner: "StatefulSet"}}
	for name, test := range map[string]struct {
		do    func(c *Cache)
		held  bool
		stuck []StuckMember
	}{
		"the node is ready": {func(c *Cache) { c.setPod(member("x", terminating)) }, false, nil},
		"it is not": {func(c *Cache) {
			c.setNode(node(v1.ConditionUnknown))
			c.setPod(member("x", terminating))
		}, true, stuck},
		"the pod does not terminate": {func(c *Cache) { c.setNode(node(v1.ConditionFalse)) }, false, nil},
		"the node is lost later": {func(c *Cache) {
			c.setPod(member("x", terminating))
			c.setNode(node(v1.ConditionFalse))
		}, true, stuck},
		"the node is deleted later": {func(c *Cache) {
			c.setPod(member("x", terminating))
			c.dropNode("n1")
		}, true, nil},
		"out of service": {func(c *Cache) {
			c.setNode(node(v1.ConditionUnknown, v1.TaintNodeOutOfService))
			c.setPod(member("x", terminating))
		}, true, nil},
		"it has succeeded": {func(c *Cache) {
			c.setNode(node(v1.ConditionUnknown))
			c.setPod(member("x", terminating, succeeded))
		}, false, nil},
		"it is gone": {func(c *Cache) { c.dropPod(member("x", on("n1"))) }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			c.Configure(Limits{Wait: time.Minute, Policy: gang.OnceSatisfied, Repair: held})
			c.setObject(ref("a"), podGroup("u"), source.More{})
			c.setNode(node(v1.ConditionTrue))
			c.setPod(member("w", on("n0")))
			c.setPod(member("x", on("n1")))
			require.Zero(t, c.State(ref("a")).Repair)
			test.do(c)
			absent := c.TakeAbsent("muster-scheduler", func(string, types.UID) bool { return false })
			require.Equal(t, test.held, len(absent) == 1)
			r, _ := c.Report(ref("a"))
			require.Equal(t, test.stuck, r.Stuck)
			if test.held {
				require.Equal(t, 1, r.Repair.Missing)
				require.Equal(t, c.Clock.Now().Add(held), r.Repair.Until)
				c.setPod(member("x", terminating))
				require.Empty(t, c.TakeAbsent("muster-scheduler", func(string, types.UID) bool { return false }), "once while it terminates")
			}
		})
	}
}

// A member that is lost twice has one stand-in: the newest, which keeps other pods off its node.
func TestLostTwice(t *testing.T) {
	c, _, _ := open(t)
	c.Configure(Limits{Wait: time.Minute, Policy: gang.OnceSatisfied, Repair: time.Minute})
	c.setObject(ref("a"), podGroup("u"), source.More{})
	for _, uid := range []string{"1", "2"} {
		p := func(name string) *v1.Pod {
			return member(name, func(p *v1.Pod) { p.Spec.NodeName, p.UID = "n", types.UID(name+uid) })
		}
		c.setPod(p("x"))
		if uid == "1" {
			c.setPod(p("w"))
		}
		c.dropPod(p("x"))
		require.Len(t, c.gangs[ref("a")].Lost, 1)
		require.Equal(t, types.UID("x"+uid+"~lost"), c.lost["ns/x~lost"].UID)
	}
}
