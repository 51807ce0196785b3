package preempt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/test/testcluster"
)

var (
	a       = testcluster.A
	pending = testcluster.Pending
)

// leaving returns the pod as a terminating pod.
func leaving(p *v1.Pod) *v1.Pod {
	p.DeletionTimestamp = &metav1.Time{}
	p.Finalizers = []string{"test/stays"} // the API server of the test takes no other
	return p
}

// slow gives a pod a grace period of a day.
func slow(p *v1.Pod) *v1.Pod {
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(24 * 60 * 60))
	return p
}

// tomorrow returns the pod as a terminating pod with a day left.
func tomorrow(p *v1.Pod) *v1.Pod {
	leaving(p).DeletionTimestamp.Time = time.Now().Add(24 * time.Hour)
	return p
}

// protected forbids the eviction of a pod.
func protected(p *v1.Pod) *v1.Pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, scheduling.LabelDisablePreemptible, "true")
	return p
}

// apart keeps other pods of app apart off the pod's node.
func apart(p *v1.Pod) *v1.Pod {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "apart"}}, TopologyKey: v1.LabelHostname},
	}}}
	return app(p, "apart")
}

// The candidates for a gang of priority 100.
func TestCandidates(t *testing.T) {
	none := &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "none"}, Status: policy.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
	all := none.DeepCopy()
	all.Name, all.Spec.Selector = "all", &metav1.LabelSelector{}
	gone := budget("web", 1, "web")
	gone.Status.DisruptedPods = map[string]metav1.Time{"y": {}}
	for name, c := range map[string]struct {
		given      func(c *testcluster.Cluster)
		budgets    []*policy.PodDisruptionBudget
		candidates string
	}{
		"less important ones only": {given: func(c *testcluster.Cluster) {
			c.Pod(a("low", 99, "1", "n0"))
			c.Pod(a("equal", 100, "1", "n0"))
			c.Pod(a("high", 101, "1", "n1"))
		}, candidates: "n0: low"},
		"no protected pod": {given: func(c *testcluster.Cluster) {
			c.Pod(protected(a("x", 10, "1", "n0")))
			c.Pod(a("y", 10, "1", "n1"))
		}, candidates: "n1: y"},
		"terminating pods count as gone": {given: func(c *testcluster.Cluster) {
			c.Pod(leaving(a("x", 10, "1", "n0")))
			c.Pod(leaving(a("important", 1000, "1", "n0")))
			c.Pod(a("y", 10, "1", "n0"))
		}, candidates: "n0: y (important) (x)"},
		"a gang, whole": {given: func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "1", "n0"), a("", 20, "1", "n1"))
		}, candidates: "n0: g-0[1]\nn1: g-1[1]\n[1]: spare 0, whole 2 pods up to 20"},
		"a gang that can spare one": {given: func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "1", "n0"), a("", 10, "1", "n1"), a("", 10, "1", "n1"))
		}, candidates: "n0: g-0[1]\nn1: g-1[1] g-2[1]\n[1]: spare 1, whole 3 pods up to 10"},
		"a member too important to evict the gang whole": {given: func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "1", "n0"), a("", 100, "1", "n1"))
		}, candidates: ""},
		"only the spare member": {given: func(c *testcluster.Cluster) {
			c.Gang("g", 1, a("", 10, "1", "n0"), a("", 100, "1", "n1"))
		}, candidates: "n0: g-0[1]\n[1]: spare 1"},
		"terminating members are not spare": {given: func(c *testcluster.Cluster) {
			c.Gang("g", 1, leaving(a("", 10, "1", "n0")), a("", 10, "1", "n1"))
		}, candidates: "n0: (g-0)\nn1: g-1[1]\n[1]: spare 0, whole 1 pods up to 10"},
		"two gangs, in the order of the nodes": {given: func(c *testcluster.Cluster) {
			c.Gang("h", 1, a("", 10, "1", "n0"))
			c.Gang("g", 1, a("", 10, "1", "n1"))
		}, candidates: "n0: h-0[1]\nn1: g-0[2]\n[1]: spare 0, whole 1 pods up to 10\n[2]: spare 0, whole 1 pods up to 10"},
		"a GangGroup, whole": {given: func(c *testcluster.Cluster) {
			group(c, 1, a("", 10, "1", "n0"), a("", 20, "1", "n0"), a("", 20, "1", "n1"))
		}, candidates: "n0: l-0[1] w-0[2]\nn1: w-1[2]\n[1]: spare 0, whole 1 pods up to 10, with [2]\n[2]: spare 1, whole 2 pods up to 20, " +
			"with [1]"},
		"a GangGroup that can spare no member": {given: func(c *testcluster.Cluster) {
			group(c, 1, a("", 200, "1", "n0"), a("", 10, "1", "n1"))
		}, candidates: ""},
		"a GangGroup that can only spare one": {given: func(c *testcluster.Cluster) {
			group(c, 1, a("", 200, "1", "n0"), a("", 10, "1", "n0"), a("", 10, "1", "n1"))
		}, candidates: "n0: w-0[2]\nn1: w-1[2]\n[1]: spare 0, with [2]\n[2]: spare 1, whole 2 pods up to 10, with [1]"},
		"a GangGroup of which one gang does not run": {given: func(c *testcluster.Cluster) {
			group(c, 1, testcluster.Held(a("", 10, "1", ""), "outside"), a("", 10, "1", "n0"))
		}, candidates: "n0: w-0[1]\n[1]: spare 0, whole 1 pods up to 10"},
		"not the preemptor itself": {given: func(c *testcluster.Cluster) {}, candidates: ""},
		"budgets of the namespace, by name": {given: func(c *testcluster.Cluster) {
			c.Pod(app(a("x", 10, "1", "n0"), "web"))
			c.Pod(a("y", 10, "1", "n1"))
		}, budgets: []*policy.PodDisruptionBudget{budget("web", 2, "web"), none, all}, candidates: "n0: x+all=1+web=2\nn1: y+all=1"},
		"a negative budget allows no eviction": {given: func(c *testcluster.Cluster) {
			c.Pod(app(a("x", 10, "1", "n0"), "web"))
		}, budgets: []*policy.PodDisruptionBudget{budget("web", -1, "web")}, candidates: "n0: x+web=0"},
		"a pod with an accepted eviction counts no more": {given: func(c *testcluster.Cluster) {
			c.Pod(app(a("x", 10, "1", "n0"), "web"))
			c.Pod(app(a("y", 10, "1", "n0"), "web"))
		}, budgets: []*policy.PodDisruptionBudget{gone}, candidates: "n0: x+web=1 y"},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4", 1, pending(1, 100, "4"), c.given, c.budgets...)
			s.Wait(c.candidates, s.listCandidates)
		})
	}
}

