package quota_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// For two gangs with members of several kinds, the choices are the same as in an exhaustive search.
func TestChoices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(most int, label string) int64 { return int64(rapid.IntRange(0, most).Draw(t, label)) }
		tree, _ := quota.NewTree([]quota.Spec{
			{Name: "root", Inner: true},
			{Name: "a", Parent: "root", Max: quota.List{"cpu": amount(16, "max of a"), "gpu": amount(8, "gpus of a")}},
			{Name: "b", Parent: "root", Max: quota.List{"cpu": amount(16, "max of b")}},
		})
		b := quota.NewBook(tree)
		if b.Runtime = rapid.Bool().Draw(t, "runtime"); b.Runtime {
			b.Total("root", quota.List{"cpu": amount(24, "total"), "gpu": 8})
		}
		b.Set(quota.Pod{Name: "runs", Gang: "other", Quota: "a", State: quota.Bound, Asks: quota.List{"cpu": amount(4, "used")}})
		gangs := rapid.IntRange(1, 2).Draw(t, "gangs")
		c := quota.Candidates{Ask: quota.Request{Gang: "g"}, Need: make([]int, gangs)}
		for range rapid.IntRange(1, 4).Draw(t, "kinds") {
			k := quota.Kind{Gang: rapid.IntRange(0, gangs-1).Draw(t, "gang")}
			k.Quota, k.Count = rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "quota"), rapid.IntRange(1, 3).Draw(t, "count")
			k.Asks = quota.List{"cpu": amount(6, "cpu"), "gpu": amount(3, "gpu")}
			c.Kinds = append(c.Kinds, k)
		}
		for g := range c.Need {
			c.Need[g] = rapid.IntRange(0, 3).Draw(t, "need")
		}

		var admitted, most, fewest [][]int
		ask := func(chosen []int) quota.Request {
			a := quota.Request{Gang: "g"}
			for i, n := range chosen {
				w := c.Kinds[i].Want
				if w.Count = n; n > 0 {
					a.Need = append(a.Need, w)
				}
			}
			return a
		}
		starts := func(chosen []int) (enough, exact bool) {
			enough, exact = slices.Max(chosen) > 0, true
			for g, need := range c.Need {
				n := 0
				for i, k := range c.Kinds {
					if k.Gang == g {
						n += chosen[i]
					}
				}
				enough, exact = enough && n >= need, exact && n == need
			}
			return enough, exact
		}
		for chosen := range counts(c.Kinds) {
			enough, exact := starts(chosen)
			if _, refusal := b.Admit(ask(chosen)); enough && refusal == nil {
				admitted = append(admitted, chosen)
			}
			if enough && exact && b.ExceededByAlone(ask(chosen)) == nil {
				fewest = append(fewest, chosen)
			}
		}
		for _, chosen := range admitted {
			if !slices.ContainsFunc(admitted, func(o []int) bool { return !slices.Equal(o, chosen) && contains(o, chosen) }) {
				most = append(most, chosen)
			}
		}
		got := b.MaximalChoices(c, 1000)
		require.ElementsMatch(t, most, got)
		require.True(t, slices.IsSortedFunc(got, func(x, y []int) int { return total(y) - total(x) }), got)
		require.LessOrEqual(t, len(b.MaximalChoices(c, 1)), 1)
		need := slices.ContainsFunc(c.Need, func(n int) bool { return n > 0 })
		require.Equal(t, need && len(admitted) > 0, b.AnyChoice(c) != nil)
		got, all := b.MinimalChoices(c, 1000)
		require.ElementsMatch(t, fewest, got)
		require.True(t, all)
	})
}

// counts are all choices of members of some kinds.
func counts(kinds []quota.Kind) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		chosen := make([]int, len(kinds))
		for {
			if !yield(slices.Clone(chosen)) {
				return
			}
			i := 0
			for ; i < len(kinds) && chosen[i] == kinds[i].Count; i++ {
				chosen[i] = 0
			}
			if i == len(kinds) {
				return
			}
			chosen[i]++
		}
	}
}

func contains(more, fewer []int) bool {
	for i := range fewer {
		if fewer[i] > more[i] {
			return false
		}
	}
	return true
}

func total(of []int) (n int) {
	for _, i := range of {
		n += i
	}
	return n
}

// With more kinds than can be tried, the smallest request is among the choices.
func TestChoicesAreBounded(t *testing.T) {
	tree, _ := quota.NewTree([]quota.Spec{{Name: "q", Max: quota.List{"cpu": 200}}})
	b := quota.NewBook(tree)
	c := quota.Candidates{Ask: quota.Request{Gang: "g"}, Need: []int{15}}
	least, most := make([]int, 30), make([]int, 30) // 1 to 15, and as many more as possible: 190 of 200
	for i := range 30 {
		c.Kinds = append(c.Kinds, quota.Kind{Want: quota.Want{Quota: "q", Asks: quota.List{"cpu": int64(30 - i)}, Count: 1}})
		if i >= 15 {
			least[i] = 1
		}
		if i >= 11 {
			most[i] = 1
		}
	}
	choices := b.MaximalChoices(c, 16)
	require.NotEmpty(t, choices)
	require.Equal(t, most, choices[0])
	choices, all := b.MinimalChoices(c, 16)
	require.NotEmpty(t, choices)
	require.Equal(t, least, choices[0])
	require.LessOrEqual(t, len(choices), 16)
	require.False(t, all, "not all ways were tried")
	require.Equal(t, least, c.Cheapest("cpu"))
}

// A choice that Any finds is listed, also if admitted members have little in common with the smallest requests.
func TestFoundChoiceIsListed(t *testing.T) {
	tree, _ := quota.NewTree([]quota.Spec{{Name: "q", Max: quota.List{"cpu": 32, "gpu": 17, "memory": 26}}})
	b := quota.NewBook(tree)
	c := quota.Candidates{Ask: quota.Request{Gang: "g"}, Need: []int{10}}
	for _, k := range []struct {
		count            int
		cpu, gpu, memory int64
	}{
		{2, 0, 0, 4},
		{1, 4, 5, 11},
		{4, 10, 0, 2},
		{4, 3, 3, 1},
		{3, 1, 1, 6},
		{1, 4, 5, 7},
		{1, 0, 4, 8},
		{3, 9, 1, 10},
		{3, 9, 0, 0},
		{2, 0, 5, 7},
	} {
		asks := quota.List{"cpu": k.cpu, "gpu": k.gpu, "memory": k.memory}
		c.Kinds = append(c.Kinds, quota.Kind{Want: quota.Want{Quota: "q", Asks: asks, Count: k.count}})
	}
	require.Equal(t, []int{2, 0, 0, 4, 2, 0, 0, 0, 2, 0}, b.AnyChoice(c))
	require.Equal(t, [][]int{{2, 0, 0, 4, 2, 0, 0, 0, 2, 0}}, b.MaximalChoices(c, 16))
}
