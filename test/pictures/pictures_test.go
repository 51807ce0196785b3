package pictures_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/pictures"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestPictures runs testdata: what is read is drawn back, or the error is shown.
// Run with -rewrite to redraw; then read the diff.
func TestPictures(t *testing.T) {
	datadriven.RunTest(t, "testdata/language.txt", func(t *testing.T, d *datadriven.TestData) string {
		if len(d.CmdArgs) > 0 {
			d.Fatalf(t, "%s takes no arguments", d.Cmd)
		}
		c, err := pictures.Parse(d.Input)
		switch {
		case err != nil:
			return "error: " + err.Error() + "\n"
		case d.Cmd == "read":
			return c.String()
		case d.Cmd == "pods":
			return pods(c)
		}
		d.Fatalf(t, "unknown command %q", d.Cmd)
		return ""
	})
}

// pods lists what a picture says of each node.
func pods(c *pictures.Cluster) string {
	var out strings.Builder
	w := c.World()
	for i, n := range c.Victims(99) {
		fmt.Fprintf(&out, "%s: free %d, bound %d, attracting %d, room %d\n", c.Tree.NodeName(i), w.Free[i], w.Bound[i], w.Attract[i], n.Capacity)
		for j, v := range n.Victims {
			fmt.Fprintf(&out, "  %s %+v\n", c.Letter(evict.Pick{Node: i, Victim: j}), v)
		}
	}
	return out.String()
}

// TestReadWhatIsDrawn: a drawing is read as the cluster that was drawn, and no line is
// too long.
func TestReadWhatIsDrawn(t *testing.T) {
	kinds := []string{"continued lines", "long runs", "other layers", "shared slots", "declared letters"}
	worlds.Check(t, 1000, kinds, func(t *rapid.T, y worlds.Tally) {
		c := &pictures.Cluster{Cluster: picture.Cluster{Tree: worlds.Draw(t, 18).Build()}, Pods: map[string]pictures.PodKind{}}
		mark := rapid.SampledFrom([]string{".", "#", "x", "=", "@", "a", "b", "Z", "ab"})
		for range c.Tree.NumNodes() {
			var m picture.Marks
			for range rapid.IntRange(1, 4).Draw(t, "runs") {
				times := rapid.SampledFrom([]int{1, 2, 16, 17, 40}).Draw(t, "times")
				m = append(m, slices.Repeat(picture.Marks{mark.Draw(t, "mark")}, times)...)
			}
			c.Nodes = append(c.Nodes, m)
		}
		if rapid.Bool().Draw(t, "declared") {
			k := pictures.PodKind{
				Priority: rapid.Int32().Draw(t, "priority"), Started: rapid.Int64().Draw(t, "started"), Budget: rapid.Bool().Draw(t, "pdb"),
				Waits: rapid.Bool().Draw(t, "waits"),
			}
			if rapid.Bool().Draw(t, "in a gang") {
				k.Gang = pictures.Gang{Name: "g", Min: rapid.IntRange(1, 9).Draw(t, "min")}
				k.Share = evict.Budget{Name: "b", Allowed: rapid.IntRange(1, 9).Draw(t, "allowed")}
			}
			c.Pods["a"] = k
		}
		text := c.String()
		again, err := pictures.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if again.String() != text || !reflect.DeepEqual(again.Nodes, c.Nodes) {
			t.Fatalf("%s\nis read as\n%s", text, again)
		}
		for d := topology.Root; int(d) < c.Tree.Len(); d++ {
			if c.Tree.Path(d) != again.Tree.Path(d) || c.Tree.End(d) != again.Tree.End(d) {
				t.Fatalf("domain %d is %q, read as %q", d, c.Tree.Path(d), again.Tree.Path(d))
			}
		}
		if !reflect.DeepEqual(c.Victims(9)[0].Victims, again.Victims(9)[0].Victims) {
			t.Fatalf("victims %+v are read as %+v", c.Victims(9)[0].Victims, again.Victims(9)[0].Victims)
		}
		for line := range strings.Lines(text) {
			if alone := len(strings.Fields(line)) <= 3; len(line) > 101 && !alone {
				t.Fatalf("%d columns: %s", len(line)-1, line)
			}
			y.Count("continued lines", strings.HasPrefix(line, "        "))
		}
		y.Count("long runs", strings.Contains(text, "17"))
		y.Count("other layers", strings.Contains(text, "layers:"))
		y.Count("shared slots", strings.Contains(text, "("))
		y.Count("declared letters", strings.Contains(text, "a:"))
	})
}

// TestChanges: what is drawn into a cluster leaves the cluster as it was.
func TestChanges(t *testing.T) {
	c, err := pictures.Parse("s1\n  b1 n1 aa(ab)..=")
	if err != nil {
		t.Fatal(err)
	}
	before := c.String()
	p := &plan.Plan{Places: []plan.Place{{Node: 0, Count: 2}}}
	for _, step := range []struct {
		got  *pictures.Cluster
		want string
	}{
		{c.Place(p), "s1\n  b1  n1 aa(ab)xx=\n"},
		{c.Place(p).Mark(picture.Placed, pictures.Bound), "s1\n  b1  n1 aa(ab)===\n"},
		{c.Evict([]evict.Pick{{Node: 0, Victim: 0}}), "s1\n  b1  n1 ..b..=\n"},
		{c.Evict([]evict.Pick{{Node: 0, Victim: 0}, {Node: 0, Victim: 1}}), "s1\n  b1  n1 .....=\n"},
	} {
		if step.got.String() != step.want || c.String() != before {
			t.Errorf("%s\nnot\n%s", step.got, step.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("three members were drawn into two slots")
		}
	}()
	c.Place(&plan.Plan{Places: []plan.Place{{Node: 0, Count: 3}}})
}
