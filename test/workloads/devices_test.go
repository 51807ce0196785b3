package workloads

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestDeviceExamplesRun: the examples of docs/users/devices.md run as they stand, on the nodes of docs/examples/devices.
func TestDeviceExamplesRun(t *testing.T) {
	set := &simulate.Set{}
	for _, name := range []string{"nodes.yaml", "devices.yaml"} {
		data, err := examples.Devices.ReadFile("devices/" + name)
		require.NoError(t, err)
		require.NoError(t, set.Add(name, data))
	}
	found := blocks(t, "docs/users/devices.md")
	require.Len(t, found, 2)
	for _, example := range found {
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
