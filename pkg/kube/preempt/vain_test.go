package preempt_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// lasting is a still cluster with one snapshot that tests change.
type lasting struct {
	*still
	planner *place.Planner
	known   []fwk.NodeInfo
}

func last(s *still) *lasting {
	return &lasting{still: s, planner: place.NewPlanner(s.Profile(), s.Plugin.Cache), known: s.infos()}
}

// put adds a pod to its node in the snapshot, in place of a pod of the same name.
func (l *lasting) put(pod *v1.Pod) {
	pod.Namespace = "default"
	i := slices.IndexFunc(l.known, func(n fwk.NodeInfo) bool { return n.Node().Name == pod.Spec.NodeName })
	for _, old := range l.known[i].GetPods() {
		if old.GetPod().Name == pod.Name {
			pod.UID = old.GetPod().UID
			require.NoError(l.t, l.known[i].RemovePod(klog.Background(), old.GetPod()))
			break
		}
	}
	info, err := framework.NewPodInfo(pod)
	require.NoError(l.t, err)
	l.known[i].AddPodInfo(info)
}

// given adds a running member to a gang in the cache, but not in the snapshot.
func (l *lasting) given(name string) {
	p := a(name, 10, "0", "n0")
	gang, _, _ := strings.Cut(name, "-")
	p.Labels = map[string]string{scheduling.LabelPodGroup: gang}
	l.Pod(p)
	l.Wait("seen", func() string {
		if l.Plugin.Cache.Pod("default/"+name) != nil {
			return "seen"
		}
		return ""
	})
}

// asks returns the victims for a gang or the reason for none, and the number of searched nodes.
func (l *lasting) asks(gang string) (evicts string, searched int64) {
	l.t.Helper()
	a := l.try(l.Get(gang+"-0"), l.planner, l.known)
	before := l.Plugin.Preemptor.Searched()
	gone, _, verdict := l.Plugin.Preemptor.Asked(l.t.Context(), a)
	evicts = verdict.Says(0, 0)
	if verdict == preempt.Evicts {
		slices.Sort(gone)
		evicts = "evicts " + strings.Join(gone, " ")
	}
	return evicts, l.Plugin.Preemptor.Searched() - before
}

// A failed search for victims is repeated only on nodes that have changed. It then finds the victims there.
func TestFailedSearchIsNotRepeatedUntilNodesChange(t *testing.T) {
	const noHelp = "preemption is not helpful for scheduling"
	for name, do := range map[string]struct {
		what     func(l *lasting)
		gang     string
		evicts   string
		searched int64
	}{
		"nothing":             {func(*lasting) {}, "want", noHelp, 0},
		"a gang like it asks": {func(*lasting) {}, "like", noHelp, 0},
		"one that asks for something else": {
			func(*lasting) {}, "less", "evicts low", 4,
		},
		"a pod comes to a spine": {func(l *lasting) { l.put(a("z", 500, "0", "n3")) }, "want", noHelp, 2},
		"one is less important":  {func(l *lasting) { l.put(a("high", 50, "4", "n1")) }, "want", "evicts high low", 2 + 4},
		"one may be evicted": {
			func(l *lasting) { l.put(a("safe", 10, "1", "n3")) }, "want", "evicts g-0 g-1 safe", 2 + 4,
		},
		"one may be evicted, and a gang that may go anywhere has asked since": {func(l *lasting) {
			l.asks("any")
			l.put(a("safe", 10, "1", "n3"))
			evicts, _ := l.asks("any")
			require.Equal(l.t, "evicts g-0 g-1 safe", evicts)
		}, "want", "evicts g-0 g-1 safe", 2 + 4},
		"a budget": {func(l *lasting) {
			b := budget("web", 1, "web")
			b.Namespace = "default"
			require.NoError(t, l.Client.Tracker().Add(b))
			l.Wait("seen", func() string {
				all, _ := l.Profile().SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
				if slices.ContainsFunc(all, func(b *policy.PodDisruptionBudget) bool { return b.Name == "web" }) {
					return "seen"
				}
				return ""
			})
		}, "want", noHelp, 4},
		"the gang of a victim gets a member elsewhere that it can spare": {func(l *lasting) {
			l.given("g-2")
		}, "want", noHelp, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := last(wanting(t, "s/b/n0=4 s/b/n1=4 s2/c/n2=4 s2/c/n3=4", 2, pending(2, 100, "4"), func(c *testcluster.Cluster) {
				c.Pod(a("low", 10, "4", "n0"))
				c.Pod(a("high", 200, "4", "n1"))
				c.Gang("g", 2, a("", 10, "4", "n2"), a("", 10, "3", "n3"))
				c.Pod(protected(a("safe", 10, "1", "n3")))
				for gang, cpus := range map[string]string{"like": "4", "less": "2"} {
					both := pending(2, 100, cpus)
					for _, p := range both {
						testcluster.Held(p, "outside")
					}
					c.Gang(gang, 2, both...)
				}
				anywhere := pending(2, 100, "4")
				for _, p := range anywhere {
					testcluster.Held(p, "outside")
				}
				c.GangWith(nil, "any", 2, anywhere...)
			}))
			for _, gang := range []string{"like", "less", "any"} {
				l.Wait("2", func() string {
					if group, refusal := l.Plugin.Cache.Group(l.Get(gang + "-0")); !refusal.Exists() && len(group.Pending) == 2 {
						return "2"
					}
					return ""
				})
			}
			evicts, searched := l.asks("want")
			require.Equal(t, noHelp, evicts)
			require.EqualValues(t, 4, searched)
			do.what(l)
			evicts, searched = l.asks(do.gang)
			require.Equal(t, do.evicts, evicts)
			require.Equal(t, do.searched, searched)
			if evicts == noHelp {
				_, searched = l.asks(do.gang)
				require.Zero(t, searched, "the second time")
			}
		})
	}
}

