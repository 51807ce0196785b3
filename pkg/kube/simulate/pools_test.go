package simulate

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPoolsOfOtherDrivers: an incomplete pool is reported to gangs that may want its devices, and not to
// gangs whose device class its driver cannot serve.
func TestPoolsOfOtherDrivers(t *testing.T) {
	const folder, pool = "../../../test/scenarios/simulate/", "pool x0 of gpu.example.com has 1 of its 2 ResourceSlices"
	in, err := os.ReadFile(folder + "devices-pool-half-seen/in.yaml")
	require.NoError(t, err)
	for selector, named := range map[string]bool{
		"":                                    true,
		`device.driver == "gpu.example.com"`:  true,
		`device.driver == "nic.example.com"`:  false,
		`device.attributes["x"].y == "other"`: false,
	} {
		spec := "spec: {}"
		if selector != "" {
			spec = "spec: {selectors: [{cel: {expression: '" + selector + "'}}]}"
		}
		set := load(t, strings.Replace(string(in), "spec: {}", spec, 1))
		classes, err := os.ReadFile(folder + "priorities.yaml")
		require.NoError(t, err)
		require.NoError(t, set.Add("priorities.yaml", classes))
		r, err := Run(t.Context(), Options{}, set)
		require.NoError(t, err)
		require.Equal(t, named, strings.Contains(r.Gangs[0].Message, pool), "%s: %s", selector, r.Gangs[0].Message)
	}
}
