package quota_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// A gang of two quotas is guaranteed above both only if it is in both: a gang that borrows in one comes after gangs that are guaranteed in
// all, whatever its priority.
func TestGangOfTwoQuotas(t *testing.T) {
	tree, problems := quota.NewTree([]quota.Spec{
		{Name: "p", Inner: true, Min: quota.List{"cpu": 10}},
		{Name: "a", Parent: "p", Min: quota.List{"cpu": 10}},
		{Name: "b", Parent: "p"},
	})
	require.Empty(t, problems)
	b := quota.NewBook(tree)
	for _, p := range []quota.Pod{
		{Name: "x1", Gang: "x", Quota: "a", Priority: 1},
		{Name: "x2", Gang: "x", Quota: "b", Priority: 1},
		{Name: "y1", Gang: "y", Quota: "a"},
	} {
		p.Asks, p.State, p.Since = quota.List{"cpu": 4}, quota.Bound, 1
		b.Set(p)
	}
	require.Equal(t, quota.Guaranteed, b.Class("x", "a"))
	require.Equal(t, quota.Borrows, b.Class("x", "b"))
	require.Equal(t, quota.Guaranteed, b.Class("y", "p"))
	require.Equal(t, quota.Straddling, b.Class("x", "p"), "without it a has less than its min")
}