// quotaWith is a quota with a min.
func quotaWith(c *testcluster.Cluster, name, least string) {
	c.Quota(name, "96", nil)
	if least != "" {
		c.EditQuotaSpec(name, map[string]any{"min": map[string]any{"cpu": least}, "max": map[string]any{"cpu": "96"}})
	}
}

// A failed search is repeated when quotas allow other victims, although no node has changed. It is not repeated after
// quota changes that allow no other victims.
func TestFailedSearchIsNotRepeatedUntilQuotasChange(t *testing.T) {
	least := func(l *lasting, name, is string) func() string {
		return func() string {
			for _, q := range l.Plugin.Quotas() {
				if q.Name == name && q.Min["cpu"] == is {
					return "seen"
				}
			}
			return ""
		}
	}
	for name, do := range map[string]struct {
		what     func(l *lasting)
		evicts   string
		searched int64
	}{
		"nothing": {func(*lasting) {}, "", 0},
		"another quota has a new pod": {func(l *lasting) {
			told := l.Plugin.Preemptor.Quotas.Revision()
			l.Pod(inQuota("o", testcluster.Held(a("other", 50, "1", ""), "outside")))
			// This pod is bound. Otherwise the scheduler would search at the same time as the test.
			l.Pod(inQuota("o", a("more", 50, "1", "n4")))
			l.Wait("true", func() string { return fmt.Sprint(l.Plugin.Preemptor.Quotas.Revision() != told) })
		}, "", 0},
		"others borrow": {func(l *lasting) {
			l.EditQuota("o", "96")
			l.Wait("seen", least(l, "o", ""))
		}, "evicts o0 o1", 2 + 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wants := pending(2, 100, "4")
			for _, p := range wants {
				inQuota("a", p)
			}
			l := last(wanting(t, "s/b/n0=4 s/b/n1=4 s2/c/n2=4 s2/c/n3=4 s3/d/n4=64", 2, wants, func(c *testcluster.Cluster) {
				c.EditNode("n4", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "others", Effect: v1.TaintEffectNoSchedule}} })
				quotaWith(c, "a", "16")
				quotaWith(c, "o", "9")
				c.Pod(inQuota("o", a("o0", 200, "4", "n0")))
				c.Pod(inQuota("o", a("o1", 200, "4", "n1")))
				c.Pod(protected(a("p2", 10, "4", "n2")))
				c.Pod(protected(a("p3", 10, "4", "n3")))
			}))
			l.Wait("seen", least(l, "a", "16"))
			l.Wait("seen", least(l, "o", "9"))
			// All pods count in their quotas.
			l.Wait("koordinator-root-quota 16 a 8 o 8 koordinator-default-quota 8", func() string {
				var requests []string
				for _, q := range l.Plugin.Quotas() {
					if q.Request["cpu"] != "" {
						requests = append(requests, q.Name, q.Request["cpu"])
					}
				}
				return strings.Join(requests, " ")
			})
			evicts, searched := l.asks("want")
			require.NotContains(t, evicts, "evicts")
			require.EqualValues(t, 5, searched)
			do.what(l)
			again, searched := l.asks("want")
			require.Equal(t, cmp.Or(do.evicts, evicts), again)
			require.Equal(t, do.searched, searched)
		})
	}
}

