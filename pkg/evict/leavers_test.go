package evict_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/test/worlds"
)

// parties are so many pods each, and what each gives of what is needed.
type parties struct {
	pods, gives []int
	need        int
	most        int // pods that may leave
}

func drawParties(t *rapid.T) parties {
	n := rapid.IntRange(1, 6).Draw(t, "parties")
	p := parties{
		pods:  rapid.SliceOfN(rapid.IntRange(1, 3), n, n).Draw(t, "pods"),
		gives: rapid.SliceOfN(rapid.IntRange(0, 3), n, n).Draw(t, "gives"),
		need:  rapid.IntRange(1, 8).Draw(t, "need"),
		most:  rapid.SampledFrom([]int{4, 100}).Draw(t, "most"),
	}
	slices.Sort(p.pods)
	return p
}

func (p parties) leavers() (l evict.Leavers) {
	for _, n := range p.pods {
		l.Costs = append(l.Costs, evict.Cost{Pods: n})
	}
	l.Enough = p.enough
	return l
}

func (p parties) enough(some []int) bool {
	pods, gives := 0, 0
	for _, i := range some {
		pods, gives = pods+p.pods[i], gives+p.gives[i]
	}
	return gives >= p.need && pods <= p.most
}

// least is what costs least of all sets of at most so many that are enough; false if none is.
func (p parties) least(most int) (least evict.Cost, any bool) {
	for set := 1; set < 1<<len(p.pods); set++ {
		some := slices.DeleteFunc(numbers(len(p.pods)), func(i int) bool { return set&(1<<i) == 0 })
		if c := p.leavers().Cost(some); len(some) <= most && p.enough(some) && (!any || c.Compare(least) < 0) {
			least, any = c, true
		}
	}
	return least, any
}

// TestLeavers compares those who leave with all sets: of one or two nobody costs less, and where many leave nobody of them may stay.
func TestLeavers(t *testing.T) {
	worlds.Check(t, 2000, []string{"nobody", "few", "many", "fewer than many"}, func(t *rapid.T, tally worlds.Tally) {
		p := drawParties(t)
		l, order := p.leavers(), rapid.Permutation(numbers(len(p.pods))).Draw(t, "order")
		few, many := l.Few(nil), l.Many(order, rapid.IntRange(0, len(order)).Draw(t, "first"))
		if best, any := p.least(2); any {
			tally["few"]++
			require.True(t, p.enough(few))
			require.Equal(t, best, l.Cost(few))
		} else {
			require.Nil(t, few)
		}
		if many == nil {
			require.False(t, p.enough(order), "all are enough")
			require.False(t, p.enough(order[:1]), "the first one is enough")
			if few == nil {
				tally["nobody"]++
			}
			return
		}
		require.True(t, p.enough(many))
		for i := range many {
			without := slices.Delete(slices.Clone(many), i, i+1)
			require.False(t, p.enough(without), "%d need not leave of %v", many[i], many)
		}
		known := l.Few(many)
		if few != nil && l.Cost(few).Compare(l.Cost(many)) < 0 {
			tally["fewer than many"]++
			require.Equal(t, few, known)
		} else {
			tally["many"]++
			require.Equal(t, many, known, "who is known stays if nobody costs less")
		}
	})
}

func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// TestLeaversInOrder: the first ones of the order leave without the rest if any number of them is enough, and the rest where none is.
func TestLeaversInOrder(t *testing.T) {
	for name, test := range map[string]struct {
		p     parties
		first int
		want  []int
	}{
		"as many as are needed":                     {parties{[]int{1, 1, 1}, []int{1, 1, 1}, 2, 9}, 0, []int{0, 1}},
		"who is no help stays":                      {parties{[]int{1, 1, 1}, []int{1, 0, 1}, 2, 9}, 0, []int{0, 2}},
		"none of the rest":                          {parties{[]int{1, 1, 1}, []int{1, 1, 2}, 2, 9}, 2, []int{0, 1}},
		"the rest if the first ones are too few":    {parties{[]int{1, 1, 1}, []int{0, 0, 2}, 2, 9}, 2, []int{2}},
		"few where all are too many":                {parties{[]int{1, 1, 1, 1}, []int{1, 1, 1, 1}, 2, 2}, 0, []int{0, 1}},
		"few of the first where those are too many": {parties{[]int{1, 1, 1, 1}, []int{1, 1, 1, 1}, 1, 1}, 3, []int{0}},
		"nobody, since all are too few":             {parties{[]int{1, 1}, []int{1, 1}, 3, 9}, 1, nil},
		"nobody, since enough are too many":         {parties{[]int{1, 1, 1}, []int{1, 1, 1}, 2, 1}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, test.p.leavers().Many(numbers(len(test.p.pods)), test.first))
		})
	}
	require.Nil(t, evict.Leavers{}.Many(nil, 0), "nobody may leave")
	require.Nil(t, evict.Leavers{}.Few(nil), "nobody may leave")
}
