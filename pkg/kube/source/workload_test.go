package source_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestWorkloads: what Workloads of Kubernetes 1.35 and the pods that name them say.
func TestWorkloads(t *testing.T) {
	const two = "podGroups: [{name: workers, policy: {gang: {minCount: 2}}}, {name: rest, policy: {basic: {}}}]"
	for name, c := range map[string]struct {
		spec, ref string
		least     int
		problem   string
	}{
		"a gang":          {two, "{name: train, podGroup: workers}", 2, ""},
		"a replica":       {two, "{name: train, podGroup: workers, podGroupReplicaKey: k}", 2, ""},
		"no member waits": {two, "{name: train, podGroup: rest}", 1, ""},
		"no such group": {
			two, "{name: train, podGroup: worker}", 1,
			`spec.workloadRef.podGroup: "worker" on default/p names no pod group of Workload default/train; supported values: [rest workers]`,
		},
		"no group named": {two, "{name: train}", 1, `spec.workloadRef.podGroup: "" on default/p names no pod group`},
		"no policy": {
			"podGroups: [{name: workers}]", "{name: train, podGroup: workers}", 1,
			"spec.podGroups[0].policy: neither is set; set exactly one of basic and gang",
		},
		"a count of 0": {
			"podGroups: [{name: workers, policy: {gang: {minCount: 0}}}]", "{name: train, podGroup: workers}", 1,
			"spec.podGroups[0].policy.gang.minCount: 0 is invalid; supported values: an integer ≥ 1",
		},
		"a name twice": {
			"podGroups: [{name: a, policy: {basic: {}}}, {name: a, policy: {basic: {}}}]", "{name: train, podGroup: a}", 1,
			`spec.podGroups[1].name: "a" is invalid`,
		},
		"groups are no list": {"podGroups: 7", "{name: train, podGroup: a}", 1, "spec.podGroups: 7 is invalid; supported values: a list"},
		"a policy is a number": {
			"podGroups: [{name: a, policy: 7}]", "{name: train, podGroup: a}", 1,
			"policy: 7 is invalid; supported values: an object",
		},
	} {
		t.Run(name, func(t *testing.T) {
			says := source.WorkloadRef(object(t, "{workloadRef: "+c.ref+"}").Object)
			p := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
				Spec:       v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: ptr.To(says)}},
			}
			ref := source.GangOf(p)
			require.Equal(t, gang.Ref{Source: "workload", Namespace: "default", Name: says}, ref)
			g := source.Gang{Ref: ref, Pods: map[string]*v1.Pod{convert.PodKey(p): p}, Expected: true}
			key, ok := source.OwnerOf(g)
			require.True(t, ok)
			require.Equal(t, "Workload default/train", key.String())

			d, _ := source.Declare(g, source.Defaults{NetworkTopologyAware: true})
			require.Contains(t, d.Problem.Words, "Workload default/train, which its members name, was not found")

			g.Owner = owned(t, object(t, "{kind: Workload, metadata: {namespace: default, name: train, uid: u1}, spec: {"+c.spec+"}}"))
			d, _ = source.Declare(g, source.Defaults{NetworkTopologyAware: true})
			require.Equal(t, c.least, d.Min)
			require.Contains(t, d.Problem.Words, c.problem)
			require.Equal(t, c.problem != "", d.Problem.Exists())
		})
	}
	for _, nothing := range []string{"{}", "{workloadRef: null}", "{workloadRef: 7}", "{workloadRef: {podGroup: a}}"} {
		require.Empty(t, source.WorkloadRef(object(t, nothing).Object), nothing)
	}
}
