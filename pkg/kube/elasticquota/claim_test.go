package elasticquota

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// A borrower is evicted for a quota that stays within its min once lower-priority pods of that quota are evicted, and only together with
// them.
func TestOwnPodsAreEvictedBeforeBorrowers(t *testing.T) {
	for name, test := range map[string]struct {
		own  int32 // priority of the pod that runs in the quota
		more bool
	}{"a less important one": {-1, true}, "one as important": {0, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.node("n1", "8", v1.ConditionTrue)
			w.declare("q min=8 max=8", "o max=100")
			own := w.pod("default/own", "q", "n1", "4").DeepCopy()
			own.Spec.Priority = &test.own
			w.setPod(own)
			borrows := w.pod("default/borrows", "o", "n1", "4")
			g := w.unlike(1, "8")
			c := w.SearchVictims(g, unlimited)
			require.False(t, c.May(borrows, true), "4 of 8, and 8 more")
			verdict := map[bool]quota.Verdict{true: quota.Admitted, false: quota.Exceeds}
			require.Equal(t, verdict[test.more], c.Check([]*v1.Pod{own, borrows}))
			require.Equal(t, quota.Exceeds, c.Check([]*v1.Pod{borrows}))
			require.Equal(t, verdict[test.more], c.Check([]*v1.Pod{own}))
			require.Equal(t, test.more, c.OwnFirst())
			require.Equal(t, test.more, c.May(borrows, false))
			require.Equal(t, test.more, c.May(own, true))
			require.Equal(t, test.more, c.Check([]*v1.Pod{own, borrows}) == quota.Admitted)
			require.NotEqual(t, quota.Admitted, c.Check([]*v1.Pod{borrows}))
		})
	}
}

// Another quota exceeds its fair share if some pods of the own quota are evicted, but not if all are evicted. Some is
// enough.
//
// Both quotas share 8 CPU. Quota q uses 3 with less important pods, o uses 5, and a gang of q requests 3.
//
//	3 + 3 exceeds the fair share of q, which is 4.
//	Without two pods of q, 1 + 3 does not, and o uses more than its fair share of 4.
//	Without all pods of q, q requests only 3, and the fair share of o is 5.
func TestSomeOwnPodsAreEvictedBeforeBorrowers(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "8", v1.ConditionTrue)
	w.declare("q max=100", "o max=100")
	var own []*v1.Pod
	for i := range 3 {
		p := w.pod(fmt.Sprint("default/own-", i), "q", "n1", "1").DeepCopy()
		p.Spec.Priority = ptr.To(int32(-1))
		w.setPod(p)
		own = append(own, p)
	}
	borrows := w.pod("default/borrows", "o", "n1", "3")
	w.pod("default/stays", "o", "n1", "2")
	c := w.SearchVictims(w.unlike(1, "3"), unlimited)
	require.False(t, c.May(borrows, true))
	require.True(t, c.OwnFirst())
	require.True(t, c.May(borrows, false))
	require.Equal(t, quota.Exceeds, c.Check([]*v1.Pod{own[0], borrows}))
	require.Equal(t, quota.Admitted, c.Check([]*v1.Pod{own[0], own[1], borrows}))
	require.Equal(t, quota.Exceeds, c.Check([]*v1.Pod{own[0], own[1], own[2], borrows}))
	require.NotEqual(t, quota.Admitted, c.Check([]*v1.Pod{own[0], borrows}))
	require.Equal(t, quota.Admitted, c.Check([]*v1.Pod{own[0], own[1], borrows}))
	require.NotEqual(t, quota.Admitted, c.Check([]*v1.Pod{own[0], own[1], own[2], borrows}))
}
