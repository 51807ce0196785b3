package choice_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/choice"
	_ "github.com/muster-scheduler/muster/test/seed"
)

// draw draws a few gangs in trees of up to three levels above them.
func draw(t *rapid.T) *choice.Choice {
	c := &choice.Choice{}
	least := rapid.SliceOfN(rapid.IntRange(0, 3), 6, 6).Draw(t, "least")
	level := func(name string, k int) choice.Level { return choice.Level{Name: name, Least: least[k]} }
	for range rapid.IntRange(1, 6).Draw(t, "gangs") {
		g := choice.Gang{Open: rapid.IntRange(0, 5).Draw(t, "open") > 0, Need: rapid.IntRange(0, 2).Draw(t, "need")}
		g.Members = g.Need + rapid.IntRange(-1, 1).Draw(t, "more")
		if g.Members = max(g.Members, 0); !g.Open {
			g.Need = min(g.Need, g.Members)
		}
		switch rapid.IntRange(0, 4).Draw(t, "where") {
		case 0:
			g.Above = []choice.Level{level("root", 0)}
		case 1:
			g.Above = []choice.Level{level("a", 1), level("root", 0)}
		case 2:
			g.Above = []choice.Level{level("b", 2), level("root", 0)}
		case 3:
			g.Above = []choice.Level{level("b1", 3), level("b", 2), level("root", 0)}
		}
		if rapid.IntRange(0, 2).Draw(t, "counts") > 0 {
			g.Total = 1
		}
		c.Gangs = append(c.Gangs, g)
	}
	if rapid.Bool().Draw(t, "total") {
		c.Totals = []int{rapid.IntRange(0, 5).Draw(t, "members in all")}
	} else {
		for i := range c.Gangs {
			c.Gangs[i].Total = 0
		}
	}
	return c
}

// running counts, from below, the running children of a level; legal is false if a level below it has too few.
func running(c *choice.Choice, set choice.Set, level string) (n int, legal bool) {
	legal = true
	inner := map[string]int{}
	for i, g := range c.Gangs {
		for k, l := range g.Above {
			switch {
			case l.Name != level:
			case k == 0 && set[i]:
				n++
			case k > 0:
				inner[g.Above[k-1].Name] = g.Above[k-1].Least
			}
		}
	}
	for name, least := range inner {
		k, ok := running(c, set, name)
		if legal = legal && ok && (k == 0 || k >= least); k > 0 {
			n++
		}
	}
	return n, legal
}

// legal is the twin of Needs: what it says of a set.
func legal(c *choice.Choice, set choice.Set) bool {
	members := 0
	for i, g := range c.Gangs {
		if !set[i] && !g.Open || set[i] && g.Open && g.Members < g.Need {
			return false
		}
		if set[i] && g.Total > 0 {
			members += g.Members
		}
		if len(g.Above) > 0 {
			top := g.Above[len(g.Above)-1]
			if n, ok := running(c, set, top.Name); !ok || n < top.Least {
				return false
			}
		}
	}
	return len(c.Totals) == 0 || members >= c.Totals[0]
}

func every(c *choice.Choice) (out []choice.Set) {
	for bits := range 1 << len(c.Gangs) {
		set := make(choice.Set, len(c.Gangs))
		for i := range set {
			set[i] = bits>>i&1 == 1
		}
		if legal(c, set) {
			out = append(out, set)
		}
	}
	return out
}

// alone is the set of started gangs if it may not run without the rest: its pending members follow.
func alone(c *choice.Choice) []choice.Set {
	set, waits := make(choice.Set, len(c.Gangs)), false
	for i, g := range c.Gangs {
		set[i] = !g.Open
		waits = waits || !g.Open && len(g.Above) > 0 && g.Members > 0
	}
	if !waits || len(c.Totals) > 0 || legal(c, set) {
		return nil
	}
	return []choice.Set{set}
}

// all lists what Sets yields.
func all(c *choice.Choice) (out []choice.Set) {
	sets := c.Sets(1 << 12)
	for set := sets.Next(); set != nil; set = sets.Next() {
		out = append(out, set)
	}
	return out
}

// TestSets: every set that may run comes once, most members first, then by the first gangs; last the started gangs
// alone.
func TestSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		want := every(c)
		slices.SortFunc(want, func(a, b choice.Set) int {
			if d := c.Members(b) - c.Members(a); d != 0 {
				return d
			}
			return a.Compare(b)
		})
		want = append(want, alone(c)...)
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(all(c)), "%+v", c)
	})
}