// A search for several attempts of a group is limited to a number of nodes, but tries at least two. The verdict says
// that some attempts were not tried. They are tried next if nothing changes.
func TestSearchOfManyAttemptsIsBounded(t *testing.T) {
	l := last(wanting(t, "s/b/n0=4 s/b/n1=4", 1, []*v1.Pod{
		a("", 100, "4", ""), a("", 100, "3", ""), a("", 100, "2", ""),
	}, func(c *testcluster.Cluster) {
		c.Pod(protected(a("p0", 10, "4", "n0")))
		c.Pod(protected(a("p1", 10, "3", "n1")))
		c.Pod(a("low", 10, "1", "n1"))
	}))
	among := func(nodes int64) (verdict preempt.Verdict, searched int64) {
		whole := l.try(l.Get("want-0"), l.planner, l.known)
		var some []*place.Attempt
		for i := range whole.Group.Pending {
			one := l.planner.NewAttempt(whole.Group, l.known, nil).For(whole.Group.Pending[i : i+1])
			_, _, err := one.Plan(t.Context())
			require.NoError(t, err)
			some = append(some, one)
		}
		before := l.Plugin.Preemptor.Searched()
		verdict = l.Plugin.Preemptor.AskedAmong(t.Context(), nodes, some...)
		return verdict, l.Plugin.Preemptor.Searched() - before
	}
	for _, want := range []struct {
		verdict  preempt.Verdict
		searched int64
	}{{preempt.Untried, 4}, {preempt.NoHelp, 2}, {preempt.NoHelp, 0}} {
		verdict, searched := among(3)
		require.Equal(t, want.verdict, verdict)
		require.Equal(t, want.searched, searched)
	}
	l.Plugin.Preemptor.ForgetFailedSearches()
	verdict, searched := among(6)
	require.Equal(t, preempt.NoHelp, verdict)
	require.EqualValues(t, 6, searched)
}

// inQuota is a pod of a quota.
func inQuota(quota string, p *v1.Pod) *v1.Pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, scheduling.LabelQuotaName, quota)
	return p
}

// BenchmarkFailedSearch measures a search without victims: the first time, after a change of one pod, and without a
// change.
func BenchmarkFailedSearch(b *testing.B) {
	const spines, size = 16, 128
	var nodes strings.Builder
	for i := range spines * size {
		fmt.Fprintf(&nodes, "s%d/b%d/n%d=8 ", i/size, i/16, i)
	}
	l := last(wanting(b, nodes.String(), size, pending(size, 100, "8"), func(c *testcluster.Cluster) {
		for i := range spines * size {
			for k := range 8 {
				pod := a(fmt.Sprintf("p-%d-%d", i, k), int32(k), "1", fmt.Sprint("n", i))
				if i%size == 0 && k == 0 {
					protected(pod)
				}
				c.Pod(pod)
			}
		}
	}))
	for _, c := range []struct {
		name         string
		forget, move bool
	}{{"first", true, false}, {"changed", false, true}, {"same", false, false}} {
		b.Run(c.name, func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				if c.forget {
					l.Plugin.Preemptor.ForgetFailedSearches()
				}
				if c.move {
					l.put(a("p-5-1", 1, "1", "n5"))
				}
				a := l.try(l.Get("want-0"), l.planner, l.known)
				began := time.Now()
				_, _, verdict := l.Plugin.Preemptor.Asked(b.Context(), a)
				took += time.Since(began)
				require.Equal(b, preempt.NoHelp, verdict)
			}
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "ms/search")
		})
	}
}

// A gang has members of two quotas with different eligible victims. Its failed search is repeated when the second
// quota may evict more.
func TestFailedSearchOfSeveralQuotasIsRepeated(t *testing.T) {
	wants := pending(2, 100, "4")
	inQuota("b", wants[0])
	inQuota("c", wants[1])
	l := last(wanting(t, "s/b/n0=4 s/b/n1=4 s2/c/n2=4 s2/c/n3=4 s3/d/n4=64", 2, wants, func(c *testcluster.Cluster) {
		c.EditNode("n4", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "others", Effect: v1.TaintEffectNoSchedule}} })
		quotaWith(c, "b", "16")
		quotaWith(c, "c", "")
		quotaWith(c, "o", "")
		c.Pod(inQuota("o", a("o0", 200, "4", "n0")))
		c.Pod(inQuota("o", a("o1", 200, "4", "n1")))
		c.Pod(protected(a("p2", 10, "4", "n2")))
		c.Pod(protected(a("p3", 10, "4", "n3")))
	}))
	hasMin := func(name, is string) func() string {
		return func() string {
			for _, q := range l.Plugin.Quotas() {
				if q.Name == name && q.Min["cpu"] == is {
					return "seen"
				}
			}
			return ""
		}
	}
	l.Wait("seen", hasMin("b", "16"))
	l.Wait("seen", hasMin("c", ""))
	first, _ := l.asks("want")
	require.Equal(t, "preemption is not helpful for scheduling", first)
	l.EditQuotaSpec("c", map[string]any{"min": map[string]any{"cpu": "16"}, "max": map[string]any{"cpu": "96"}})
	l.Wait("seen", hasMin("c", "16"))
	evicts, _ := l.asks("want")
	require.NotEqual(t, first, evicts)
}
