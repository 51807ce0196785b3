package preempt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"

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
