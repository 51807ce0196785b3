// Package readme pastes what the README tells users to paste.
package readme

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// block is the README's YAML block of this kind: the first line with a kind counts.
func block(t *testing.T, kind string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		doc, _, ok := strings.Cut(part, "```")
		require.True(t, ok)
		if _, says, ok := strings.Cut("\n"+doc, "\nkind: "); ok && strings.HasPrefix(says, kind+"\n") {
			return doc
		}
	}
	require.Fail(t, "the README has no "+kind)
	return ""
}

// paste runs the scheduler over the nodes of the documents and these objects.
func paste(t *testing.T, texts ...string) *simulate.Result {
	t.Helper()
	nodes, err := examples.FS.ReadFile("example-nodes.yaml")
	require.NoError(t, err)
	set := &simulate.Set{}
	for _, text := range append(texts, string(nodes)) {
		require.NoError(t, set.Add("README.md", []byte(text)))
	}
	require.Empty(t, set.Notes(), "nothing is skipped or unknown")
	r, err := simulate.Run(t.Context(), simulate.Options{}, set)
	require.NoError(t, err)
	require.Empty(t, r.Warnings)
	return r
}

// runs asks for two pods that run, in the order of their ranks.
func runs(t *testing.T, r *simulate.Result) {
	t.Helper()
	require.Len(t, r.Pods, 2)
	for _, p := range r.Pods {
		require.Equal(t, simulate.Bound, p.State, p.Message)
	}
	require.LessOrEqual(t, r.Pods[0].Node, r.Pods[1].Node)
	require.Equal(t, simulate.Scheduled, r.Gangs[0].State)
}

// TestTheFirstJob is complete: pasted, it runs.
func TestTheFirstJob(t *testing.T) {
	runs(t, paste(t, block(t, "ClusterNetworkTopology"), block(t, "PodGroup")))
}

// TestControllersCreateTheJob: an Indexed Job and a StatefulSet with the README's pod template run, with
// its PodGroup.
func TestControllersCreateTheJob(t *testing.T) {
	group, _, _ := strings.Cut(block(t, "PodGroup"), "---\n")
	var job batchv1.Job
	require.NoError(t, yaml.UnmarshalStrict([]byte(block(t, "Job")), &job))
	require.Equal(t, batchv1.IndexedCompletion, *job.Spec.CompletionMode)
	require.Equal(t, *job.Spec.Completions, *job.Spec.Parallelism)
	var set appsv1.StatefulSet
	require.NoError(t, yaml.UnmarshalStrict([]byte(block(t, "StatefulSet")), &set))
	require.Equal(t, appsv1.ParallelPodManagement, set.Spec.PodManagementPolicy)
	require.Subset(t, set.Spec.Template.Labels, set.Spec.Selector.MatchLabels)

	for name, c := range map[string]struct {
		template v1.PodTemplateSpec
		many     int32
		index    string
	}{
		"Job":         {job.Spec.Template, *job.Spec.Parallelism, scheduling.LabelCompletionIndex},
		"StatefulSet": {set.Spec.Template, *set.Spec.Replicas, scheduling.LabelPodIndex},
	} {
		t.Run(name, func(t *testing.T) {
			texts := []string{block(t, "ClusterNetworkTopology"), group}
			for i := range c.many {
				p := v1.Pod{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: *c.template.ObjectMeta.DeepCopy(),
					Spec: c.template.Spec,
				}
				p.Name, p.Labels[c.index] = fmt.Sprint("train-", i), fmt.Sprint(i)
				text, err := yaml.Marshal(p)
				require.NoError(t, err)
				texts = append(texts, string(text))
			}
			runs(t, paste(t, texts...))
		})
	}
}
