package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// contender is a way to bind a backlog.
type contender struct {
	name string
	// program is the scheduler's; none binds by itself.
	program string
	gates   string   // --feature-gates.
	profile string   // schedulerName.
	foreign *foreign // it is another project's; nil: it is Kubernetes' or ours.
	before  bool     // it is another build of Muster, which only a flag brings in.
	quotas  bool     // its gangs have quotas; only a flag brings it in.
	whole   bool     // gangs start whole or not at all.
	gathers bool     // gangs stay in one spine.
	watches bool     // it has an informer of pods, as every scheduler must.
	only    func(Shape) bool
	// dress makes a pod one of the contender's; i counts through the backlog.
	dress func(p *v1.Pod, i int, s Shape)
	// group makes what a gang needs besides its pods, of the kind groups; nil is nothing.
	group  func(gang string, s Shape) runtime.Object
	groups schema.GroupVersionResource
}

// foreign is what there is to know of another project's scheduler, so that it is one file.
type foreign struct {
	// build returns its program and the CRDs that it reads, building what is missing.
	build func(ctx context.Context, progress io.Writer) (program string, crds fs.FS, err error)
	flags []string
	// config is its configuration, with no more in it than what is measured.
	config func(kubeconfig string) string
}

const (
	musterProgram = "muster-scheduler"
	beforeName    = "muster-before"
	quotasName    = "muster-quotas"
	stockProgram  = string(localcluster.Scheduler)
	nativeGates   = "GenericWorkload=true"
	topologyGates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
	musterProfile = "muster-scheduler"
	stockProfile  = v1.DefaultSchedulerName
)

// The kinds of PodGroups: Kubernetes' own, and the one that Koordinator and Muster read.
var (
	nativeGroups = schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
	sigsGroups   = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "podgroups"}
)

// contenders are measured in this order. The first two are what the others are
// compared with.
var contenders = []contender{
	// Gangs have their objects here, too. Creating the objects while pods come costs each scheduler the same time.
	{name: "floor", dress: label, group: sigsGroup, groups: sigsGroups},
	{name: "floor-watching", dress: label, group: sigsGroup, groups: sigsGroups, watches: true},
	{name: "stock", program: stockProgram, profile: stockProfile},
	{name: "stock-pinned", program: stockProgram, profile: stockProfile, dress: pin},
	{
		name: "stock-gang", program: stockProgram, profile: stockProfile, gates: nativeGates,
		whole: true, dress: join, group: nativeGroup(false), groups: nativeGroups,
	},
	{
		name: "stock-gang-topology", program: stockProgram, profile: stockProfile, gates: topologyGates,
		whole: true, gathers: true, dress: join, group: nativeGroup(true), groups: nativeGroups,
		only: func(s Shape) bool { return !s.Prefer }, // its constraints are required ones
	},
	koordinator,
	{
		name: beforeName, program: musterProgram, profile: musterProfile, before: true,
		whole: true, gathers: true, dress: label, group: sigsGroup, groups: sigsGroups,
	},
	{
		name: "muster", program: musterProgram, profile: musterProfile,
		whole: true, gathers: true, dress: label, group: sigsGroup, groups: sigsGroups,
	},
	{
		name: quotasName, program: musterProgram, profile: musterProfile, quotas: true,
		whole: true, gathers: true, dress: label, group: sigsGroup, groups: sigsGroups,
	},
}

// drains says that the contender can bind a backlog: each contender can.
func (c contender) drains() bool { return !c.before && !c.quotas }

// churns says that it can refuse one: it has a scheduler, and its pods may go anywhere.
func (c contender) churns() bool {
	return c.program != "" && c.name != "stock-pinned" && !c.before && !c.quotas
}

// names lists the contenders that take part in something.
func names(takesPart func(contender) bool) (out []string) {
	for _, c := range contenders {
		if takesPart(c) {
			out = append(out, c.name)
		}
	}
	return out
}

// pin leaves a pod one node to go to: what a cycle costs that looks at one node only.
func pin(p *v1.Pod, i int, s Shape) {
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{nodeOf(i, s)},
			}},
		}}},
	}}
}

// nodeOf spreads a backlog over the first nodes, each filled before the next.
func nodeOf(i int, s Shape) string { return fmt.Sprintf("node-%d", i/(gpusPerNode/s.GPUs)) }

func join(p *v1.Pod, _ int, _ Shape) {
	gang := p.Labels[gangLabel]
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
}

func nativeGroup(topology bool) func(string, Shape) runtime.Object {
	return func(gang string, s Shape) runtime.Object {
		g := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: gang},
			Spec: schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(s.Pods)},
				},
			},
		}
		if topology {
			g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
				Topology: []schedulingv1beta1.TopologyConstraint{{Key: localcluster.SpineLabel}},
			}
		}
		return g
	}
}

func label(p *v1.Pod, _ int, _ Shape) { p.Labels[podGroupsLabel] = p.Labels[gangLabel] }

func sigsGroup(gang string, s Shape) runtime.Object {
	strategy := "MustGather"
	if s.Prefer {
		strategy = "PreferGather"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
		"kind":       "PodGroup",
		"metadata": map[string]any{
			"namespace": metav1.NamespaceDefault,
			"name":      gang,
			"annotations": map[string]any{
				"gang.scheduling.koordinator.sh/network-topology-spec": fmt.Sprintf(
					`{"gatherStrategy":[{"layer":"SpineLayer","strategy":%q}]}`, strategy),
			},
		},
		"spec": map[string]any{"minMember": int64(s.Pods)},
	}}
}

// config is the scheduler's configuration: as shipped, but clients are not slowed down, and there is no wait for a
// lease.
func (c contender) config(kubeconfig string) string {
	if c.foreign != nil {
		return c.foreign.config(kubeconfig)
	}
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 100000, burst: 100000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s
`, kubeconfig, c.profile)
}