// Victims that wait at Permit are requeued, and no budget counts them. A gang without running members has no spare
// member.
func TestVictimsAtPermitAreRequeued(t *testing.T) {
	all := func() *policy.PodDisruptionBudget {
		b := budget("all", 0, "")
		b.Spec.Selector = &metav1.LabelSelector{}
		return b
	}
	for name, test := range map[string]struct {
		given              func(c *testcluster.Cluster)
		held               []string
		candidates, evicts string
	}{
		"a gang without running members": {func(c *testcluster.Cluster) {
			c.Gang("g", 1, testcluster.Held(a("", 10, "4", ""), "inside"), testcluster.Held(a("", 10, "4", ""), "inside"))
			c.Pod(a("x", 1, "4", "n2"))
		}, []string{"g-0", "g-1"}, "n0: g-0[1] waits\nn1: g-1[1] waits\nn2: x+all=0\n" +
			"[1]: spare 0, whole 0 pods and 2 back up to 10", "g-0 g-1 for want-0=n0"},
		"a running member and a joining member": {func(c *testcluster.Cluster) {
			c.Gang("g", 1, a("", 10, "4", "n0"), testcluster.Held(a("", 10, "4", ""), "inside"))
			c.Pod(a("x", 1, "4", "n2"))
		}, []string{"g-1"}, "n0: g-0[1]+all=0\nn1: g-1 waits\nn2: x+all=0\n[1]: spare 0, whole 1 pods and 1 back up to 10", "g-1 for want-0=n1"},
		"a joining member does not make a running member spare": {func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "4", "n0"), a("", 10, "4", "n1"), testcluster.Held(a("", 200, "4", ""), "inside"))
		}, []string{"g-2"}, "", preempt.NoVictims.Says(0, 0)},
		"a running member below minMember": {func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "4", "n0"), testcluster.Held(a("", 10, "4", ""), "inside"), testcluster.Held(a("", 10, "4", ""), "inside"))
		}, []string{"g-1", "g-2"}, "n0: g-0[1]+all=0\nn1: g-1[1] waits\nn2: g-2[1] waits\n" +
			"[1]: spare 0, whole 1 pods and 2 back up to 10", "g-0 g-1 g-2 for want-0=n0"},
		"a pod without a gang": {func(c *testcluster.Cluster) {
			c.Pod(testcluster.Held(a("y", 10, "4", ""), "inside"))
			c.Pod(a("x", 1, "4", "n1"))
			c.Pod(a("z", 1, "4", "n2"))
		}, []string{"y"}, "n0: y waits\nn1: x+all=0\nn2: z+all=0", "y for want-0=n0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4 s/b/n2=4", 1, pending(1, 100, "4"), test.given, all())
			s.WaitHeld(test.held...)
			s.Wait(test.candidates, s.listCandidates)
			s.Wait(test.evicts, func() string { return s.evicts() })
		})
	}
}

