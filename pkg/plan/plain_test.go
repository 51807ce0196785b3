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

// TestChooseForNothing: members without a cost are placed like members that are charged
// nothing. The latter is found by merging curves, the former where it can be by less.
func TestChooseForNothing(t *testing.T) {
	kinds := []string{
		"on one node", "in a domain", "across the cluster", "with multiples", "with bound members", "several preferences",
		"as many digits as domains need", "preferences in more than one number",
	}
	worlds.Check(t, 5000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawLarge(t)
		r := drawRequest(t, w)
		if rapid.IntRange(0, 4).Draw(t, "more than there is") == 0 {
			r.Want, r.Min = 1<<40, 0 // so that digits for so many do not fit in a number
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
		y.Count("as many digits as domains need", preferences > 1 && r.Want == 1<<40)
		y.Count("preferences in more than one number",
			preferences > 1 && slices.ContainsFunc(r.Prefer, func(p plan.Preference) bool { return p.Charge == plan.PerPair }))
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
		w.Capacity = slices.Clone(w.Free)
		w.Capacity[rapid.IntRange(0, n-1).Draw(t, "node")] += 2
	}
	return w
}

// TestPreferFewNodes is TestChooseForNothing for blocks of many nodes, of which few are preferred.
func TestPreferFewNodes(t *testing.T) {
	kinds := []string{
		"in a domain", "across the cluster", "with multiples", "with bound members", "two preferences", "more",
	}
	worlds.Check(t, 3000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawManyNodes(t)
		r := plan.Request{Prefer: plan.PreferGather(w.Tree.Depth()), Multiple: make(offer.Multiples, w.Tree.Depth()+1)}
		for l := range w.Tree.Depth() - 1 {
			if rapid.IntRange(0, 2).Draw(t, "prefer") > 0 {
				r.Prefer = append(r.Prefer, plan.Preference{Layer: l + 1})
			}
		}
		if worlds.Chance(t, 4, "multiples") {
			r.Multiple = worlds.Multiples(t, w.Tree)
		}
		total := worlds.Total(w.Tree, w.Free, topology.Root)
		r.Want = max(total*offer.Slots(rapid.IntRange(1, 20).Draw(t, "of twenty"))/20, 1)
		p, _ := plan.Choose(w, r)
		if p == nil {
			return
		}
		s := plan.NewSearch(w, r, 1, freeOfCharge(w.Free))
		if q := s.Plan(p.Count()); !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v\n%s\nnot\n%s", r, show(w, p), show(w, q))
		}
		if again := plan.NewSearch(w, r, 0, nil); slices.Max(r.Multiple) <= 1 {
			again.Plan(max(p.Count()/2, 1)) // is asked for fewer before
			if q := again.Plan(p.Count()); !reflect.DeepEqual(p, q) {
				t.Fatalf("%+v\n%s\nthe second time\n%s", r, show(w, p), show(w, q))
			}
		}
		layer := w.Tree.Layer(p.Domain)
		y.Count("in a domain", 0 < layer && layer < w.Tree.Depth())
		y.Count("across the cluster", layer == 0)
		y.Count("with multiples", slices.Max(r.Multiple) > 1)
		y.Count("with bound members", slices.Max(w.Bound) > 0)
		y.Count("two preferences", len(r.Prefer) == 2)
		y.Count("more", len(r.Prefer) > 2)
	})
}

// drawManyNodes draws a world of up to three layers above nodes, with up to 12 nodes in each block.
func drawManyNodes(t *rapid.T) plan.World {
	layers := []string{"Hall", "Spine", "Block"}[:rapid.IntRange(1, 3).Draw(t, "layers")]
	var nodes []topology.Node
	var grow func(path []string)
	grow = func(path []string) {
		children := rapid.IntRange(1, 4)
		if len(path) == len(layers) {
			children = rapid.IntRange(3, 12)
		}
		for i := range children.Draw(t, "children") {
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
	w.Bound = make([]offer.Slots, n)
	sizes := rapid.SampledFrom([][]int{
		{0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 8}, {0, 3, 7}, {2, 50}, {1, 30}, {2, 70},
	}).Draw(t, "sizes")
	for range n {
		w.Free = append(w.Free, offer.Slots(rapid.SampledFrom(sizes).Draw(t, "slots")))
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "pods") {
		w.Bound[rapid.IntRange(0, n-1).Draw(t, "node")]++
	}
	return w
}
