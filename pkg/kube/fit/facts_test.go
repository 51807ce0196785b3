package fit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
)

// TestFacts: what is said of one plugin does not contradict itself, and nothing is said of
// a plugin that does not exist: it may have another name by now.
func TestFacts(t *testing.T) {
	registry := plugins.NewInTreeRegistry()
	for name, f := range facts {
		if name != "Coscheduling" && name != "DeviceShare" { // which are ours
			require.Contains(t, registry, name)
		}
		require.False(t, f.keyed && f.scope != local, name)
		require.False(t, f.blind && !f.keyed, name)
	}
}

// TestDefaultFiltersAreKnown: of kube-scheduler's own Filters none is unknown; a new one must
// be looked at.
func TestDefaultFiltersAreKnown(t *testing.T) {
	cfg, err := latest.Default()
	require.NoError(t, err)
	others := map[string]bool{ // they have no Filter
		"SchedulingGates": true, "PrioritySort": true, "DefaultPreemption": true, "DefaultBinder": true,
		"ImageLocality": true, "NodeResourcesBalancedAllocation": true,
	}
	for _, p := range cfg.Profiles[0].Plugins.MultiPoint.Enabled {
		_, known := facts[p.Name]
		require.True(t, known != others[p.Name], p.Name)
	}
}

func TestLimits(t *testing.T) {
	for plugin, want := range map[string]bool{
		"VolumeBinding": true, "DynamicResources": true, "NodeVolumeLimits": true, "SomebodyElses": true,
		"NodeResourcesFit": false, "InterPodAffinity": false, "VolumeRestrictions": false, "Coscheduling": false,
	} {
		require.Equal(t, want, Limits(plugin), plugin)
	}
}