// A joining member at Permit and a running member of its gang both free capacity. Both become victims with their
// gang, each once.
func TestJoiningMemberIsVictimOnceWithItsGang(t *testing.T) {
	s := wanting(t, "s/b/n0=4 s/b/n1=4", 2, pending(2, 100, "4"), func(c *testcluster.Cluster) {
		c.Gang("g", 1, a("", 10, "4", "n0"), testcluster.Held(a("", 10, "4", ""), "inside"))
	})
	s.WaitHeld("g-1")
	require.Equal(t, "g-0 g-1 for want-0=n0 want-1=n1", s.evicts())
}

// unlike returns n pods with increasing CPU requests in millicores.
func unlike(n, cpu int) (out []*v1.Pod) {
	for i := range n {
		out = append(out, a("", 100, fmt.Sprintf("%dm", cpu+i), ""))
	}
	return out
}

// The chosen victims, or the reason why there are none.
func TestVictimChoice(t *testing.T) {
	one := func(change ...func(*v1.Pod)) []*v1.Pod {
		p := a("", 100, "4", "")
		for _, f := range change {
			f(p)
		}
		return []*v1.Pod{p}
	}
	never := v1.PreemptNever
	for name, c := range map[string]struct {
		wants  []*v1.Pod
		least  int
		given  func(c *testcluster.Cluster)
		avoid  []string
		evicts string
	}{
		"the cheaper one": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 20, "4", "n0"))
			c.Pod(a("y", 10, "4", "n1"))
		}, nil, "y for want-0=n1"},
		"a gang is evicted whole": {one(), 1, func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "4", "n0"), a("", 10, "4", "n1"))
		}, nil, "g-0 g-1 for want-0=n0"},
		"no pod, since a pod terminates anyway": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(leaving(a("x", 20, "4", "n0")))
			c.Pod(a("y", 10, "4", "n1"))
		}, nil, " for want-0=n0"},
		"no candidates": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 200, "4", "n0"))
			c.Pod(a("y", 200, "4", "n1"))
		}, nil, "no potential victims"},
		"the nodes are too small": {[]*v1.Pod{a("", 100, "5", "")}, 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "1", "n0"))
		}, nil, "preemption is not helpful for scheduling"},
		"too small, with too many kinds of members to try": {unlike(17, 250), 17, func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "4", "n0"), a("", 200, "4", "n1"))
		}, nil, "no potential victims"},
		"a gang with minMember evicts no pod": {[]*v1.Pod{a("", 100, "4", "n0"), a("", 100, "4", "")}, 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n1"))
		}, nil, "not eligible: minMember is reached, further members do not evict"},
		"whatever its match policy": {[]*v1.Pod{a("", 100, "4", "n0"), onlyWaiting(a("", 100, "4", ""))}, 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n1"))
		}, nil, "not eligible: minMember is reached, further members do not evict"},
		"heterogeneous members, too": {[]*v1.Pod{
			a("", 100, "4", "n0"), a("", 100, "4", ""), a("", 100, "3", ""),
		}, 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n1"))
		}, nil, "not eligible: minMember is reached, further members do not evict"},
		"members beyond minMember evict no pod": {pending(2, 100, "4"), 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(a("y", 20, "4", "n1"))
		}, nil, "x for want-0=n0"},
		"heterogeneous members beyond minMember evict no pod": {[]*v1.Pod{
			a("", 100, "4", ""), a("", 100, "3", ""), a("", 100, "4", ""),
		}, 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(a("y", 20, "4", "n1"))
		}, nil, "x for want-0=n0"},
		"members beyond minMember take what is free": {pending(3, 100, "2"), 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(a("y", 20, "4", "n1"))
		}, nil, "x for want-0=n0 want-1=n0"},
		"the rest of minMember evicts": {[]*v1.Pod{
			a("", 100, "4", "n0"), a("", 100, "2", ""), a("", 100, "2", ""),
		}, 2, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "2", "n1"))
			c.Pod(a("y", 20, "2", "n1"))
		}, nil, "x for want-1=n1"},
		"there is room on a node that is left out": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
		}, []string{"n1"}, "not eligible: nodes that are excluded for now have capacity"},
		"there would be no room there": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 20, "4", "n0"))
			c.Pod(a("y", 10, "4", "n1"))
		}, []string{"n1"}, "x for want-0=n0"},
		"there would not be enough room there": {pending(2, 100, "4"), 2, func(c *testcluster.Cluster) {
			c.Pod(a("x", 20, "4", "n0"))
		}, []string{"n1"}, "preemption is not helpful for scheduling"},
		"a grace period of a day is the last choice": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(slow(a("x", 10, "4", "n0")))
			c.Pod(a("y", 20, "4", "n1"))
		}, nil, "y for want-0=n1"},
		"so is a gang with such a member": {one(), 1, func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 10, "4", "n0"), slow(a("", 10, "0", "n0")))
			c.Pod(a("y", 20, "2", "n1"))
			c.Pod(a("z", 20, "2", "n1"))
		}, nil, "y z for want-0=n1"},
		"a grace period of a day and no other victim": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(slow(a("x", 10, "4", "n0")))
			c.Pod(a("y", 200, "4", "n1"))
		}, nil, "x for want-0=n0"},
		"no gang waits a day for terminating pods": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(tomorrow(a("x", 10, "4", "n0")))
			c.Pod(a("y", 20, "4", "n1"))
		}, nil, "y for want-0=n1"},
		"except without another victim": {one(), 1, func(c *testcluster.Cluster) {
			c.Pod(tomorrow(a("x", 10, "4", "n0")))
			c.Pod(a("y", 200, "4", "n1"))
		}, nil, " for want-0=n0"},
		"a member must not preempt": {one(func(p *v1.Pod) { p.Spec.PreemptionPolicy = &never }), 1, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(a("y", 10, "4", "n1"))
		}, nil, "not eligible due to preemptionPolicy=Never"},
		"a GangGroup is evicted whole (case 50)": {one(), 1, func(c *testcluster.Cluster) {
			group(c, 2, a("", 10, "4", "n0"), a("", 10, "2", "n1"), a("", 10, "2", "n1"))
		}, nil, "l-0 w-0 w-1 for want-0=n0"},
		"two pods instead of a GangGroup": {one(), 1, func(c *testcluster.Cluster) {
			group(c, 2, a("", 10, "4", "n0"), a("", 10, "0", "n0"), a("", 10, "0", "n0"))
			c.Pod(a("x", 20, "2", "n1"))
			c.Pod(a("y", 20, "2", "n1"))
		}, nil, "x y for want-0=n1"},
		"a spare member of a GangGroup": {one(), 1, func(c *testcluster.Cluster) {
			group(c, 1, a("", 10, "4", "n0"), a("", 10, "2", "n1"), a("", 10, "0", "n0"))
			c.Pod(a("x", 20, "2", "n1"))
		}, nil, "w-0 x for want-0=n1"},
		"a GangGroup is evicted whole for heterogeneous members": {[]*v1.Pod{
			a("", 100, "3", ""), a("", 100, "1", ""),
		}, 2, func(c *testcluster.Cluster) {
			group(c, 1, a("", 10, "4", "n0"), a("", 10, "4", "n1"))
		}, nil, "l-0 w-0 for want-0=n0 want-1=n0"},
		"heterogeneous members": {[]*v1.Pod{a("", 100, "3", ""), a("", 100, "2", "")}, 2, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "2", "n0"))
			c.Pod(a("y", 20, "2", "n0"))
			c.Pod(a("z", 10, "3", "n1"))
		}, nil, "x z for want-0=n1 want-1=n0"},
		"members that keep apart": {[]*v1.Pod{apart(a("", 100, "1", "")), apart(a("", 100, "1", ""))}, 2, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(a("y", 20, "4", "n1"))
		}, nil, "x y for want-0=n0 want-1=n1"},
		"members that keep apart, without needless victims": {[]*v1.Pod{
			apart(a("", 100, "1", "")), apart(a("", 100, "1", "")),
		}, 2, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "2", "n0"))
			c.Pod(a("y", 20, "2", "n0"))
			c.Pod(a("z", 20, "4", "n1"))
			c.Gang("g", 1, a("", 10, "0", "n1"))
		}, nil, "x z for want-0=n0 want-1=n1"},
		"members that keep apart, on too few nodes": {[]*v1.Pod{
			apart(a("", 100, "1", "")), apart(a("", 100, "1", "")), apart(a("", 100, "1", "")),
		}, 3, func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(a("y", 20, "4", "n1"))
		}, nil, "preemption is not helpful for scheduling"},
		"the least important member counts": {[]*v1.Pod{a("", 100, "4", ""), a("", 15, "4", "")}, 2, func(c *testcluster.Cluster) {
			c.Pod(a("x", 20, "4", "n0"))
			c.Pod(a("y", 10, "4", "n1"))
		}, nil, "preemption is not helpful for scheduling"},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4", c.least, c.wants, c.given)
			s.Wait(c.evicts, func() string { return s.evicts(c.avoid...) })
			require.Empty(t, s.Evicted(), "a search evicts no pod")
			require.NotContains(t, strings.Join(s.Said(""), "\n"), "Preempted")
		})
	}
}
