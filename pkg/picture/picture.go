// Package picture draws clusters as text, for the command line. Tests read what it draws; see test/pictures for the whole language:
//
//	layers: SpineLayer BlockLayer NodeTopologyLayer
//	spine-0
//	  block-0  node-0 ..##  node-1 aab.
//	           node-2 xx..
//	  -        node-3 24.8#
//
// Indentation is the tree. The line of a lowest domain has its nodes, each followed by its marks, and may continue on deeper lines. A
// domain without a name is drawn as "-". One mark is one slot, which is capacity for one member; a number repeats the mark behind it.
// The package knows the tree, and must not know pods or files.
package picture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// The marks that are not letters, and the one letter that is not a pod.
const (
	Free   = "."
	Taken  = "#"
	Placed = "x"
)

// Cluster is a tree with the marks of each node, by node index.
type Cluster struct {
	Tree  *topology.Tree
	Nodes []Marks
}

// Marks are a node's slots, one mark each; the mark of a slot that several pods share is all their letters.
type Marks []string

// Count returns how many slots with this mark each node has, by node index.
func (c *Cluster) Count(mark string) []offer.Slots {
	out := make([]offer.Slots, len(c.Nodes))
	for i, marks := range c.Nodes {
		for _, m := range marks {
			if m == mark {
				out[i]++
			}
		}
	}
	return out
}

// A longer line is continued on the next one; a longer run of one mark is drawn as a number.
const (
	lineWidth = 100
	longRun   = 16
)

var defaultLayers = []string{"SpineLayer", "BlockLayer", topology.NodeLayer}

// Draw returns the picture of a tree with the marks of each node, by node index. Lines have at most 100 columns, unless one node needs
// more.
func Draw(t *topology.Tree, nodes []Marks) string {
	var out strings.Builder
	if layers := t.LayerNames()[1:]; !slices.Equal(layers, defaultLayers) {
		fmt.Fprintf(&out, "layers: %s\n", strings.Join(layers, " "))
	}
	d := drawing{tree: t, nodes: nodes, out: &out}
	d.below(topology.Root, "")
	return out.String()
}

// drawing is the state of Draw.
type drawing struct {
	tree  *topology.Tree
	nodes []Marks
	out   *strings.Builder
}

// below writes the domains below id. head, the name of id, begins the first line.
func (d *drawing) below(id topology.ID, head string) {
	if d.tree.Layer(id) == d.tree.Depth()-1 {
		d.line(id, head)
		return
	}
	if id != topology.Root {
		fmt.Fprintln(d.out, head)
	}
	for k := range d.tree.Children(id) {
		name := d.tree.Name(k)
		if name == "" {
			name = "-"
		}
		d.below(k, strings.Repeat("  ", d.tree.Layer(k)-1)+name)
	}
}

// line writes the nodes of a lowest domain after head, on several lines if one would be too long.
func (d *drawing) line(id topology.ID, head string) {
	if head != "" {
		head += "  "
	}
	line := head
	lo, hi := d.tree.Nodes(id)
	for i := lo; i < hi; i++ {
		node := d.tree.NodeName(i) + " " + d.nodes[i].String()
		switch {
		case line == head:
		case len(line)+2+len(node) > lineWidth:
			fmt.Fprintln(d.out, line)
			line = strings.Repeat(" ", len(head))
		default:
			line += "  "
		}
		line += node
	}
	if lo < hi {
		fmt.Fprintln(d.out, line)
	}
}

// String returns the marks as text. A node without slots is drawn as one that is taken.
func (m Marks) String() string {
	if len(m) == 0 {
		return Taken
	}
	var out strings.Builder
	for i := 0; i < len(m); {
		run := i
		for run < len(m) && m[run] == m[i] {
			run++
		}
		mark := m[i]
		if len(mark) > 1 {
			mark = "(" + mark + ")"
		}
		if run-i > longRun {
			fmt.Fprintf(&out, "%d%s", run-i, mark)
		} else {
			out.WriteString(strings.Repeat(mark, run-i))
		}
		i = run
	}
	return out.String()
}
