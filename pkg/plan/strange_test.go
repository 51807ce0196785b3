package plan_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// drawStrange draws unusual shapes.
//
//	Domains: up to twelve children; nodes that name few of their domains or none.
//	Nodes: capacity for no member, or for more than exist.
//	Pods: many running members in one domain or several; attracting pods by number.
func drawStrange(t *rapid.T) plan.World {
	layers := []string{"Hall", "Spine", "Block", "Rack"}[:worlds.Even(t, 5, "layers")]
	var nodes []topology.Node
	most := 1 + worlds.Even(t, 120, "most nodes")
	var grow func(path []string)
	grow = func(path []string) {
		children := []int{1, 2, 3, 5, 12}[worlds.Even(t, 5, "children")]
		for i := range children {
			switch {
			case len(nodes) == most:
				return
			case len(path) == len(layers):
				nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", len(nodes)), Path: path})
			case worlds.Chance(t, 8, "unnamed"):
				grow(append(slices.Clone(path), ""))
			default:
				grow(append(slices.Clone(path), fmt.Sprint(path, i)))
			}
		}
	}
	grow(nil)
	w := plan.World{Tree: topology.Build(layers, nodes)}
	n := w.Tree.NumNodes()
	w.Bound, w.Attract = make([]offer.Slots, n), make([]offer.Slots, n)
	sizes := [][]offer.Slots{
		{0, 0, 0, 1}, {1}, {0, 1, 2}, {1, 1 << 40}, {0, 1 << 40, 5}, {0, 7, 8, 9}, {8}, {1, 2, 4, 8, 16, 32}, {3, 5},
	}[worlds.Even(t, 9, "sizes")]
	for range n {
		w.Free = append(w.Free, sizes[worlds.Even(t, len(sizes), "slots")])
	}
	for _, some := range [][]offer.Slots{w.Bound, w.Attract} {
		for range []int{0, 0, 1, 2, 6}[worlds.Even(t, 5, "pods")] {
			some[worlds.Even(t, n, "node")] += offer.Slots(1 + worlds.Even(t, 4, "number"))
		}
	}
	if worlds.Chance(t, 3, "room") {
		w.Capacity = slices.Clone(w.Free)
		for i := range w.Capacity {
			w.Capacity[i] += offer.Slots(worlds.Even(t, 3, "more"))
		}
	}
	return w
}

// drawStrangeRequest prefers any layers, some of them twice, and charges for them in several ways.
func drawStrangeRequest(t *rapid.T, w plan.World) (r plan.Request) {
	depth := w.Tree.Depth()
	r.Multiple = make(offer.Multiples, depth+1)
	if worlds.Chance(t, 3, "multiples") {
		for l := range r.Multiple {
			r.Multiple[l] = []offer.Slots{0, 1, 2, 2, 3, 4, 6}[worlds.Even(t, 7, "multiple")]
		}
	}
	often := 1 + worlds.Even(t, 3, "of four")
	for l := range depth + 1 {
		if worlds.Even(t, 4, "prefer") <= often {
			r.Prefer = append(r.Prefer, plan.Preference{Layer: l})
		}
		if worlds.Chance(t, 12, "pairs, too") {
			r.Prefer = append(r.Prefer, plan.Preference{Layer: l, Charge: plan.PerPair})
		}
	}
	if worlds.Chance(t, 3, "must") {
		r.Must = worlds.Even(t, depth+1, "layer")
	}
	total := min(worlds.Total(w.Tree, w.Free, topology.Root), 150)
	r.Want = max(1, total*offer.Slots(1+worlds.Even(t, 20, "of twenty"))/20)
	if r.Min = r.Want; worlds.Chance(t, 2, "elastic") {
		r.Min = offer.Slots(worlds.Even(t, int(r.Want), "min"))
	}
	return r
}

