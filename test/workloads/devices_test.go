package workloads

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestDeviceExamplesRun: the examples of docs/devices.md run as they stand, on the nodes of docs/examples/devices.
func TestDeviceExamplesRun(t *testing.T) {
	text, err := os.ReadFile("../../docs/devices.md")
	require.NoError(t, err)
	set := &simulate.Set{}
	for _, name := range []string{"nodes.yaml", "devices.yaml"} {
		data, err := examples.Devices.ReadFile("devices/" + name)
		require.NoError(t, err)
		require.NoError(t, set.Add(name, data))
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		require.NoError(t, set.Add("devices.md", []byte(example)))
	}
	require.Empty(t, set.Notes(), "nothing is skipped or unknown")
	r, err := simulate.Run(t.Context(), simulate.Options{}, set)
	require.NoError(t, err)
	require.Len(t, r.Pods, 3)
	for _, p := range r.Pods {
		require.Equal(t, simulate.Bound, p.State, p.Name+": "+p.Message)
	}
}
