package elasticquota

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Who borrows leaves for a quota that stays within its min when less important pods of its own have left; and only together with these.
func TestOwnPodsLeaveFirst(t *testing.T) {
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
			c := w.Claim(g, forEver)
			require.False(t, c.May(borrows, true), "4 of 8, and 8 more")
			require.Equal(t, test.more, c.OwnFirst())
			require.Equal(t, test.more, c.May(borrows, false))
			require.Equal(t, test.more, c.May(own, true))
			require.Equal(t, test.more, c.Enough([]*v1.Pod{own, borrows}))
			require.False(t, c.Enough([]*v1.Pod{borrows}))
		})
	}
}
