package plan_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestChooseForNothing: members that cost nothing are placed like members who are charged
// nothing. The latter is found by merging curves, the former where it can be by less.
func TestChooseForNothing(t *testing.T) {
	kinds := []string{
		"on one node", "in a domain", "across the cluster", "with multiples", "with bound members", "several preferences",
		"preferences in more than one number",
	}
	worlds.Check(t, 5000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawLarge(t)
		r := drawRequest(t, w)
		if rapid.IntRange(0, 4).Draw(t, "more than there is") == 0 {
			r.Want, r.Min = 1<<40, 0 // so that not all preferences fit in a number
		}
		p, _ := plan.Choose(w, r)
		s := plan.NewSearch(w, r, 1, freeOfCharge(w.Free))
		n := s.Most(offer.Price{0})
		if p == nil {
			if n >= max(r.Min, 1) {
				t.Fatalf("no plan, but %d can be placed", n)
			}
			return
		}
		if q := s.Plan(n); !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v\n%s\nnot\n%s", r, show(w, p), show(w, q))
		}
		layer := w.Tree.Layer(p.Domain)
		y.Count("on one node", layer == w.Tree.Depth())
		y.Count("in a domain", 0 < layer && layer < w.Tree.Depth())
		y.Count("across the cluster", layer == 0)
		y.Count("with multiples", slices.Max(r.Multiple) > 1)
		y.Count("with bound members", slices.Max(w.Bound) > 0)
		preferences := len(slices.DeleteFunc(slices.Clone(r.Prefer), func(p plan.Preference) bool { return p.Layer <= layer }))
		y.Count("several preferences", preferences > 1)
		y.Count("preferences in more than one number", preferences > 1 && r.Want == 1<<40)
	})
}

// TestManyFreeOfCharge is TestChooseForNothing for hundreds of nodes in one domain.
func TestManyFreeOfCharge(t *testing.T) {
	worlds.Check(t, 100, nil, func(t *rapid.T, _ worlds.Tally) {
		var nodes []topology.Node
		w := plan.World{}
		total := offer.Slots(0)
		for i := range rapid.SampledFrom([]int{60, 130, 300}).Draw(t, "nodes") {
			n := offer.Slots(rapid.IntRange(0, 3).Draw(t, "slots"))
			nodes, w.Free, total = append(nodes, topology.Node{Name: fmt.Sprint("n", i)}), append(w.Free, n), total+n
		}
		w.Tree = topology.Build(nil, nodes)
		want := max(total*offer.Slots(rapid.IntRange(1, 20).Draw(t, "of twenty"))/20, 4)
		r := plan.Request{Want: want, Min: want, Prefer: [][]plan.Preference{nil, {{Layer: 1}}}[rapid.IntRange(0, 1).Draw(t, "preferences")]}
		if p, refusal := plan.Choose(w, r); refusal == nil {
			if q := plan.NewSearch(w, r, 1, freeOfCharge(w.Free)).Plan(want); !reflect.DeepEqual(p, q) {
				t.Fatalf("%v\nnot\n%v", p, q)
			}
		}
	})
}

func freeOfCharge(free []offer.Slots) (out []offer.Curve) {
	for _, n := range free {
		out = append(out, offer.Free(n, 1))
	}
	return out
}

// drawLarge draws a world that is too large for the twin that tries everything.
func drawLarge(t *rapid.T) plan.World {
	layers := []string{"Hall", "Spine", "Block"}[:rapid.IntRange(0, 3).Draw(t, "layers")]
	var nodes []topology.Node
	var grow func(path []string)
	grow = func(path []string) {
		for i := range rapid.IntRange(1, 4).Draw(t, "children") {
			if len(path) == len(layers) {
				nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", len(nodes)), Path: path})
			} else {
				grow(append(slices.Clone(path), fmt.Sprint(path, i)))
			}
		}
	}
	grow(nil)
	w := plan.World{Tree: topology.Build(layers, nodes)}
	n := w.Tree.NumNodes()
	w.Bound, w.Attract = make([]offer.Slots, n), make([]offer.Slots, n)
	most := rapid.SampledFrom([]int{1, 3, 9}).Draw(t, "slots of a node")
	for range n {
		w.Free = append(w.Free, offer.Slots(rapid.IntRange(0, most).Draw(t, "slots")))
	}
	if worlds.Total(w.Tree, w.Free, topology.Root) == 0 {
		w.Free[0] = 1
	}
	for _, some := range [][]offer.Slots{w.Bound, w.Attract} {
		for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "pods") {
			some[rapid.IntRange(0, n-1).Draw(t, "node")]++
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "room") == 0 {
		w.Room = slices.Clone(w.Free)
		w.Room[rapid.IntRange(0, n-1).Draw(t, "node")] += 2
	}
	return w
}
