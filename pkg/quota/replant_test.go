package quota_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// grown is a tree of quotas for cpu below a root.
func grown(names ...string) *quota.Tree {
	specs := []quota.Spec{{Name: "root", Inner: true}}
	for _, name := range names {
		specs = append(specs, quota.Spec{Name: name, Parent: "root", Min: quota.List{"cpu": 1}, Max: quota.List{"cpu": 8}})
	}
	tree, _ := quota.NewTree(specs)
	return tree
}

// A search for victims goes on when quotas are deleted meanwhile, also the quotas of the preemptor and the victims. A
// later search sees the new tree.
func TestSearchOutlivesTree(t *testing.T) {
	b := quota.NewBook(grown("a", "b", "c"))
	b.Total("root", quota.List{"cpu": 8})
	b.Set(quota.Pod{Name: "b1", Gang: "B", Quota: "c", Asks: quota.List{"cpu": 8}, State: quota.Bound, Since: 1})
	b.Set(quota.Pod{Name: "a1", Gang: "A", Quota: "b", Asks: quota.List{"cpu": 1}})
	ask := quota.Request{Gang: "A", Need: []quota.Want{{Quota: "b", Asks: quota.List{"cpu": 1}, Count: 1}}}
	r, view := b.Reclaim(ask, quota.AnyPriority), b.View()
	require.False(t, r.Enough(map[string][]string{"B": {"b1"}}), "c keeps its min")
	r.BelowMin(1)
	require.False(t, r.Enough(map[string][]string{"B": {"b1"}}), "c keeps its min")
	r.BelowMin(math.MaxUint64)
	require.True(t, r.Enough(map[string][]string{"B": {"b1"}}), "b has its min in no other way")
	lacks := r.Shortfall(map[string][]string{"B": {"b1"}})
	require.EqualValues(t, 1_000_000/8, lacks)
	r.BelowMin(lacks)
	require.False(t, r.Enough(map[string][]string{"B": {"b1"}}), "c lacks as much")
	r.BelowMin(math.MaxUint64)

	b = b.Replant(grown("a"))
	require.True(t, r.Enough(map[string][]string{"B": {"b1"}}))
	view.Leave("b1")
	_, refusal := view.Admit(ask)
	require.Nil(t, refusal)
	_, known := b.Waits("B")
	require.False(t, known, "its quota is gone")
	require.Equal(t, quota.None, b.Reclaim(ask, quota.AnyPriority).Right("B"))
}

// A pod that returns to a view may have been deleted meanwhile.
func TestViewOutlivesPod(t *testing.T) {
	b := quota.NewBook(grown("a"))
	b.Set(quota.Pod{Name: "p", Gang: "P", Quota: "a", Asks: quota.List{"cpu": 8}, State: quota.Bound, Since: 1})
	view := b.View()
	view.Leave("p")
	b.Remove("p")
	view.Return("p")
	require.False(t, view.Reduced())
}

// A quota within its min keeps its gang, also if its min does not name all requested resources.
func TestQuotaWithinMinLosesNoPod(t *testing.T) {
	for name, test := range map[string]struct {
		min, has quota.List
		want     quota.Right
	}{
		"within min":                             {quota.List{"cpu": 4}, quota.List{"cpu": 4}, quota.None},
		"within min, with what it does not name": {quota.List{"cpu": 4}, quota.List{"cpu": 4, "gpu": 1}, quota.None},
		"within min of what is not asked for":    {quota.List{"memory": 4}, quota.List{"cpu": 4, "memory": 4}, quota.None},
		"above min, and below without the gang":  {quota.List{"cpu": 2}, quota.List{"cpu": 4}, quota.ByMin},
		"no min":                                 {nil, quota.List{"cpu": 4}, quota.ByMin},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := quota.NewTree([]quota.Spec{
				{Name: "root", Inner: true},
				{Name: "a", Parent: "root", Min: quota.List{"cpu": 4, "gpu": 2}},
				{Name: "b", Parent: "root", Min: test.min},
			})
			b := quota.NewBook(tree)
			b.Total("root", quota.List{"cpu": 4, "gpu": 2, "memory": 8})
			b.Set(quota.Pod{Name: "b1", Gang: "B", Quota: "b", Asks: test.has, State: quota.Bound, Since: 1})
			asks := quota.List{"cpu": 2, "gpu": 1}
			b.Set(quota.Pod{Name: "a1", Gang: "A", Quota: "a", Asks: asks})
			r := b.Reclaim(quota.Request{Gang: "A", Need: []quota.Want{{Quota: "a", Asks: asks, Count: 1}}}, quota.AnyPriority)
			r.BelowMin(math.MaxUint64)
			require.Equal(t, test.want, r.Right("B"))
		})
	}
}
