package bundle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/choice"
	_ "github.com/muster-scheduler/muster/test/seed"
)

// TestEvictedAndApart: which gangs are evicted when some lose more members than they can spare, and in which bundles.
func TestEvictedAndApart(t *testing.T) {
	gang := func(group int, above ...choice.Level) bundle.Gang { return bundle.Gang{Group: group, Above: above} }
	level := func(name string, least int) choice.Level { return choice.Level{Name: name, Least: least} }
	root := func(least int) choice.Level { return level("root", least) }
	for name, test := range map[string]struct {
		gangs   []bundle.Gang
		lose    string // the gangs that lose one member each
		evicted string
		apart   string
	}{
		"no victim":                        {gangs: []bundle.Gang{gang(0)}},
		"a gang without a group":           {gangs: []bundle.Gang{gang(0), gang(0)}, lose: "1", evicted: "1", apart: "1"},
		"a member that the gang can spare": {gangs: []bundle.Gang{{Spare: 1}}, lose: "0"},
		"two gangs without a group":        {gangs: []bundle.Gang{gang(0), gang(0)}, lose: "0 1", evicted: "0 1", apart: "0, 1"},
		"a group":                          {gangs: []bundle.Gang{gang(1), gang(0), gang(1)}, lose: "0", evicted: "0 2", apart: "0 2"},
		"two groups": {
			gangs: []bundle.Gang{gang(1), gang(2), gang(1), gang(2)}, lose: "0 3", evicted: "0 1 2 3", apart: "0 2, 1 3",
		},
		"one of three, two are needed": {
			gangs: []bundle.Gang{gang(1, root(2)), gang(1, root(2)), gang(1, root(2))}, lose: "1", evicted: "1", apart: "1",
		},
		"two of three, two are needed": {
			gangs: []bundle.Gang{gang(1, root(2)), gang(1, root(2)), gang(1, root(2))}, lose: "0 1", evicted: "0 1 2", apart: "0 1 2",
		},
		"two of four, two are needed": {
			gangs: []bundle.Gang{gang(1, root(2)), gang(1, root(2)), gang(1, root(2)), gang(1, root(2))}, lose: "0 1", evicted: "0 1", apart: "0, 1",
		},
		"a gang that is short is no support": {
			gangs: []bundle.Gang{gang(1, root(1)), {Group: 1, Above: []choice.Level{root(1)}, Short: true}}, lose: "0", evicted: "0 1", apart: "0 1",
		},
		"a lower level": {
			gangs: []bundle.Gang{gang(1, level("a", 2), root(1)), gang(1, level("a", 2), root(1)), gang(1, level("b", 1), root(1))},
			lose:  "0", evicted: "0 1", apart: "0 1",
		},
		"a lower level that the root needs": {
			gangs: []bundle.Gang{gang(1, level("a", 2), root(2)), gang(1, level("a", 2), root(2)), gang(1, level("b", 1), root(2))},
			lose:  "0", evicted: "0 1 2", apart: "0 1 2",
		},
		"two lower levels": {
			gangs: []bundle.Gang{
				gang(1, level("a", 2), root(1)), gang(1, level("a", 2), root(1)),
				gang(1, level("b", 2), root(1)), gang(1, level("b", 2), root(1)), gang(1, level("c", 1), root(1)),
			},
			lose: "0 3", evicted: "0 1 2 3", apart: "0 1, 2 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			lost := make([]int, len(test.gangs))
			for _, i := range strings.Fields(test.lose) {
				lost[i[0]-'0'] = 1
			}
			evicted := bundle.Evicted(test.gangs, lost)
			var indexes, bundles []string
			for i := range evicted {
				if evicted[i] {
					indexes = append(indexes, fmt.Sprint(i))
				}
			}
			for _, b := range bundle.SeparateBundles(test.gangs, evicted) {
				bundles = append(bundles, strings.Trim(fmt.Sprint(b), "[]"))
			}
			require.Equal(t, test.evicted, strings.Join(indexes, " "))
			require.Equal(t, test.apart, strings.Join(bundles, ", "))
		})
	}
}

