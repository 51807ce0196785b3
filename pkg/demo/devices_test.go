package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
)

// TestPicturedDevices: the demo draws the devices of each pod, and reports pods with other devices than
// expected.
func TestPicturedDevices(t *testing.T) {
	content, err := examples.Devices.ReadFile("devices/devices.yaml")
	require.NoError(t, err)
	var items []any
	for i, one := range strings.Split(string(content), "\n---\n") {
		if i == 0 {
			var object map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(one), &object))
			items = append(items, object)
		}
	}
	has := func(name, gpus, nic string) {
		allocated := fmt.Sprintf(`{"gpu":[%s],"rdma":[{"minor":%s,"resources":{"koordinator.sh/rdma":"100"}}]}`, gpus, nic)
		items = append(items, map[string]any{
			"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"nodeName": "gpu-0"},
			"metadata": map[string]any{"name": name, "annotations": map[string]any{"scheduling.koordinator.sh/device-allocated": allocated}},
		})
	}
	draws := func() (text, wrong string) {
		list, err := json.Marshal(map[string]any{"items": items})
		require.NoError(t, err)
		text, wrong, err = picturedDevices(string(list))
		require.NoError(t, err)
		return text, wrong
	}
	gpu := func(minor int) string {
		return fmt.Sprintf(`{"minor":%d,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}`, minor)
	}
	has("g-1", gpu(2)+","+gpu(3), "1")
	text, wrong := draws()
	require.Equal(t, "gpu-0\n  numa0\n    pcie0  gpu0 .  gpu1 .  rdma0 .\n  numa1\n    pcie1  gpu2 b  gpu3 b  rdma1 b\n", text)
	require.Empty(t, wrong)
	has("g-0", gpu(0)+","+gpu(2), "0")
	_, wrong = draws()
	require.Equal(t, "g-0 has GPUs [0 2] and NICs [0]; g-1 and g-0 have gpu2; ", wrong)
}
