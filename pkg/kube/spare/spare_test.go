package spare_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/spare"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestInvalidSparesAreNamed: an entry that has no effect with the tree is named with the supported values.
func TestInvalidSparesAreNamed(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer", "BlockLayer"}, []topology.Node{
		{Name: "n1", Path: []string{"s1", "b1"}},
		{Name: "n2", Path: []string{"s1", "b1"}},
		{Name: "n3", Path: []string{"s1", "b1"}},
		{Name: "n4", Path: []string{"s1", "b2"}},
		{Name: "n5", Path: []string{"s1", "b2"}},
	})
	require.Empty(t, spare.Problems(tree, config.Spares{{Layer: "BlockLayer", Nodes: 2}, {Layer: "ClusterTopologyLayer", Nodes: 4}}))
	require.Equal(t, `CoschedulingArgs.spares[0].layer: "Rack" is invalid; supported values: ClusterTopologyLayer, SpineLayer, BlockLayer; `+
		`CoschedulingArgs.spares[1].nodes: 3 leaves no usable node in any BlockLayer domain; supported values: an integer < 3`,
		spare.Problems(tree, config.Spares{{Layer: "Rack", Nodes: 1}, {Layer: "BlockLayer", Nodes: 3}}))
}
