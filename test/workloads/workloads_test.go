// Package workloads runs the examples of docs/workloads.md.
package workloads

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// TestExamples: each example runs as it stands on the nodes of the documents, with all of its gangs whole and no unknown
// line.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/workloads.md")
	require.NoError(t, err)
	cluster := make([]string, 2)
	for i, name := range []string{"example-nodes.yaml", "clusternetworktopology.yaml"} {
		data, err := examples.FS.ReadFile(name)
		require.NoError(t, err)
		cluster[i] = string(data)
	}
	members := map[string]int{
		"LeaderWorkerSet": 8, "JobSet": 4, "Job": 4, "TrainJob, MPIJob, PyTorchJob, RayCluster": 2, "Volcano": 2, "StatefulSet": 3,
		"Kubernetes' own PodGroup": 3, "Grove": 2,
	}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		_, example, ok := strings.Cut(rest, "```yaml\n")
		if !ok {
			continue
		}
		example, _, _ = strings.Cut(example, "```")
		t.Run(title, func(t *testing.T) {
			set := &simulate.Set{}
			for _, text := range append(cluster, example) {
				require.NoError(t, set.Add("workloads.md", []byte(text)))
			}
			require.Empty(t, set.Notes(), "nothing is skipped or unknown")
			r, err := simulate.Run(t.Context(), simulate.Options{}, set)
			require.NoError(t, err)
			require.Empty(t, r.Warnings)
			require.Len(t, r.Pods, members[title])
			for _, p := range r.Pods {
				require.Equal(t, simulate.Bound, p.State, p.Name+": "+p.Message)
			}
			require.NotEmpty(t, r.Gangs)
			for _, g := range r.Gangs {
				require.Equal(t, simulate.Scheduled, g.State)
			}
		})
		delete(members, title)
	}
	require.Empty(t, members, "not in the document")
}
