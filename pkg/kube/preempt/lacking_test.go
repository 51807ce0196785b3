package preempt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// of puts a pod into a quota.
func of(quota string, p *v1.Pod) *v1.Pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, "quota", quota)
	return p
}

// A gang needs a node of 4 CPUs, and victims must also free quota. Pods of quota "theirs" are no victims.
func TestVictimsFreeCapacityAndQuota(t *testing.T) {
	const noHelp = "preemption is not helpful for scheduling"
	for name, test := range map[string]struct {
		given  func(c *testcluster.Cluster)
		lack   string
		avoid  []string
		evicts string
	}{
		"nothing is lacking": {given: func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(of("b", a("y", 20, "4", "n1")))
		}, evicts: "x for want-0=n0"},
		"the victim that frees a node is of the quota": {given: func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(of("b", a("y", 20, "4", "n1")))
		}, lack: "b", evicts: "y for want-0=n1"},
		"one for the node and one for the quota": {given: func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(of("b", a("y", 20, "1", "n1")))
			c.Pod(a("important", 200, "3", "n1"))
		}, lack: "b", evicts: "x y for want-0=n0"},
		"there is capacity, but no quota": {given: func(c *testcluster.Cluster) {
			c.Pod(of("b", a("x", 20, "4", "n0")))
			c.Pod(of("b", a("y", 10, "1", "n0")))
		}, lack: "b", evicts: "y for want-0=n1"},
		"no victim is of the quota": {given: func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "4", "n0"))
			c.Pod(a("y", 20, "4", "n1"))
		}, lack: "b", evicts: noHelp},
		"there is not as much": {given: func(c *testcluster.Cluster) {
			c.Pod(of("b", a("x", 10, "4", "n0")))
			c.Pod(a("y", 20, "4", "n1"))
		}, lack: "b b", evicts: noHelp},
		"the quotas would have enough, but there is no room": {given: func(c *testcluster.Cluster) {
			c.Pod(of("b", a("x", 10, "2", "n0")))
			c.Pod(a("important", 200, "2", "n0"))
			c.Pod(a("y", 200, "4", "n1"))
		}, lack: "b", evicts: noHelp},
		"no pod that the quotas protect": {given: func(c *testcluster.Cluster) {
			c.Pod(of("theirs", a("x", 10, "4", "n0")))
			c.Pod(a("y", 20, "4", "n1"))
		}, evicts: "y for want-0=n1"},
		"only pods that the quotas protect": {given: func(c *testcluster.Cluster) {
			c.Pod(of("theirs", a("x", 10, "4", "n0")))
			c.Pod(of("theirs", a("y", 20, "4", "n1")))
		}, lack: "b", evicts: "no potential victims"},
		"a victim for the quota makes a smaller victim enough": {given: func(c *testcluster.Cluster) {
			c.Pod(a("x", 20, "4", "n0"))
			c.Pod(of("b", a("y", 10, "2", "n1")))
			c.Pod(a("z", 10, "2", "n1"))
		}, lack: "b", evicts: "y z for want-0=n1"},
		"first two, of two quotas": {given: func(c *testcluster.Cluster) {
			c.Pod(a("x", 20, "4", "n0"))
			c.Pod(of("b", a("y", 10, "1", "n1")))
			c.Pod(of("c", a("w", 10, "1", "n1")))
			c.Pod(a("z", 10, "2", "n1"))
		}, lack: "b c", evicts: "w y z for want-0=n1"},
		"a spare member for the quota, then the rest of its gang": {given: func(c *testcluster.Cluster) {
			c.Pod(a("x", 20, "4", "n0"))
			c.Gang("g", 1, of("b", a("", 10, "2", "n1")), a("", 15, "2", "n1"))
		}, lack: "b", evicts: "g-0 g-1 for want-0=n1"},
		"room alone is cheaper than any other way": {given: func(c *testcluster.Cluster) {
			c.Pod(of("b", a("x", 10, "4", "n0")))
			c.Pod(of("b", a("y", 20, "2", "n1")))
			c.Pod(a("z", 5, "2", "n1"))
		}, lack: "b", evicts: "x for want-0=n0"},
		"a gang makes room, and is of the quota": {given: func(c *testcluster.Cluster) {
			c.Gang("g", 2, of("b", a("", 10, "4", "n0")), of("b", a("", 10, "1", "n1")))
			c.Pod(a("important", 200, "3", "n1"))
		}, lack: "b b", evicts: "g-0 g-1 for want-0=n0"},
		"at most so many of one quota": {given: func(c *testcluster.Cluster) {
			for i := range 10 {
				c.Pod(of("b", a(fmt.Sprint("x", i), 10, "400m", "n0")))
			}
			for i := range 6 {
				c.Pod(of("b", a(fmt.Sprint("y", i), 10, "333m", "n1")))
				c.Pod(of("c", a(fmt.Sprint("z", i), 20, "333m", "n1")))
			}
		}, lack: "b<6", evicts: "y0 y1 y2 y3 y4 y5 z0 z1 z2 z3 z4 z5 for want-0=n1"},
		"at most so many of one quota on one node": {given: func(c *testcluster.Cluster) {
			for i := range 10 {
				c.Pod(of("b", a(fmt.Sprint("x", i), 10, "200m", "n0")))
				c.Pod(of("c", a(fmt.Sprint("z", i), 20, "200m", "n0")))
			}
			c.Pod(a("important", 200, "4", "n1"))
		}, lack: "b<9", evicts: noHelp},
		"there is room on a node that is left out": {given: func(c *testcluster.Cluster) {
			c.Pod(of("b", a("x", 10, "4", "n0")))
		}, lack: "b", avoid: []string{"n1"}, evicts: "not eligible: nodes that are excluded for now have capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4", 1, pending(1, 100, "4"), test.given)
			s.Plugin.Preemptor.Quotas = preempt.Lack(test.lack)
			require.Equal(t, test.evicts, s.evicts(test.avoid...))
		})
	}
}