// TestEvictedIsAClosure: Evicted agrees with the slow twin, does not shrink when more members are lost, and evicts
// nothing more when the evicted gangs are lost. A bundle of Apart is evicted by none of the other bundles.
func TestEvictedIsAClosure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gangs := drawGangs(t)
		lost, more := make([]int, len(gangs)), make([]int, len(gangs))
		for i := range gangs {
			lost[i] = rapid.IntRange(0, 2).Draw(t, "lost")
			more[i] = lost[i] + rapid.IntRange(0, 1).Draw(t, "more")
		}
		evicted := bundle.Evicted(gangs, lost)
		require.Equal(t, evictedTwin(gangs, lost), evicted)
		for i, also := range bundle.Evicted(gangs, more) {
			require.True(t, also || !evicted[i], "gang %d is evicted when fewer members are lost", i)
		}
		again := make([]int, len(gangs))
		for i := range gangs {
			if evicted[i] {
				again[i] = gangs[i].Spare + 1
			}
		}
		require.Equal(t, evicted, bundle.Evicted(gangs, again))
		seen := make([]bool, len(gangs))
		for _, b := range bundle.SeparateBundles(gangs, evicted) {
			only := make([]int, len(gangs))
			for _, i := range b {
				require.False(t, seen[i], "gang %d is in two bundles", i)
				seen[i], only[i] = true, gangs[i].Spare+1
			}
			for i, gone := range bundle.Evicted(gangs, only) {
				require.True(t, !gone || slices.Contains(b, i), "bundle %v evicts gang %d", b, i)
			}
		}
		require.Equal(t, evicted, seen)
	})
}

// drawGangs draws up to six gangs, most of them in one group with a tree of levels.
func drawGangs(t *rapid.T) []bundle.Gang {
	root := choice.Level{Name: "root", Least: rapid.IntRange(0, 3).Draw(t, "least of the root")}
	gangs := make([]bundle.Gang, rapid.IntRange(1, 6).Draw(t, "gangs"))
	var branches, twigs [2]choice.Level
	for i := range branches {
		branches[i] = choice.Level{Name: fmt.Sprint("branch", i), Least: rapid.IntRange(1, 2).Draw(t, "least of a branch")}
		twigs[i] = choice.Level{Name: fmt.Sprint("twig", i), Least: rapid.IntRange(1, 2).Draw(t, "least of a twig")}
	}
	for i := range gangs {
		g := &gangs[i]
		g.Group = rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2}).Draw(t, "group")
		g.Spare = rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "spare")
		if g.Group != 1 {
			continue
		}
		g.Short = rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "short")
		switch branch := rapid.IntRange(0, 1).Draw(t, "branch"); rapid.SampledFrom([]int{0, 1, 1, 2, 2, 2, 3}).Draw(t, "depth") {
		case 1:
			g.Above = []choice.Level{root}
		case 2:
			g.Above = []choice.Level{branches[branch], root}
		case 3:
			g.Above = []choice.Level{twigs[branch], branches[branch], root}
		}
	}
	return gangs
}

// evictedTwin is Evicted level by level, until no further one is lost.
func evictedTwin(gangs []bundle.Gang, lost []int) []bool {
	gone := make([]bool, len(gangs))
	for i, n := range lost {
		gone[i] = n > gangs[i].Spare
	}
	together := func(i, k int) bool { return i == k || gangs[i].Group > 0 && gangs[i].Group == gangs[k].Group }
	below := func(i int, level string) bool {
		return slices.ContainsFunc(gangs[i].Above, func(l choice.Level) bool { return l.Name == level })
	}
	for again := slices.Contains(gone, true); again; {
		again = false
		for i, g := range gangs {
			for depth := 0; gone[i] && depth <= len(g.Above); depth++ {
				if runs(gangs, i, depth, gone) {
					continue
				}
				for k := range gangs {
					if under := depth == len(g.Above) || below(k, g.Above[depth].Name); under && together(i, k) && !gone[k] {
						gone[k], again = true, true
					}
				}
			}
		}
	}
	return gone
}

// runs returns whether the level above gang i at some depth runs when some gangs are gone. Above the topmost level is
// the group, which needs its gangs without levels.
func runs(gangs []bundle.Gang, i, depth int, gone []bool) bool {
	above := gangs[i].Above
	together := func(k int) bool { return i == k || gangs[i].Group > 0 && gangs[i].Group == gangs[k].Group }
	if depth == len(above) {
		for k, g := range gangs {
			if together(k) && (len(g.Above) == 0 && gone[k] || len(g.Above) > 0 && !runs(gangs, k, len(g.Above)-1, gone)) {
				return false
			}
		}
		return true
	}
	children := map[string]bool{}
	for k, g := range gangs {
		for d, l := range g.Above {
			switch {
			case !together(k) || l.Name != above[depth].Name:
			case d == 0 && !gone[k] && !g.Short:
				children[fmt.Sprint("gang ", k)] = true
			case d > 0 && runs(gangs, k, d-1, gone):
				children[g.Above[d-1].Name] = true
			}
		}
	}
	return len(children) >= above[depth].Least
}
