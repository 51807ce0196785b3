package preempt_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"

	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// BenchmarkPodPreemption has a pod without a gang look for victims among the members of one
// gang that has as many nodes as members and can spare nobody. The stock rules look at a
// tenth of the nodes, and on each of them the whole gang is the victim: that must not cost
// as many steps as the gang has members for each node.
func BenchmarkPodPreemption(b *testing.B) {
	for _, members := range []int{500, 1000, 2000, 4000} {
		for _, budgets := range []int{0, 2} {
			b.Run(fmt.Sprintf("members=%d/budgets=%d", members, budgets), func(b *testing.B) {
				var nodes strings.Builder
				for i := range members {
					fmt.Fprintf(&nodes, "s/b/n%d=8 ", i)
				}
				c := testcluster.New(b, nodes.String())
				var pdbs []*policy.PodDisruptionBudget
				for i := range budgets {
					p := budget(fmt.Sprint("budget-", i), int32(members/2+i), "train")
					p.Namespace = "default"
					pdbs = append(pdbs, p)
				}
				var gang []*v1.Pod
				for i := range members {
					gang = append(gang, app(a("", 10, "8", fmt.Sprint("n", i)), "train"))
				}
				c.Gang("g", members, gang...)
				c.Run()
				c.Pod(a("first", 0, "0", "")) // with it the scheduler takes its snapshot
				c.Wait("bound", func() string {
					if c.Get("first").Spec.NodeName != "" {
						return "bound"
					}
					return ""
				})
				var stock *defaultpreemption.DefaultPreemption
				for _, e := range c.Profile().EnqueueExtensions() {
					if p, ok := e.(*defaultpreemption.DefaultPreemption); ok {
						stock = p
					}
				}
				pod := a("high", 100, "8", "")
				pod.Namespace = "default"
				infos, err := c.Profile().SnapshotSharedLister().NodeInfos().List()
				require.NoError(b, err)
				state := framework.NewCycleState()
				_, status, _ := c.Profile().RunPreFilterPlugins(b.Context(), state, pod)
				require.True(b, status.IsSuccess(), status)
				for b.Loop() {
					stock.Evaluator.PodEligibleToPreemptOthers(b.Context(), pod, nil)
					found, _, err := stock.Evaluator.DryRunPreemption(b.Context(), state, pod, infos, pdbs, 0, int32(members/10))
					require.NoError(b, err)
					best := stock.Evaluator.SelectCandidate(b.Context(), found)
					require.Len(b, best.Victims().Pods, members)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*members), "ns/member")
			})
		}
	}
}

// BenchmarkUnlikeMembers evicts from a full cluster for a gang of 96 members of three sizes, whose ways are
// too many to look at all of them: single pods of unlike sizes, or gangs for a smaller gang. What it
// costs must not grow with the number of ways.
func BenchmarkUnlikeMembers(b *testing.B) {
	for _, c := range []struct {
		name           string
		nodes, members int
		gangs          bool
	}{
		{"pods", 54, 96, false},
		{"pods", 108, 96, false},
		{"pods", 216, 96, false},
		{"gangs", 54, 27, true},
		{"gangs", 108, 27, true},
		{"gangs", 216, 27, true},
	} {
		b.Run(fmt.Sprintf("%s/nodes=%d", c.name, c.nodes), func(b *testing.B) {
			var nodes strings.Builder
			for i := range c.nodes {
				fmt.Fprintf(&nodes, "s%d/b%d/n%d=8 ", i/36, i/12, i)
			}
			var wants []*v1.Pod
			for i := range c.members {
				wants = append(wants, a("", 1000, fmt.Sprint(1+i%3), ""))
			}
			l := last(wanting(b, nodes.String(), c.members, wants, func(t *testcluster.Cluster) {
				var some []*v1.Pod
				for i := range 4 * c.nodes {
					p := a(fmt.Sprint("v", i), int32(10+i%3), fmt.Sprintf("%dm", []int{1700, 1880, 2140, 2240}[i%4]+i%37), fmt.Sprint("n", i/4))
					if some = append(some, p); !c.gangs {
						t.Pod(p)
					} else if len(some) == 6 {
						t.Gang(fmt.Sprint("g", i), 6, some...)
						some = nil
					}
				}
			}))
			attempt := l.try(l.Get("want-0"), l.planner, l.known)
			before := spent(b)
			for b.Loop() {
				_, _, verdict := l.Plugin.Preemptor.Asked(b.Context(), attempt)
				require.Equal(b, preempt.Evicts, verdict)
			}
			b.ReportMetric(float64((spent(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// spent is what the processors have spent on the process, which does not depend on what else runs on the
// machine.
func spent(b *testing.B) time.Duration {
	var use syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