// With many kinds of members not all victim sets are tried. Single victims are spared instead, the most important
// first.
func TestManyKindsOfMembersSpareNeedlessVictims(t *testing.T) {
	for name, test := range map[string]struct {
		given func(c *testcluster.Cluster)
		gone  string
	}{
		"no needless victim": {func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "3", "n0"))
			c.Pod(a("y", 5, "1", "n0"))
		}, "x"},
		"the more important pod stays": {func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "2", "n0"))
			c.Pod(a("y", 20, "2", "n0"))
		}, "x"},
		"two of three": {func(c *testcluster.Cluster) {
			c.Pod(a("x", 10, "1", "n0"))
			c.Pod(a("y", 30, "1", "n0"))
			c.Pod(a("z", 20, "1", "n0"))
			c.Pod(a("w", 200, "1", "n0"))
		}, "x z"},
		"a gang, which is cheaper": {func(c *testcluster.Cluster) {
			c.Gang("g", 1, a("", 1, "2", "n0"))
			c.Pod(a("x", 10, "2", "n0"))
		}, "g-0"},
		"no member of a gang that would be evicted whole": {func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 1, "1", "n0"), a("", 1, "1", "n0"))
			c.Pod(a("x", 10, "2", "n0"))
		}, "x"},
		"all of a gang": {func(c *testcluster.Cluster) {
			c.Gang("g", 2, a("", 1, "1", "n0"), a("", 1, "1", "n0"))
			c.Pod(a("x", 200, "2", "n0"))
		}, "g-0 g-1"},
		"a spare member": {func(c *testcluster.Cluster) {
			c.Gang("g", 1, a("", 10, "2", "n0"), a("", 200, "2", "n0"))
		}, "g-0"},
		"terminating pods count as gone": {func(c *testcluster.Cluster) {
			c.Pod(leaving(a("x", 10, "2", "n0")))
			c.Pod(a("y", 5, "2", "n0"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4", 17, unlike(17, 100), func(c *testcluster.Cluster) {
				c.Pod(a("other", 200, "4", "n1"))
				test.given(c)
			})
			gone, places, verdict := s.Plugin.Preemptor.Asked(t.Context(), s.attempt())
			require.Equal(t, preempt.Evicts, verdict)
			slices.Sort(gone)
			require.Equal(t, test.gone, strings.Join(gone, " "))
			require.Len(t, places, 17)
		})
	}
}