// TestLeast: the least sets contain no other valid set.
func TestLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		step := rapid.IntRange(1, 3).Draw(t, "members in multiples of")
		may := func(set choice.Set) bool { return c.Members(set)%step == 0 }
		sets := slices.DeleteFunc(every(c), func(set choice.Set) bool { return !may(set) })
		var want []string
		for _, set := range sets {
			if !slices.ContainsFunc(sets, func(o choice.Set) bool { return less(o, set) }) {
				want = append(want, fmt.Sprint(set))
			}
		}
		var is []string
		for _, set := range c.Least(1<<10, 1<<12, may) {
			is = append(is, fmt.Sprint(set))
		}
		assert.ElementsMatch(t, want, is, "%+v", c)
		for _, set := range c.Least(1, 1, may) { // too many to look at all
			assert.Contains(t, fmt.Sprint(sets), fmt.Sprint(set), "%+v", c)
		}
	})
}

// less says whether a set is a part of another one, and not all of it.
func less(a, b choice.Set) bool {
	for i := range a {
		if a[i] && !b[i] {
			return false
		}
	}
	return !slices.Equal(a, b)
}

// TestAlike: of interchangeable gangs only sets with the first ones appear, and no other set is missing.
func TestAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		for i := range c.Gangs {
			c.Gangs[i].Like = "all"
		}
		key := func(i int) string {
			g := c.Gangs[i]
			return fmt.Sprint(g.Open, g.Need, g.Members, g.Total, g.Above)
		}
		kind := func(set choice.Set) (out []string) {
			for i, in := range set {
				if in {
					out = append(out, key(i))
				}
			}
			slices.Sort(out)
			return out
		}
		want := map[string]bool{}
		for _, set := range append(every(c), alone(c)...) {
			want[fmt.Sprint(kind(set))] = true
		}
		is := map[string]bool{}
		for _, set := range all(c) {
			assert.False(t, is[fmt.Sprint(kind(set))], "%v twice in %+v", set, c)
			is[fmt.Sprint(kind(set))] = true
			for i, in := range set {
				for k := range i {
					assert.False(t, in && !set[k] && key(i) == key(k), "%v of %+v", set, c)
				}
			}
		}
		assert.Equal(t, want, is, "%+v", c)
	})
}

// TestNeeds: a total beyond the needs of gangs goes to gangs without a level first.
func TestNeeds(t *testing.T) {
	part := []choice.Level{{Name: "part", Least: 1}}
	c := &choice.Choice{Totals: []int{6}, Gangs: []choice.Gang{
		{Above: part, Open: true, Need: 2, Members: 3, Total: 1},
		{Above: part, Open: true, Need: 2, Members: 2, Total: 1},
		{Members: 2, Total: 1},
	}}
	needs := func(set ...bool) string {
		n, ok := c.Needs(set)
		return fmt.Sprint(n, ok)
	}
	assert.Equal(t, "[2 2 2] true", needs(true, true, true))
	assert.Equal(t, "[] false", needs(true, false, true), "of five members six are needed")
	c.Totals[0] = 7
	assert.Equal(t, "[3 2 2] true", needs(true, true, true))
	c.Totals[0] = 2
	assert.Equal(t, "[0 2 0] true", needs(false, true, true))
	assert.Equal(t, "[] false", needs(false, false, true), "one part at least")
	assert.False(t, c.Requires(0), "the second part suffices")
	part[0].Least = 2
	assert.True(t, c.Requires(0), "two parts are needed")
	assert.True(t, (*choice.Choice)(nil).Requires(0))
}

// TestManyGangs: many interchangeable gangs are fast; for distinct gangs the limit of sets applies.
func TestManyGangs(t *testing.T) {
	c := &choice.Choice{}
	for i := range 64 {
		c.Gangs = append(c.Gangs, choice.Gang{Above: []choice.Level{{Name: "root", Least: 32}}, Open: true, Need: 8, Members: 8, Like: "one"})
		if i%2 == 0 {
			c.Gangs[i].Like = "other"
		}
	}
	assert.Len(t, all(c), 33*33-32*33/2)
	assert.Len(t, c.Least(1<<10, 1<<14, nil), 33)
	for i := range c.Gangs {
		c.Gangs[i].Like = ""
	}
	sets := c.Sets(100)
	n := 0
	for set := sets.Next(); set != nil; set = sets.Next() {
		n++
	}
	assert.Equal(t, 100, n)
	assert.True(t, sets.Incomplete())
	least := c.Least(1, 1000, nil)
	assert.Len(t, least, 1)
	assert.Equal(t, 32*8, c.Members(least[0]))
}
