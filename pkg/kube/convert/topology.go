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

// LayerNames returns the names of layers.
func LayerNames(layers []Layer) []string {
	names := make([]string, len(layers))
	for i, l := range layers {
		names[i] = l.Name
	}
	return names
}

// Node returns a node's path through the layers, from its labels.
func Node(name string, labels map[string]string, layers []Layer) topology.Node {
	n := topology.Node{Name: name, Path: make([]string, len(layers))}
	for i, l := range layers {
		n.Path[i] = l.Domain(labels)
	}
	return n
}

// Domain returns the domain of this layer for a node with these labels; "" for none.
func (l Layer) Domain(labels map[string]string) string {
	for _, key := range l.Keys {
		if v := labels[key]; v != "" {
			return v
		}
	}
	return ""
}

// LeftOut is a layer with unlisted domains.
type LeftOut struct {
	Layer   string
	Domains int // with a name
}

// DetailStatus returns the named domains above the nodes, depth first, children by name, and the number of unnamed ones. As JSON the list
// has at most maxBytes bytes: it ends above the first layer that does not fit. omissions are the layers that it omits.
func DetailStatus(t *topology.Tree, maxBytes int) (details []koordinator.TopologyDetail, unnamed int32, omissions []LeftOut) {
	layers := t.LayerNames()
	lowestLayer, counts := lowestListedLayer(t, maxBytes)
	for l := lowestLayer + 1; l < t.Depth(); l++ {
		omissions = append(omissions, LeftOut{Layer: layers[l], Domains: counts[l]})
	}
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
		if t.Layer(d) > lowestLayer {
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
		if t.Layer(d) < lowestLayer {
			for k := range t.Children(d) {
				if t.Named(k) {
					detail.ChildTopologyNames = append(detail.ChildTopologyNames, t.Name(k))
				}
			}
		}
		details = append(details, detail)
	}
	return details, unnamed, omissions
}

// The JSON sizes, without names and numbers, of an entry, its parent, its list of children, and each child.
const (
	entryBytes  = len(`{"topologyInfo":{"topologyLayer":"","topologyName":""},"childTopologyLayer":"","nodeNum":},`)
	parentBytes = len(`"parentTopologyInfo":{"topologyLayer":"","topologyName":""},`)
	listBytes   = len(`"childTopologyNames":[],`)
	childBytes  = len(`"",`)
	numberBytes = len(`2147483647`)
)

// lowestListedLayer returns the lowest layer for which the domains down to it fit into maxBytes, at least the root's. counts are the
// numbers of named domains by layer. It computes upper bounds of the sizes, so that no oversized list is written first.
func lowestListedLayer(t *topology.Tree, maxBytes int) (lowestLayer int, counts []int) {
	layers := t.LayerNames()
	counts = make([]int, t.Depth())
	bytes := make([]int, t.Depth()) // by layer, with what the layer adds to its parent
	for d := topology.Root; int(d) < t.Len(); d++ {
		if t.IsNode(d) || !t.Named(d) {
			continue
		}
		l, name := t.Layer(d), jsonSize(t.Name(d))
		counts[l]++
		bytes[l] += entryBytes + name + jsonSize(layers[l]) + jsonSize(layers[l+1]) + numberBytes
		if l > 0 {
			parent := t.Parent(d)
			bytes[l] += parentBytes + jsonSize(layers[l-1]) + jsonSize(t.Name(parent)) + childBytes + name
		}
		if l+1 < t.Depth() {
			bytes[l+1] += listBytes
		}
	}
	sum := bytes[0] + len(`[]`)
	for lowestLayer+1 < t.Depth() && sum+bytes[lowestLayer+1] <= maxBytes {
		lowestLayer++
		sum += bytes[lowestLayer]
	}
	return lowestLayer, counts
}

// jsonSize returns an upper bound for the JSON size of a text without its quotes. Domain names need no escapes; layer
// names may be any text.
func jsonSize(text string) (n int) {
	for _, c := range []byte(text) {
		n++
		if c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= 0x7f {
			n += len(`\u0000`) - 1
		}
	}
	return n
}