// parts creates a gang of sub-groups with at least two members each. The gang needs least of these sub-groups.
func parts(c *testcluster.Cluster, least int64, members ...*v1.Pod) {
	for _, p := range members {
		p.Labels["app"] = "low"
	}
	c.VolcanoGang("low", map[string]any{"minMember": 2 * least, "subGroupPolicy": []any{map[string]any{
		"name": "part", "subGroupSize": int64(2), "minSubGroups": least,
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app": "low"}}, "matchLabelKeys": []any{"part"},
	}}}, members...)
}

// in puts a pod into a sub-group.
func in(part string, p *v1.Pod) *v1.Pod {
	p.Labels = map[string]string{"part": part}
	return p
}

// A gang needs a node, and the victims are members of sub-groups: one on n0 and n1, one on n2 and n3.
func TestSubGroupsAsVictims(t *testing.T) {
	for name, test := range map[string]struct {
		least              int64
		first              int32 // priority of the first sub-group
		candidates, evicts string
	}{
		"one that is not needed": {1, 20, "n0: low-0[1]\nn1: low-1[1]\nn2: low-2[2]\nn3: low-3[2]\n" +
			"[1]: spare 0, whole 2 pods up to 20, with [2]\n[2]: spare 0, whole 2 pods up to 10, with [1]", "low-2 low-3 for want-0=n2"},
		"the other one is too important": {1, 200, "n2: low-2[2]\nn3: low-3[2]\n" +
			"[1]: spare 0, with [2]\n[2]: spare 0, whole 2 pods up to 10, with [1]", "low-2 low-3 for want-0=n2"},
		"both are needed": {2, 20, "n0: low-0[1]\nn1: low-1[1]\nn2: low-2[1]\nn3: low-3[1]\n" +
			"[1]: spare 0, whole 4 pods up to 20", "low-0 low-1 low-2 low-3 for want-0=n0"},
		"both are needed, and one is too important": {2, 200, "", "no potential victims"},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4 s/b/n2=4 s/b/n3=4", 1, pending(1, 100, "4"), func(c *testcluster.Cluster) {
				parts(c, test.least, in("0", a("", test.first, "4", "n0")), in("0", a("", test.first, "4", "n1")), in("1", a("", 10, "4", "n2")),
					in("1", a("", 10, "4", "n3")))
			})
			s.Wait(test.candidates, s.listCandidates)
			s.Wait(test.evicts, func() string { return s.evicts() })
		})
	}
}

// The gangs that are evicted whole with a set of pods. A gang that can spare a sub-group counts once all its
// sub-groups are victims.
func TestGangsEvictedWholeAreListed(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8")
	parts(c, 1, in("0", a("", 10, "1", "n0")), in("0", a("", 10, "1", "n0")), in("1", a("", 10, "1", "n0")), in("1", a("", 10, "1", "n0")))
	c.Gang("g", 1, a("", 10, "1", "n0"), a("", 10, "1", "n0"))
	c.Pod(a("x", 10, "1", "n0"))
	c.Run()
	c.Wait("known", func() string {
		if c.Plugin.Cache.Open() {
			return "known"
		}
		return ""
	})
	for gone, want := range map[string]string{
		"":                              "",
		"x":                             "",
		"g-0":                           "",
		"g-0 g-1 x":                     "default/g",
		"low-0 low-1":                   "",
		"low-0":                         "",
		"low-0 low-1 low-2 low-3":       "default/low",
		"low-0 low-2":                   "default/low",
		"g-0 g-1 low-0 low-1 low-2":     "default/g default/low",
		"g-0 low-0 low-1 low-2 low-3 x": "default/low",
	} {
		var pods []*v1.Pod
		for name := range strings.FieldsSeq(gone) {
			pods = append(pods, c.Get(name))
		}
		var got []string
		_, whole := eligible.WithBundles(c.Plugin.Cache, pods)
		for _, of := range whole {
			got = append(got, of.String())
		}
		require.Equal(t, want, strings.Join(got, " "), gone)
	}
}

