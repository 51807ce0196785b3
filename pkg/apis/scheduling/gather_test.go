package scheduling_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

func TestParseGatherSpec(t *testing.T) {
	spec, err := scheduling.ParseGatherSpec(`
{
  "gatherStrategy": [
    {"layer": "SpineLayer", "strategy": "MustGather"},
    {"layer": "BlockLayer", "strategy": "PreferGather", "podCountMultiple": 8, "scope": "PodGroup"},
    {"layer": "BlockLayer", "strategy": "MustGather", "scope": null}
  ]
}
`)
	require.NoError(t, err)
	require.Equal(t, &scheduling.GatherSpec{Rules: []scheduling.GatherRule{
		{Layer: "SpineLayer", Strategy: "MustGather", PodCountMultiple: 1, Scope: "GangGroup"},
		{Layer: "BlockLayer", Strategy: "PreferGather", PodCountMultiple: 8, Scope: "PodGroup"},
		{Layer: "BlockLayer", Strategy: "MustGather", PodCountMultiple: 1, Scope: "GangGroup"},
	}}, spec)

	for _, empty := range []string{`{}`, `{"gatherStrategy": []}`, `{"gatherStrategy": null}`} {
		spec, err := scheduling.ParseGatherSpec(empty)
		require.NoError(t, err, empty)
		require.Empty(t, spec.Rules, empty)
	}
	for _, bad := range []string{`{`, `{"gatherStrategy":[{}]}`} {
		spec, err := scheduling.ParseGatherSpec(bad)
		require.Error(t, err)
		require.Nil(t, spec)
	}
}

func TestCheckLayers(t *testing.T) {
	layers := []string{"SpineLayer", "BlockLayer", "NodeTopologyLayer"}
	gather := func(layer string) *scheduling.GatherSpec {
		return &scheduling.GatherSpec{Rules: []scheduling.GatherRule{{Layer: "BlockLayer"}, {Layer: layer}}}
	}
	require.NoError(t, gather("SpineLayer").CheckLayers(layers, "default"))
	require.NoError(t, gather("ClusterTopologyLayer").CheckLayers(layers, "default"))
	require.EqualError(t, gather("spineLayer").CheckLayers(layers, "default"),
		`layer "spineLayer" is not in ClusterNetworkTopology default (has: SpineLayer, BlockLayer, NodeTopologyLayer); did you mean SpineLayer?`)
}
