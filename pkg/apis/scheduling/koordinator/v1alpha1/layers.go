package v1alpha1

import (
	"errors"
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Layer is one layer of a valid chain of layers.
type Layer struct {
	Name      string
	LabelKeys []string // of the node labels that name a domain, the first with a value wins
}

// OrderLayers returns the layers, from the one below the cluster down to NodeTopologyLayer. If they are not one such chain, the error
// has every reason.
//
// The CRD rejects the same specifications with the same messages. A cluster with an older or foreign CRD may have invalid ones.
func OrderLayers(spec ClusterNetworkTopologySpec) ([]Layer, error) {
	if err := checkLayers(spec.NetworkTopologySpec); err != nil {
		return nil, fmt.Errorf("spec.networkTopologySpec: %w", err)
	}
	below := make(map[string]NetworkTopologyLayer, len(spec.NetworkTopologySpec))
	for _, l := range spec.NetworkTopologySpec {
		below[parent(l)] = l
	}
	var chain []Layer
	for name := scheduling.ClusterTopologyLayer; name != scheduling.NodeTopologyLayer; {
		l := below[name]
		name = l.TopologyLayer
		chain = append(chain, Layer{Name: name, LabelKeys: slices.Clone(l.LabelKey)})
	}
	return chain, nil
}

// checkLayers returns nil only for one chain that ends in NodeTopologyLayer. The rules suffice: n layers name n different parents, among
// the root and the n-1 layers above the nodes. So each of these parents has exactly one layer below it. Layers that are then no chain
// from the root to the nodes contain a circle.
func checkLayers(layers []NetworkTopologyLayer) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if len(layers) > maxLayers {
		return fmt.Errorf("%d layers are listed; supported values: at most %d", len(layers), maxLayers)
	}
	times := map[string]int{}    // a layer is listed
	children := map[string]int{} // a layer is named as parent
	parents := map[string]string{}
	var first []string
	for _, l := range layers {
		times[l.TopologyLayer]++
		children[parent(l)]++
		if _, seen := parents[l.TopologyLayer]; !seen {
			parents[l.TopologyLayer] = parent(l)
		}
		if parent(l) == scheduling.ClusterTopologyLayer {
			first = append(first, l.TopologyLayer)
		}
	}

	for i, l := range layers {
		switch l.TopologyLayer {
		case "":
			bad("topologyLayer of entry %d is empty; write the name of a layer", i)
		case scheduling.ClusterTopologyLayer:
			bad("topologyLayer %q is the built-in root of the tree; use another name, or delete this entry", l.TopologyLayer)
		}
		if parent(l) == scheduling.NodeTopologyLayer {
			bad("layer %q: parentTopologyLayer %q is the lowest layer; write the name of a layer above the nodes", l.TopologyLayer, parent(l))
		}
		if l.TopologyLayer != scheduling.NodeTopologyLayer && len(l.LabelKey) == 0 {
			bad("layer %q: labelKey is empty; write at least one key of a node label", l.TopologyLayer)
		}
		if i := slices.Index(l.LabelKey, ""); i >= 0 {
			bad("layer %q: labelKey[%d] is empty; write the key of a node label", l.TopologyLayer, i)
		}
	}

	if times[scheduling.NodeTopologyLayer] == 0 {
		bad("layer %q is missing; add it as the lowest layer", scheduling.NodeTopologyLayer)
	}
	for _, l := range layers {
		if times[l.TopologyLayer] > 1 {
			bad("topologyLayer %q is listed more than once; list each layer once", l.TopologyLayer)
			break
		}
	}
	for _, l := range layers {
		if p := parent(l); p != scheduling.ClusterTopologyLayer && times[p] == 0 {
			bad("layer %q: parentTopologyLayer %q is not listed; write the topologyLayer of another entry, or leave it empty for the highest layer",
				l.TopologyLayer, p)
			break
		}
	}
	if len(first) > 1 {
		bad("layers %q and %q both have no parentTopologyLayer; only the highest layer may have none", first[0], first[1])
	}
	for _, l := range layers {
		if children[l.TopologyLayer] > 1 {
			bad("parentTopologyLayer %q is the parent of more than one layer; each layer may have one layer below it", l.TopologyLayer)
			break
		}
	}
	for _, l := range layers {
		at := l.TopologyLayer
		for range layers { // len(layers) steps lead past the top of any chain
			at = parents[at]
		}
		if _, listed := parents[at]; listed {
			bad("layer %q: the parents form a cycle; parents must lead up to the highest layer", l.TopologyLayer)
			break
		}
	}
	return errors.Join(errs...)
}

// maxLayers is MaxItems of networkTopologySpec.
const maxLayers = 16

// parent returns the name of the layer above l; ClusterTopologyLayer for the first layer.
func parent(l NetworkTopologyLayer) string {
	if l.ParentTopologyLayer == "" {
		return scheduling.ClusterTopologyLayer
	}
	return l.ParentTopologyLayer
}