// The possible victims of each node with any grace period, and the terminating pods.
func TestPossibleVictimsOfEachNode(t *testing.T) {
	for name, test := range map[string]struct {
		given func(c *testcluster.Cluster)
		want  string
		none  bool
	}{
		"all that may": {func(c *testcluster.Cluster) {
			c.Pod(slow(a("x", 10, "1", "n0")))
			c.Pod(a("high", 200, "1", "n0"))
			c.Gang("g", 1, a("", 10, "1", "n1"))
		}, "x | g-0", false},
		"terminating pods": {func(c *testcluster.Cluster) {
			c.Pod(tomorrow(a("x", 10, "1", "n0")))
			c.Pod(a("y", 10, "1", "n0"))
		}, "x y | ", false},
		"no candidates": {func(c *testcluster.Cluster) { c.Pod(a("high", 200, "1", "n0")) }, " | ", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4", 1, pending(1, 100, "4"), test.given)
			at := s.attempt()
			gone, none := s.Plugin.Preemptor.Candidates(t.Context(), at)
			var nodes []string
			for _, here := range gone {
				var names []string
				for _, pod := range here {
					names = append(names, pod.Name)
				}
				slices.Sort(names)
				nodes = append(nodes, strings.Join(names, " "))
			}
			require.Equal(t, test.want, strings.Join(nodes, " | "))
			require.Equal(t, test.none, none)
			require.Equal(t, preempt.Evicts, s.Plugin.Preemptor.May(at))
		})
	}
}

// Victims are searched only if the gang may preempt and preemption is enabled.
func TestPreemptionIsAllowed(t *testing.T) {
	s := wanting(t, "s/b/n0=4", 1, pending(1, 100, "4"), func(c *testcluster.Cluster) { c.Pod(a("x", 10, "4", "n0")) })
	p, at := s.Plugin.Preemptor, s.attempt()
	require.Equal(t, preempt.Evicts, p.May(at))
	at.Group.Pods["default/want-0"].Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	require.Equal(t, preempt.Never, p.May(at))
	at.Group.Pods["default/want-0"].Spec.PreemptionPolicy = nil
	at.Group.Holding = true
	require.Equal(t, preempt.NoHelp, p.May(at), "it keeps its reserved nodes")
	o := p.Options // another preemptor: this one may still read evictions of an earlier process
	o.Limits = func() preempt.Limits { l := p.Limits(); l.Enabled = false; return l }
	require.Equal(t, preempt.Off, preempt.New(o).May(at))
}

// asked is Lacking that counts the pods of all quota checks.
type asked struct {
	preempt.Lacking
	pods *int
}

func (a asked) Claim(*cache.Group, time.Duration) preempt.VictimSearch { return a }

func (a asked) Enough(gone []*v1.Pod) bool {
	*a.pods += len(gone)
	return a.Lacking.Enough(gone)
}

// Many victims are needed for nodes, and as many for quotas with many candidates. The search for cheaper victims ends
// soon, because all gangs wait for it.
func TestQuotaSearchIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		may     string
		verdict preempt.Verdict
	}{
		"some are found":       {"", preempt.Evicts},
		"no victims are found": {" b<19", preempt.NoHelp},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []string
			for i := range 20 {
				nodes = append(nodes, fmt.Sprintf("s/b/n%d=4", i))
			}
			for i := range 100 {
				nodes = append(nodes, fmt.Sprintf("s/b/small%d=3", i))
			}
			s := wanting(t, strings.Join(nodes, " "), 20, pending(20, 100, "4"), func(c *testcluster.Cluster) {
				for i := range 20 {
					c.Pod(a(fmt.Sprint("x", i), 10, "4", fmt.Sprint("n", i)))
				}
				for i := range 300 {
					c.Pod(of("b", a(fmt.Sprint("y", i), 10, "1", fmt.Sprint("small", i/3))))
				}
			})
			quotas := asked{preempt.Lack(strings.Repeat("b ", 20) + test.may), new(int)}
			s.Plugin.Preemptor.Quotas = quotas
			gone, _, verdict := s.Plugin.Preemptor.Asked(t.Context(), s.attempt())
			require.Equal(t, test.verdict, verdict)
			if verdict == preempt.Evicts {
				require.Len(t, gone, 40)
			}
			require.Less(t, *quotas.pods, 700_000)
		})
	}
}
