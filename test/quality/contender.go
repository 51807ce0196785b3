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

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
	"github.com/muster-scheduler/muster/test/koord"
)

// contender is a scheduler, and how a gang is written for it. Its API may not express everything; the nearest form is
// used.
type contender struct {
	name    string
	profile string // schedulerName
	program func(ctx context.Context, progress io.Writer, o options) (path string, crds fs.FS, err error)
	flags   []string
	config  func(kubeconfig string) string // nil: as shipped
	// dress makes a pod a member of the group, and group makes that; nil is nothing.
	dress  func(p *v1.Pod, group string)
	group  func(g *Gang, name string) runtime.Object
	groups schema.GroupVersionResource
}

var (
	nativeGroups = schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
	sigsGroups   = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "podgroups"}
)

const topologyGates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"

var contenders = []contender{
	// Pods one by one: no contender gathers them or holds them back.
	{name: "stock-pods", profile: v1.DefaultSchedulerName, program: stock},
	// Its constraints are required ones, so a gang that prefers a leaf has none.
	{
		name: "stock", profile: v1.DefaultSchedulerName, program: stock, flags: []string{"--feature-gates=" + topologyGates},
		dress: join, group: nativeGroup, groups: nativeGroups,
	},
	{
		name: "koordinator", profile: koord.Profile, flags: koord.Flags, config: koord.Config, dress: label, group: sigsGroup, groups: sigsGroups,
		program: func(ctx context.Context, progress io.Writer, _ options) (string, fs.FS, error) {
			return koord.Program(ctx, progress)
		},
	},
	{
		name: "muster", profile: "muster-scheduler", dress: label, group: sigsGroup, groups: sigsGroups,
		program: func(_ context.Context, _ io.Writer, o options) (string, fs.FS, error) {
			return o.muster, manifests.CRDs, nil
		},
	},
}

func stock(ctx context.Context, progress io.Writer, _ options) (string, fs.FS, error) {
	programs, err := localcluster.Binaries(ctx, progress, "", localcluster.Scheduler)
	return programs[localcluster.Scheduler], manifests.CRDs, err
}

func join(p *v1.Pod, group string) {
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
}

func label(p *v1.Pod, group string) { p.Labels["pod-group.scheduling.sigs.k8s.io"] = group }

func nativeGroup(g *Gang, name string) runtime.Object {
	out := &schedulingv1beta1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{
			// It refuses pods of another priority than their group's.
			PriorityClassName: Priorities[g.Priority],
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(g.Size)},
			},
		},
	}
	if g.Must {
		out.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: localcluster.BlockLabel}},
		}
	}
	return out
}

func sigsGroup(g *Gang, name string) runtime.Object {
	rules := `{"layer":"BlockLayer","strategy":"PreferGather"},{"layer":"SpineLayer","strategy":"PreferGather"}`
	if g.Must {
		rules = `{"layer":"BlockLayer","strategy":"MustGather"}`
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
		"kind":       "PodGroup",
		"metadata": map[string]any{
			"namespace": metav1.NamespaceDefault, "name": name,
			"annotations": map[string]any{"gang.scheduling.koordinator.sh/network-topology-spec": `{"gatherStrategy":[` + rules + `]}`},
		},
		"spec": map[string]any{"minMember": int64(g.Size)},
	}}
}

// configuration is the scheduler's: as shipped, but its client is not slowed down, and there is no wait for a lease.
func (c contender) configuration(kubeconfig string) string {
	if c.config != nil {
		return c.config(kubeconfig)
	}
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 100000, burst: 100000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s
`, kubeconfig, c.profile)
}
