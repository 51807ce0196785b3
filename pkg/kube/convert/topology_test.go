package convert_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
	_ "github.com/muster-scheduler/muster/test/seed"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestDetailStatusEnds: what is listed takes no more room than there is, is the whole list without the entries of some
// lowest layers and without their names in the entries above, and no layer is left out for which there was room.
func TestDetailStatusEnds(t *testing.T) {
	kinds := []string{"all listed", "the lowest left out", "only the root", "unnamed domains"}
	worlds.Check(t, 1000, kinds, func(t *rapid.T, y worlds.Tally) {
		n := worlds.Draw(t, 18)
		if len(n.Layers) > 0 && worlds.Chance(t, 2, "odd name") {
			n.Layers = slices.Clone(n.Layers)
			n.Layers[len(n.Layers)-1] = rapid.SampledFrom([]string{`<"a & b">`, "Ebene für Blöcke", "x\n\\y"}).Draw(t, "layer")
		}
		tree := n.Build()
		whole, unnamed, left := convert.DetailStatus(tree, 1<<20)
		if len(left) > 0 {
			t.Fatalf("%v are left out of a list of %d bytes", left, size(whole))
		}
		most := rapid.IntRange(0, size(whole)+size(whole)/2).Draw(t, "room")
		listed, also, left := convert.DetailStatus(tree, most)
		if also != unnamed {
			t.Fatalf("%d domains without a name, of the whole list %d", also, unnamed)
		}
		last := tree.Depth() - 1 - len(left)
		if want := upTo(tree, whole, last); string(asJSON(listed)) != string(asJSON(want)) {
			t.Fatalf("listed are %s, not %s", asJSON(listed), asJSON(want))
		}
		if last > 0 && size(listed) > most {
			t.Fatalf("%d bytes where there is capacity for %d", size(listed), most)
		}
		for i, l := range left {
			layer := last + 1 + i
			if want := len(named(tree, layer)); l.Layer != tree.LayerNames()[layer] || l.Domains != want {
				t.Fatalf("%d domains of %s are left out, not %d of %s", l.Domains, l.Layer, want, tree.LayerNames()[layer])
			}
		}
		// Numbers are reckoned at their longest, other letters as if each of their bytes were written as \u0000.
		if more := upTo(tree, whole, last+1); len(left) > 0 && size(more)*2+64*(len(more)+1) < most {
			t.Fatalf("%s is left out, and there is capacity for %d bytes", left[0].Layer, most)
		}
		y.Count("all listed", len(left) == 0)
		y.Count("the lowest left out", len(left) > 0 && last > 0)
		y.Count("only the root", last == 0 && len(left) > 0)
		y.Count("unnamed domains", unnamed > 0)
	})
}

func asJSON(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

func size(details []koordinator.TopologyDetail) int { return len(asJSON(details)) }

// named are the domains of a layer that have a name.
func named(tree *topology.Tree, layer int) (all []topology.ID) {
	for d := topology.Root; int(d) < tree.Len(); d++ {
		if tree.Layer(d) == layer && tree.Named(d) {
			all = append(all, d)
		}
	}
	return all
}

// upTo is a list down to a layer.
func upTo(tree *topology.Tree, whole []koordinator.TopologyDetail, last int) (some []koordinator.TopologyDetail) {
	for _, d := range whole {
		layer := slices.Index(tree.LayerNames(), d.TopologyInfo.TopologyLayer)
		if layer == last {
			d.ChildTopologyNames = nil
		}
		if layer <= last {
			some = append(some, d)
		}
	}
	return some
}
