package connect

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestSlim: a finished member keeps the fields that name its gang, for every integration.
func TestSlim(t *testing.T) {
	group, controller := "g", true
	ways := map[string]func(*v1.Pod){
		"native": func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group} },
		"ours":   func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = "g" },
		"x":      func(p *v1.Pod) { p.Labels["scheduling.x-k8s.io/pod-group"] = "g" },
		"annotation": func(p *v1.Pod) {
			p.Annotations[scheduling.AnnotationGangName], p.Annotations[scheduling.AnnotationMinAvailable] = "g", "2"
		},
		"workload": func(p *v1.Pod) {
			name := "w/g"
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		},
		"volcano": func(p *v1.Pod) { p.Annotations["scheduling.k8s.io/group-name"] = "g" },
		"grove":   func(p *v1.Pod) { p.Labels["grove.io/podgang"], p.Labels["grove.io/podclique"] = "g", "c" },
		"lws": func(p *v1.Pod) {
			p.Labels["leaderworkerset.sigs.k8s.io/name"], p.Labels["leaderworkerset.sigs.k8s.io/group-index"] = "a", "0"
			p.Labels["leaderworkerset.sigs.k8s.io/template-revision-hash"] = "r"
			p.Annotations["leaderworkerset.sigs.k8s.io/size"] = "1"
		},
		"jobset": func(p *v1.Pod) {
			p.Labels["jobset.sigs.k8s.io/jobset-name"], p.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = "js", "w"
		},
		"job": func(p *v1.Pod) {
			p.Labels["batch.kubernetes.io/job-name"] = "j"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u", Controller: &controller}}
			p.Annotations[scheduling.AnnotationTopologySpec] = `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`
		},
		"the deprecated labels": func(p *v1.Pod) {
			p.Labels["pod-group.scheduling.sigs.k8s.io/name"], p.Labels["pod-group.scheduling.sigs.k8s.io/min-available"] = "g", "2"
		},
	}
	known := map[string]bool{}
	for name, says := range ways {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{}, Annotations: map[string]string{}},
			Spec:       v1.PodSpec{NodeName: "n", SchedulerName: "s", Containers: []v1.Container{{Name: "c"}}},
			Status:     v1.PodStatus{Phase: v1.PodSucceeded},
		}
		says(p)
		ref := source.GangOf(p)
		require.False(t, ref.IsZero(), name)
		known[ref.Source] = true
		out := trimPod(p)
		require.Equal(t, ref, source.GangOf(out), name)
		require.Equal(t, p.Spec.NodeName, out.Spec.NodeName)
		require.Empty(t, out.Spec.Containers)
	}
	for _, s := range source.All {
		require.True(t, known[s.Space], "a pod of %s is missing here", s.Way)
	}
	require.Nil(t, trimPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}).Labels, "without a gang")
}
