package convert

import (
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Layer is one layer between the root and the nodes.
type Layer struct {
	Name string
	Keys []string // the first with a value names the domain
}

// LayerNames lists the names.
func LayerNames(layers []Layer) []string {
	names := make([]string, len(layers))
	for i, l := range layers {
		names[i] = l.Name
	}
	return names
}

// Node returns a node's path through the layers as its labels say.
func Node(name string, labels map[string]string, layers []Layer) topology.Node {
	n := topology.Node{Name: name, Path: make([]string, len(layers))}
	for i, l := range layers {
		n.Path[i] = l.Domain(labels)
	}
	return n
}

// Domain is the name of the layer's domain that a node's labels give, "" if none.
func (l Layer) Domain(labels map[string]string) string {
	for _, key := range l.Keys {
		if v := labels[key]; v != "" {
			return v
		}
	}
	return ""
}

// DetailStatus lists the named domains above the nodes, depth first, children by
// name, and counts the unnamed ones.
func DetailStatus(t *topology.Tree) (details []koordinator.TopologyDetail, unnamed int32) {
	layers := t.LayerNames()
	info := func(d topology.ID) koordinator.TopologyInfo {
		return koordinator.TopologyInfo{TopologyLayer: layers[t.Layer(d)], TopologyName: t.Name(d)}
	}
	for d := topology.Root; int(d) < t.Len(); d++ {
		if t.IsNode(d) {
			continue
		}
		if !t.Named(d) {
			unnamed++
			continue
		}
		lo, hi := t.Nodes(d)
		detail := koordinator.TopologyDetail{
			TopologyInfo: info(d), ChildTopologyLayer: layers[t.Layer(d)+1], NodeNum: int32(hi - lo),
		}
		if d != topology.Root {
			parent := info(t.Parent(d))
			detail.ParentTopologyInfo = &parent
		}
		if t.Layer(d)+1 < t.Depth() {
			for k := range t.Children(d) {
				if t.Named(k) {
					detail.ChildTopologyNames = append(detail.ChildTopologyNames, t.Name(k))
				}
			}
		}
		details = append(details, detail)
	}
	return details, unnamed
}
