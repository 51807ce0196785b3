package preempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// inTree gives candidates the tree of their nodes.
func (c *candidates) inTree() *candidates {
	var nodes []topology.Node
	for i := range c.here {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i)})
	}
	c.Attempt = &place.Attempt{Net: &cache.Topology{Tree: topology.Build(nil, nodes)}}
	return c
}

// names are those of some victims, sorted.
func (c *candidates) names(victims []evict.Pick) string {
	var names []string
	for _, p := range victims {
		names = append(names, c.pod(p).Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// once returns plans that there are when all of some set have left, by the first such set: members go to the
// nodes of that set, or only to the first one of them.
func (c *candidates) once(spread bool, asked *int, sets ...string) plans {
	return func(victims []evict.Pick) ([]evict.Pick, []gang.Place) {
		*asked++
		gone := strings.Fields(c.names(victims))
		for _, set := range sets {
			var places []gang.Place
			if slices.ContainsFunc(strings.Fields(set), func(name string) bool { return !slices.Contains(gone, name) }) {
				continue
			}
			for node, here := range c.here {
				if slices.ContainsFunc(here.pods, func(p *v1.Pod) bool { return slices.Contains(strings.Fields(set), p.Name) }) && (spread || len(places) == 0) {
					places = append(places, gang.Place{Node: c.Net.Tree.NodeName(node)})
				}
			}
			return victims, places
		}
		return victims, nil
	}
}

// TestKeep: of those who would leave only those leave without whom there is no plan, as far as tries go. After that nobody leaves
// but where members go.
func TestKeep(t *testing.T) {
	many := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("p%d=10", i))
		}
		return strings.Join(names, "|")
	}
	all := func(c *candidates) string { return c.names(c.everybody()) }
	for name, test := range map[string]struct {
		there, gangs string
		spread       bool
		sets         []string
		want         string // "all" is everybody
		enough       bool
		most         int // plans that may be made
	}{
		"who is needed":                          {"a=10|b=20|c=30|d=40", "", true, []string{"b d"}, "b d", true, 10},
		"the dearer one stays":                   {"a=10|b=20", "", true, []string{"b", "a"}, "a", true, 10},
		"who leaves with others stays with them": {"g-0=10|g-1=10|x=90", "g=0", true, []string{"g-0", "x"}, "x", true, 10},
		"whom a gang can spare leaves alone":     {"g-0=10|g-1=20|x=5", "g=1", true, []string{"g-1"}, "g-1", true, 10},
		"as far as tries go, where members go":   {many(70), "", true, []string{"all"}, "all", true, mostPutBack + 1},
		"nobody elsewhere without having tried":  {many(70), "", false, []string{"all"}, "all", false, mostPutBack + 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := candidatesOf(t, test.there, test.gangs, "").inTree()
			for i, set := range test.sets {
				if set == "all" {
					test.sets[i] = all(c)
				}
			}
			if test.want == "all" {
				test.want = all(c)
			}
			asked := 0
			fewer, enough := c.keep(c.everybody(), c.once(test.spread, &asked, test.sets...))
			require.Equal(t, test.want, c.names(fewer))
			require.Equal(t, test.enough, enough)
			require.LessOrEqual(t, asked, test.most)
		})
	}
}

// TestKeepsEverybodyElse: in small worlds, whoever plans need, and whoever leaves with whom: nobody leaves without whom there is a
// plan, no gang is left that cannot run, and there is a plan.
func TestKeepsEverybodyElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([][]string, rapid.IntRange(1, 4).Draw(t, "nodes"))
		var names, gangs []string
		put := func(name string) {
			n := rapid.IntRange(0, len(nodes)-1).Draw(t, "node of "+name)
			nodes[n] = append(nodes[n], fmt.Sprintf("%s=%d", name, rapid.IntRange(1, 3).Draw(t, "priority of "+name)))
			names = append(names, name)
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
			put(fmt.Sprint("p", i))
		}
		for g := range rapid.IntRange(0, 2).Draw(t, "gangs") {
			size := rapid.IntRange(2, 3).Draw(t, "size")
			gangs = append(gangs, fmt.Sprintf("g%d=%d", g, rapid.IntRange(0, size-1).Draw(t, "spare")))
			for i := range size {
				put(fmt.Sprintf("g%d-%d", g, i))
			}
		}
		if len(names) == 0 {
			return
		}
		var there []string
		for _, here := range nodes {
			there = append(there, strings.Join(here, " "))
		}
		var sets []string
		for range rapid.IntRange(1, 3).Draw(t, "ways") {
			sets = append(sets, strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID).Draw(t, "way"), " "))
		}
		c := candidatesOf(t, strings.Join(there, "|"), strings.Join(gangs, " "), "").inTree()
		asked := 0
		plans := c.once(true, &asked, sets...)
		fewer, enough := c.keep(c.everybody(), plans)
		require.True(t, enough)
		leaves := func(victims []evict.Pick) bool { _, places := plans(victims); return places != nil }
		require.True(t, leaves(fewer))
		whole, _ := c.legal(fewer)
		require.ElementsMatch(t, whole, fewer, "who cannot run on leaves, too")
		units := c.units(fewer)
		for i := range units {
			require.False(t, leaves(picks(slices.Delete(slices.Clone(units), i, i+1))), "%s could stay", c.names(units[i].picks))
		}
	})
}

// TestCostOfAllTogether: what leaves together violates a budget that each of them would keep.
func TestCostOfAllTogether(t *testing.T) {
	c := candidatesOf(t, "a=10|b=20", "", "")
	one := []evict.Budget{{Name: "one", Allowed: 1}}
	units := c.units(c.everybody())
	for i := range units {
		units[i].budgets = one
	}
	require.Zero(t, c.costOf(units[:1]).Violations)
	require.Equal(t, evict.Cost{Violations: 1, Pods: 2, Highest: 20, Sum: 30}, c.costOf(units))
}
