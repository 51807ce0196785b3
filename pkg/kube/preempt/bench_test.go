package preempt_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	kubegroup "github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// BenchmarkPodPreemption searches victims for a pod without a gang on 1,000 full nodes. Each node has 19 pods of
// three priorities, of one size or three, or members of gangs that can spare none. For comparison, stock is
// DefaultPreemption's dry run of the same pod.
func BenchmarkPodPreemption(b *testing.B) {
	const nodes, perNode = 1000, 19
	var list strings.Builder
	for i := range nodes {
		fmt.Fprintf(&list, "s%d/b%d/n%d=20 ", i/100, i/10, i)
	}
	for name, given := range map[string]func(c *testcluster.Cluster){
		"pods": func(c *testcluster.Cluster) {
			for i := range perNode * nodes {
				c.Pod(ordinary(a(fmt.Sprint("v", i), int32(10+i%3), "1050m", fmt.Sprint("n", i/perNode))))
			}
		},
		"unlike pods": func(c *testcluster.Cluster) {
			for i := range perNode * nodes {
				c.Pod(ordinary(a(fmt.Sprint("v", i), int32(10+i%3), []string{"1000m", "1050m", "1100m"}[i%3], fmt.Sprint("n", i/perNode))))
			}
		},
		"gangs": func(c *testcluster.Cluster) {
			for g := range nodes / 4 {
				var members []*v1.Pod
				for m := range 8 {
					members = append(members, ordinary(a("", 10, "10", fmt.Sprint("n", 4*g+m/2))))
				}
				c.Gang(fmt.Sprint("g", g), 8, members...)
			}
		},
	} {
		c := testcluster.New(b, list.String())
		given(c)
		c.Run()
		c.Pod(a("first", 0, "0", "")) // the scheduler takes its snapshot for it
		c.Wait("bound", func() string {
			if c.Get("first").Spec.NodeName != "" {
				return "bound"
			}
			return ""
		})
		infos, err := c.Profile().SnapshotSharedLister().NodeInfos().List()
		require.NoError(b, err)
		pod := ordinary(a("high", 100, "2", ""))
		pod.Namespace, pod.UID = "default", "high"
		b.Run(name+"/muster", func(b *testing.B) {
			planner := place.NewPlanner(c.Profile(), c.Plugin.Cache)
			before := spent(b)
			for b.Loop() {
				attempt := planner.NewAttempt(kubegroup.Alone(pod, ""), infos, nil)
				_, _, err := attempt.Plan(b.Context())
				require.NoError(b, err)
				c.Plugin.Preemptor.ForgetFailedSearches()
				_, _, verdict := c.Plugin.Preemptor.Asked(b.Context(), attempt)
				require.Equal(b, preempt.Evicts, verdict)
			}
			b.ReportMetric(float64((spent(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
		b.Run(name+"/stock", func(b *testing.B) {
			args := &schedulerconfig.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}
			stock, err := defaultpreemption.New(b.Context(), args, c.Profile(), feature.Features{})
			require.NoError(b, err)
			before := spent(b)
			for b.Loop() {
				state := framework.NewCycleState()
				_, status, _ := c.Profile().RunPreFilterPlugins(b.Context(), state, pod)
				require.True(b, status.IsSuccess(), status)
				offset, candidates := stock.GetOffsetAndNumCandidates(nodes)
				found, _, err := stock.Evaluator.DryRunPreemption(b.Context(), state, pod, infos, nil, offset, candidates)
				require.NoError(b, err)
				require.NotNil(b, stock.Evaluator.SelectCandidate(b.Context(), found))
			}
			b.ReportMetric(float64((spent(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// ordinary adds what controllers and the API server write into nearly every pod.
func ordinary(p *v1.Pod) *v1.Pod {
	p.Labels = map[string]string{"app": "web", "pod-template-hash": "6b8d7c9f5"}
	seconds := int64(300)
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		p.Spec.Tolerations = append(p.Spec.Tolerations,
			v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	p.Spec.Volumes = []v1.Volume{{Name: "kube-api-access", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}}
	return p
}

// BenchmarkHeterogeneousMembers evicts from a full cluster for a gang of 96 members of three sizes. The victims are
// single pods of different sizes, or gangs for a smaller gang. There are too many victim sets to try all, and the
// cost must not grow with their number.
func BenchmarkHeterogeneousMembers(b *testing.B) {
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

// spent returns the CPU time of the process, which does not depend on other processes.
func spent(b *testing.B) time.Duration {
	var use syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
