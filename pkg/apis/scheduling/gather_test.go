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
}

func TestParseGatherSpecErrors(t *testing.T) {
	const key = "gang.scheduling.koordinator.sh/network-topology-spec: "
	rule := func(fields string) string { return `{"gatherStrategy":[{` + fields + `}]}` }
	for value, want := range map[string]string{
		``:                      `"" is not JSON: `,
		`null`:                  `null is not an object; legal: an object with the fields gatherStrategy`,
		`[]`:                    `[] is not an object; legal: an object with the fields gatherStrategy`,
		`{} x`:                  `"{} x" is not JSON: `,
		`{"gather":1}`:          `unknown field; legal: gatherStrategy`,
		`{"gatherStrategy":{}}`: `gatherStrategy: {} is not legal; legal: a list of rules`,
		`{"gatherStrategy":[],"gatherStrategy":[]}`: `duplicate field "gatherStrategy"; legal: each field once`,
		`{"gatherStrategy":["x"]}`:                  `gatherStrategy[0]: "x" is not an object; legal: an object with the fields layer, strategy, podCountMultiple, scope`,
		`{"gatherStrategy":[null]}`:                 `gatherStrategy[0]: null is not an object`,

		rule(``): `gatherStrategy[0].layer: missing; legal: a layer of the ClusterNetworkTopology`,
		rule(`"layer":"","strategy":"MustGather"`):                                                              `gatherStrategy[0].layer: "" is not legal; legal: a layer of the ClusterNetworkTopology`,
		rule(`"layer":"A"`):                                                                                     `gatherStrategy[0].strategy: missing; legal: MustGather, PreferGather`,
		rule(`"layer":"A","strategy":"mustGather"`):                                                             `gatherStrategy[0].strategy: "mustGather" is not legal; legal: MustGather, PreferGather`,
		rule(`"layer":"A","strategy":7`):                                                                        `gatherStrategy[0].strategy: 7 is not legal; legal: MustGather, PreferGather`,
		rule(`"layer":"A","strategy":"MustGather","Scope":"PodGroup"`):                                          `gatherStrategy[0].Scope: unknown field; legal: layer, strategy, podCountMultiple, scope`,
		rule(`"layer":"A","strategy":"MustGather","scope":"Pod"`):                                               `gatherStrategy[0].scope: "Pod" is not legal; legal: GangGroup, PodGroup`,
		rule(`"layer":"A","layer":"A","strategy":"MustGather"`):                                                 `gatherStrategy[0]: duplicate field "layer"; legal: each field once`,
		rule(`"layer":"A","strategy":"MustGather","podCountMultiple":0`):                                        `gatherStrategy[0].podCountMultiple: 0 is not legal; legal: an integer ≥ 1`,
		rule(`"layer":"A","strategy":"MustGather","podCountMultiple":1.5`):                                      `gatherStrategy[0].podCountMultiple: 1.5 is not legal; legal: an integer ≥ 1`,
		rule(`"layer":"A","strategy":"MustGather","podCountMultiple":"8"`):                                      `gatherStrategy[0].podCountMultiple: "8" is not legal; legal: an integer ≥ 1`,
		rule(`"layer":"A","strategy":"MustGather","podCountMultiple":1e99`):                                     `gatherStrategy[0].podCountMultiple: 1e99 is not legal; legal: an integer ≥ 1`,
		rule(`"layer":"A","strategy":"MustGather"},{"layer":"A","strategy":"PreferGather","scope":"GangGroup"`): `gatherStrategy[1].layer: "A" a second time with scope GangGroup is not legal; legal: one rule for each layer and scope`,
	} {
		spec, err := scheduling.ParseGatherSpec(value)
		require.ErrorContains(t, err, want, value)
		require.ErrorContains(t, err, key[:len(key)-2], value)
		require.Nil(t, spec, value)
	}
}

func TestParseGatherSpecSaysAll(t *testing.T) {
	_, err := scheduling.ParseGatherSpec(`{"gatherStrategy":[{"layer":"A","strategy":"X"},{"layer":"B","strategy":"Y"}]}`)
	require.ErrorContains(t, err, `gatherStrategy[0].strategy: "X"`)
	require.ErrorContains(t, err, `gatherStrategy[1].strategy: "Y"`)
}

func TestCheckLayers(t *testing.T) {
	layers := []string{"SpineLayer", "BlockLayer", "NodeTopologyLayer"}
	gather := func(layer string) *scheduling.GatherSpec {
		return &scheduling.GatherSpec{Rules: []scheduling.GatherRule{{Layer: "BlockLayer"}, {Layer: layer}}}
	}
	require.NoError(t, gather("SpineLayer").CheckLayers(layers, "default"))
	require.NoError(t, gather("ClusterTopologyLayer").CheckLayers(layers, "default"))
	require.EqualError(t, gather("spineLayer").CheckLayers(layers, "default"),
		`layer "spineLayer" is not in ClusterNetworkTopology default (has: SpineLayer, BlockLayer, NodeTopologyLayer)`)
}