// TestStrange is TestChooseForNothing for worlds of all shapes: what is found with less to add up is what curves of everything say, also
// by a search that was used for other members before; and the rules decide nothing against it.
func TestStrange(t *testing.T) {
	kinds := []string{
		"across the cluster", "in a domain", "with multiples", "with bound members", "several preferences", "three preferences", "pairs, too",
		"multiples beside members that run", "pods attract", "nodes that take all members",
	}
	worlds.Check(t, 2000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawStrange(t)
		r := drawStrangeRequest(t, w)
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
		if step := slices.Max(r.Multiple); step <= 1 {
			again := plan.NewSearch(w, r, 0, nil)
			for _, other := range []offer.Slots{max(n/2, 1), n, max(n-1, 1)} {
				if other <= again.Most(nil) {
					again.Plan(other)
				}
			}
			if q := again.Plan(n); !reflect.DeepEqual(p, q) {
				t.Fatalf("%+v\n%s\nthe fourth time\n%s", r, show(w, p), show(w, q))
			}
		}
		layer := w.Tree.Layer(p.Domain)
		var layers []int
		for _, f := range r.Prefer {
			if f.Layer > layer {
				layers = append(layers, f.Layer)
			}
			y.Count("pairs, too", f.Charge == plan.PerPair && f.Layer > layer)
		}
		slices.Sort(layers)
		layers = slices.Compact(layers)
		y.Count("across the cluster", layer == 0)
		y.Count("in a domain", 0 < layer && layer < w.Tree.Depth())
		y.Count("with multiples", slices.Max(r.Multiple) > 1)
		y.Count("with bound members", slices.Max(w.Bound) > 0)
		y.Count("multiples beside members that run", slices.Max(r.Multiple) > 1 && slices.Max(w.Bound) > 0)
		y.Count("pods attract", slices.Max(w.Attract) > 0)
		y.Count("nodes that take all members", slices.Max(w.Free) == 1<<40)
		y.Count("several preferences", len(layers) > 1)
		y.Count("three preferences", len(layers) > 2)
	})
}

// TestStrangeAndSmall is TestChoose for the same shapes, as far as the twin can try everything.
func TestStrangeAndSmall(t *testing.T) {
	kinds := []string{
		"refused", "in a domain", "with multiples", "with bound members", "decided by preferences", "decided by the second preference",
		"decided by attraction",
	}
	worlds.Check(t, 600, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawStrange(t)
		ways := offer.Slots(200)
		for i, n := range w.Free {
			w.Free[i] = min(n, 6, ways-1)
			ways /= w.Free[i] + 1
			if w.Capacity != nil {
				w.Capacity[i] = max(w.Free[i], min(w.Capacity[i], 50))
			}
		}
		if worlds.Total(w.Tree, w.Free, topology.Root) < 60 {
			newOracle(w, drawStrangeRequest(t, w)).compare(t, y)
		}
	})
}

// TestNodesThatTakeThousands: with members in two spines, more are placed among nodes that take thousands of members each,
// as for tiny requests. The sum of all nodes is never used as a size.
func TestNodesThatTakeThousands(t *testing.T) {
	var nodes []topology.Node
	w := plan.World{}
	for i := range 2000 {
		spine := i / 1000
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i), Path: []string{fmt.Sprint("s", spine), fmt.Sprint("b", i/100)}})
		w.Free = append(w.Free, []offer.Slots{1, 4096}[i%2])
	}
	w.Tree, w.Bound = topology.Build([]string{"Spine", "Block"}, nodes), make([]offer.Slots, len(nodes))
	for _, i := range []int{0, 1998} { // they run, and there is place for one more beside each
		w.Bound[i] = 1
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, _ := plan.Choose(w, plan.Request{Want: 100, Min: 100, Prefer: plan.PreferGather(1, 2, 3)})
	runtime.ReadMemStats(&after)
	require.Equal(t, []plan.Place{{Node: 1, Count: 100}}, p.Places)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "bytes")
}
