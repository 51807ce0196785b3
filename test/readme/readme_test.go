// Package readme pastes what the README tells users to paste.
package readme

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// block returns the YAML block of a page with this kind: the first line with a kind counts.
func block(t *testing.T, page, kind string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	require.NoError(t, err)
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		doc, _, ok := strings.Cut(part, "```")
		require.True(t, ok)
		if _, says, ok := strings.Cut("\n"+doc, "\nkind: "); ok && strings.HasPrefix(says, kind+"\n") {
			return doc
		}
	}
	require.Fail(t, page+" has no "+kind)
	return ""
}

// topology returns the ClusterNetworkTopology that the README applies.
func topology(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../manifests/topologies/topograph.yaml")
	require.NoError(t, err)
	return string(text)
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

// TestShort: a new user reads the README in four minutes.
func TestShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, len(strings.Fields(string(text))), 800)
}

// TestOneScheduler: the README's commands, pasted whole, do not serve the name of a scheduler that may run.
func TestOneScheduler(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			require.NotContains(t, block, "overlays")
			require.NotContains(t, block, "koord-scheduler")
		}
	}
}

// TestTheFirstJob is complete: pasted, it runs.
func TestTheFirstJob(t *testing.T) {
	runs(t, paste(t, topology(t), block(t, "README.md", "PodGroup"), block(t, "README.md", "Job")))
}

// TestJobsIndicesAreRanks: the README's Job is Indexed and creates all members at once, and its pods sit by index.
func TestJobsIndicesAreRanks(t *testing.T) {
	var job batchv1.Job
	require.NoError(t, yaml.UnmarshalStrict([]byte(block(t, "README.md", "Job")), &job))
	require.Equal(t, batchv1.IndexedCompletion, *job.Spec.CompletionMode)
	require.Equal(t, *job.Spec.Completions, *job.Spec.Parallelism)
}

// TestStatefulSetCreatesAllPodsAtOnce, or the gang of the page waits for ever.
func TestStatefulSetCreatesAllPodsAtOnce(t *testing.T) {
	var set appsv1.StatefulSet
	require.NoError(t, yaml.UnmarshalStrict([]byte(block(t, "docs/users/statefulset.md", "StatefulSet")), &set))
	require.Equal(t, appsv1.ParallelPodManagement, set.Spec.PodManagementPolicy)
	require.Subset(t, set.Spec.Template.Labels, set.Spec.Selector.MatchLabels)
}
