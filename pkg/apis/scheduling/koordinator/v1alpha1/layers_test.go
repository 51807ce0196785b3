package v1alpha1_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
)

// TestOrderLayers reads the objects that the CRD's own rules are tested with.
func TestOrderLayers(t *testing.T) {
	files, err := filepath.Glob("../../testdata/clusternetworktopology/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			var cnt v1alpha1.ClusterNetworkTopology
			require.NoError(t, yaml.UnmarshalStrict(data, &cnt))
			layers, err := v1alpha1.OrderLayers(cnt.Spec)
			if !bytes.HasPrefix(data, []byte("# ")) {
				require.NoError(t, err)
				require.Len(t, layers, len(cnt.Spec.NetworkTopologySpec))
				require.Equal(t, "NodeTopologyLayer", layers[len(layers)-1].Name)
				return
			}
			require.Error(t, err)
			lines := bufio.NewScanner(bytes.NewReader(data))
			for lines.Scan() {
				if want, ok := strings.CutPrefix(lines.Text(), "# error: "); ok {
					require.ErrorContains(t, err, want)
				}
			}
		})
	}
}

func TestOrderLayersOrder(t *testing.T) {
	data, err := os.ReadFile("../../testdata/clusternetworktopology/legal-any-order.yaml")
	require.NoError(t, err)
	var cnt v1alpha1.ClusterNetworkTopology
	require.NoError(t, yaml.UnmarshalStrict(data, &cnt))
	layers, err := v1alpha1.OrderLayers(cnt.Spec)
	require.NoError(t, err)
	require.Equal(t, []v1alpha1.Layer{
		{Name: "SpineLayer", LabelKeys: []string{"example.com/spine"}},
		{Name: "BlockLayer", LabelKeys: []string{"example.com/block", "example.com/rack"}},
		{Name: "NodeTopologyLayer", LabelKeys: []string{"ignored"}},
	}, layers)
}

// TestOrderLayersNeverLies draws any parents at all. What is accepted must be one chain of
// all layers, each below its parent; a permutation of a chain must be accepted.
func TestOrderLayersNeverLies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"A", "B", "C", "NodeTopologyLayer"}
		parents := append([]string{"", "ClusterTopologyLayer", "X"}, names...)
		var spec v1alpha1.ClusterNetworkTopologySpec
		for range rapid.IntRange(0, 5).Draw(t, "layers") {
			spec.NetworkTopologySpec = append(spec.NetworkTopologySpec, v1alpha1.NetworkTopologyLayer{
				TopologyLayer:       rapid.SampledFrom(names).Draw(t, "name"),
				ParentTopologyLayer: rapid.SampledFrom(parents).Draw(t, "parent"),
				LabelKey:            []string{"key"},
			})
		}
		layers, err := v1alpha1.OrderLayers(spec)
		if err == nil && !isChain(spec, layers) {
			t.Fatalf("%+v was accepted as %+v", spec, layers)
		}
		if err != nil && buildChain(spec) {
			t.Fatalf("%+v was refused: %v", spec, err)
		}
	})
}

// isChain asks whether each layer's parent is the one before it, and none is missing.
func isChain(spec v1alpha1.ClusterNetworkTopologySpec, layers []v1alpha1.Layer) bool {
	if len(layers) != len(spec.NetworkTopologySpec) || layers[len(layers)-1].Name != "NodeTopologyLayer" {
		return false
	}
	for i, l := range layers {
		found := false
		for _, s := range spec.NetworkTopologySpec {
			above := s.ParentTopologyLayer == "" || s.ParentTopologyLayer == "ClusterTopologyLayer"
			if i > 0 {
				above = s.ParentTopologyLayer == layers[i-1].Name
			}
			found = found || s.TopologyLayer == l.Name && above
		}
		if !found {
			return false
		}
	}
	return true
}

// buildChain tries to use up all layers from the root down, each exactly once.
func buildChain(spec v1alpha1.ClusterNetworkTopologySpec) bool {
	rest := append([]v1alpha1.NetworkTopologyLayer{}, spec.NetworkTopologySpec...)
	seen := map[string]bool{}
	for at := ""; at != "NodeTopologyLayer"; {
		next := -1
		for i, l := range rest {
			if l.ParentTopologyLayer == at || at == "" && l.ParentTopologyLayer == "ClusterTopologyLayer" {
				if next >= 0 {
					return false
				}
				next = i
			}
		}
		if next < 0 || seen[rest[next].TopologyLayer] {
			return false
		}
		at = rest[next].TopologyLayer
		seen[at] = true
		rest = append(rest[:next:next], rest[next+1:]...)
	}
	return len(rest) == 0
}
