package preempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
)

// names are those of some victims, sorted.
func (c *candidates) names(victims []evict.Pick) string {
	var names []string
	for _, p := range victims {
		names = append(names, c.pod(p).Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// once returns plans that there are when all of some set have left, by the first such set. Nobody says who else could stay.
func (c *candidates) once(enough bool, asked *int, sets ...string) plans {
	return func(victims []evict.Pick) *way {
		*asked++
		gone := strings.Fields(c.names(victims))
		for _, set := range sets {
			if !slices.ContainsFunc(strings.Fields(set), func(name string) bool { return !slices.Contains(gone, name) }) {
				return &way{victims: victims, enough: enough}
			}
		}
		return nil
	}
}

// TestKeep: of those who would leave only those leave without whom there is no plan, as far as tries go.
func TestKeep(t *testing.T) {
	var many []string
	for i := range 70 {
		many = append(many, fmt.Sprintf("p%d=10", i))
	}
	const all = "all"
	for name, test := range map[string]struct {
		there, gangs string
		sets         []string
		want         string
		most         int // plans that may be made
	}{
		"who is needed":                          {"a=10|b=20|c=30|d=40", "", []string{"b d"}, "b d", 10},
		"the dearer one stays":                   {"a=10|b=20", "", []string{"b", "a"}, "a", 10},
		"who leaves with others stays with them": {"g-0=10|g-1=10|x=90", "g=0", []string{"g-0", "x"}, "x", 10},
		"whom a gang can spare leaves alone":     {"g-0=10|g-1=20|x=5", "g=1", []string{"g-1"}, "g-1", 10},
		"as far as tries go":                     {strings.Join(many, "|"), "", []string{all}, all, bundle.MostPutBack},
	} {
		t.Run(name, func(t *testing.T) {
			c := candidatesOf(t, test.there, test.gangs, "")
			everybody := c.names(c.everybody())
			for i := range test.sets {
				test.sets[i] = strings.ReplaceAll(test.sets[i], all, everybody)
			}
			asked := 0
			start := &way{victims: c.everybody(), enough: true}
			w := c.keep(start, c.once(true, &asked, test.sets...))
			require.Equal(t, strings.ReplaceAll(test.want, all, everybody), c.names(w.victims))
			require.LessOrEqual(t, asked, test.most)
			require.Same(t, start, c.keep(start, c.once(false, &asked, test.sets...)), "of who else leaves it is not known whether he need")
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
		c := candidatesOf(t, strings.Join(there, "|"), strings.Join(gangs, " "), "")
		asked := 0
		plans := c.once(true, &asked, sets...)
		fewer := c.keep(&way{victims: c.everybody(), enough: true}, plans).victims
		leaves := func(victims []evict.Pick) bool { return plans(victims) != nil }
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
