package mixed_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// TestHolds: what is left of a plan obeys the rules, or which it breaks. Two blocks in a
// spine and one in another, of two nodes each.
func TestHolds(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer", "BlockLayer"}, []topology.Node{
		{Name: "n0", Path: []string{"s1", "b1"}},
		{Name: "n1", Path: []string{"s1", "b1"}},
		{Name: "n2", Path: []string{"s1", "b2"}},
		{Name: "n3", Path: []string{"s1", "b2"}},
		{Name: "n4", Path: []string{"s2", "b3"}},
		{Name: "n5", Path: []string{"s2", "b3"}},
	})
	type counts = []offer.Slots
	at := func(nodes ...int) counts {
		c := make(counts, 6)
		for _, n := range nodes {
			c[n]++
		}
		return c
	}
	spine := plan.Gather{Must: 1}
	twosInBlocks := plan.Gather{Multiple: offer.Multiples{0, 0, 2, 0}}
	for _, c := range []struct {
		name      string
		all, each plan.Gather
		gangs     []mixed.Gang
		places    []counts
		want      string // and the domain
	}{
		{"no member is needed, none exists", spine, plan.Gather{}, []mixed.Gang{{}}, []counts{at()}, ""},
		{"all of four", spine, twosInBlocks, []mixed.Gang{{Need: 4}}, []counts{at(0, 1, 2, 3)}, ""},
		{"three of four", plan.Gather{}, plan.Gather{}, []mixed.Gang{{Need: 4}}, []counts{at(0, 1, 2)}, "3 members have places, 4 need one"},
		{
			"three of four in twos", twosInBlocks,
			plan.Gather{},
			[]mixed.Gang{{Need: 3}},
			[]counts{at(0, 1, 2)},
			"1 members in a domain of BlockLayer are no multiple of 2: s1/b2",
		},
		{"two of four in twos", twosInBlocks, plan.Gather{}, []mixed.Gang{{Need: 2}}, []counts{at(0, 1)}, ""},
		{"one beside one that runs, in twos", twosInBlocks, plan.Gather{}, []mixed.Gang{{Bound: at(2)}}, []counts{at(0, 1, 3)}, ""},
		{"one that runs is asked for nothing", twosInBlocks, plan.Gather{}, []mixed.Gang{{Bound: at(2)}}, []counts{at(0, 1)}, ""},
		{
			"two beside one that runs, in twos", twosInBlocks,
			plan.Gather{},
			[]mixed.Gang{{Bound: at(2)}},
			[]counts{at(3, 3)},
			"3 members in a domain of BlockLayer are no multiple of 2: s1/b2",
		},
		{"in two spines", spine, plan.Gather{}, []mixed.Gang{{Need: 2}}, []counts{at(0, 4)}, "the places are not in one domain of SpineLayer: "},
		{
			"away from running members", spine,
			plan.Gather{},
			[]mixed.Gang{{Need: 1, Bound: at(0)}},
			[]counts{at(4)},
			"the places are not in one domain of SpineLayer: ",
		},
		{"running members are apart, and there are no new ones", spine, plan.Gather{}, []mixed.Gang{{Bound: at(0, 5)}}, []counts{at()}, ""},
		{
			"gangs together in a spine, each in a block", spine,
			plan.Gather{Must: 2},
			[]mixed.Gang{{Need: 2}, {Need: 2}},
			[]counts{at(0, 1), at(2, 3)},
			"",
		},
		{
			"the second in two blocks", spine,
			plan.Gather{Must: 2},
			[]mixed.Gang{{Need: 2}, {Need: 2}},
			[]counts{at(0, 1), at(1, 3)},
			"gang 1: the places are not in one domain of BlockLayer: s1",
		},
		{
			"the second is short", spine,
			plan.Gather{Must: 2},
			[]mixed.Gang{{Need: 2}, {Need: 2}},
			[]counts{at(0, 1), at(3)},
			"gang 1: 1 members have places, 2 need one",
		},
		{
			"twos together, but not each",
			plan.Gather{},
			twosInBlocks,
			[]mixed.Gang{{Need: 1}, {Need: 1}},
			[]counts{at(0), at(1)},
			"1 members in a domain of BlockLayer are no multiple of 2: s1/b1",
		},
		{"twos together", twosInBlocks, plan.Gather{}, []mixed.Gang{{Need: 1}, {Need: 1}}, []counts{at(0), at(1)}, ""},
		{
			"a multiple beyond any count",
			plan.Gather{Multiple: offer.Multiples{1 << 62}},
			plan.Gather{},
			[]mixed.Gang{{Need: 1}},
			[]counts{at(0)},
			"1 members in a domain of ClusterTopologyLayer are no multiple of 4611686018427387904: ",
		},
	} {
		j := mixed.Job{Gangs: c.gangs, All: c.all, Sets: mixed.EachGang(len(c.gangs), c.each)}
		got := ""
		if b := j.Holds(tree, c.places); b != nil {
			got = b.String()
			if slices.Equal(b.Gangs, []int{1}) {
				got = "gang 1: " + got
			}
			if b.Rule != mixed.TooFew {
				got += ": " + tree.Path(b.Domain)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

// TestJobPlansHold: a plan holds, and ways hold that are legal for the twin, whatever is left of them.
func TestJobPlansHold(t *testing.T) {
	kinds := []string{"plans", "hold", "too few", "all apart", "some apart", "no multiple of all", "no multiple of some", "bound members"}
	worlds.Check(t, 500, kinds, func(t *rapid.T, y worlds.Tally) {
		tree := worlds.Draw(t, 2+worlds.Even(t, 4, "most")).Build()
		kinds := 1 + worlds.Even(t, 3, "kinds")
		s, w := drawJobWorld(t, tree, kinds)
		j := drawJob(t, tree, kinds, 300)
		o := newJobTwin(s, w, j)
		places := func(at way) [][]offer.Slots {
			out := make([][]offer.Slots, len(j.Gangs))
			for g := range out {
				out[g] = make([]offer.Slots, tree.NumNodes())
			}
			for i, n := range at {
				if n < tree.NumNodes() {
					out[o.ranked[i].gang][n]++
				}
			}
			return out
		}
		if p, _ := mixed.Choose(w, j); p != nil {
			y.Count("plans", true)
			if b := j.Holds(tree, places(o.way(p.Puts))); b != nil {
				t.Fatalf("%+v: %v", p, b)
			}
		}
		y.Count("bound members", o.bound[0][topology.Root] > 0)
		o.all(func(at way) bool {
			if !slices.ContainsFunc(at, func(n int) bool { return n < tree.NumNodes() }) {
				return false
			}
			b := j.Holds(tree, places(at))
			if (b == nil) != o.legal(at) {
				t.Fatalf("%v: %v, the twin says %v\n%s", at, b, o.legal(at), o)
			}
			y.Count("hold", b == nil)
			if b != nil {
				of := map[bool]string{true: "all", false: "some"}[b.Gangs == nil]
				y.Count([]string{"", "too few", of + " apart", "no multiple of " + of}[b.Rule], true)
			}
			return false
		})
	})
}
