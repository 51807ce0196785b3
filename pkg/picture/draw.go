package picture

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// A longer line is continued on the next one; a longer run of one mark is drawn as a number.
const (
	lineWidth = 100
	longRun   = 16
)

var defaultLayers = []string{"SpineLayer", "BlockLayer", topology.NodeLayer}

// String draws the cluster; Parse reads it.
func (c *Cluster) String() string {
	var out strings.Builder
	out.WriteString(Draw(c.Tree, c.Nodes))
	used := map[string]bool{}
	for _, marks := range c.Nodes {
		for _, l := range marks.letters() {
			used[l] = true
		}
	}
	for _, l := range slices.Sorted(maps.Keys(used)) {
		if k := c.Kind(l); k != ordinary {
			fmt.Fprintf(&out, "%s:%s\n", l, k)
		}
	}
	return out.String()
}

func (k PodKind) String() string {
	s := ""
	if k.Priority != ordinary.Priority {
		s += fmt.Sprintf(" priority=%d", k.Priority)
	}
	if k.Started != ordinary.Started {
		s += fmt.Sprintf(" started=%d", k.Started)
	}
	if k.Budget {
		s += " pdb"
	}
	if k.Waits {
		s += " waits"
	}
	if b := k.Share; b.Name != "" {
		s += fmt.Sprintf(" pdb=%s:%d", b.Name, b.Allowed)
	}
	if g := k.Gang; g.Name != "" {
		s += fmt.Sprintf(" gang=%s:%d", g.Name, g.Min)
	}
	return s
}

// Draw draws a tree with the marks of each node, by node index. No line is longer than 100 columns, unless a
// single node needs more.
func Draw(t *topology.Tree, nodes []Marks) string {
	var out strings.Builder
	if layers := t.LayerNames()[1:]; !slices.Equal(layers, defaultLayers) {
		fmt.Fprintf(&out, "layers: %s\n", strings.Join(layers, " "))
	}
	d := drawing{tree: t, nodes: nodes, out: &out}
	d.below(topology.Root, "")
	return out.String()
}

// Slots returns the marks of a node with so many slots that are taken, placed by the plan that is shown, and
// free.
func Slots(taken, placed, free offer.Slots) Marks {
	return slices.Concat(
		slices.Repeat(Marks{Taken}, int(taken)),
		slices.Repeat(Marks{Placed}, int(placed)),
		slices.Repeat(Marks{Free}, int(free)),
	)
}

type drawing struct {
	tree  *topology.Tree
	nodes []Marks
	out   *strings.Builder
}

// below draws the domains below id; head begins the first line.
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

// line draws the nodes of a lowest domain.
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

// String draws the marks; a node without slots is drawn as one that is taken.
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
