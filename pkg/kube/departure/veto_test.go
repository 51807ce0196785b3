package departure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod with a forbidden eviction is no victim for a while, longer each time. Old vetoes are forgotten.
func TestForbiddenVictimIsAvoidedForAWhile(t *testing.T) {
	var v Victims
	pod := func(uid string) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}} }
	now := time.Unix(0, 0)
	is := func(at time.Time, uid string) bool {
		barred, _ := v.Vetoed(at)
		return barred[types.UID(uid)]
	}
	require.False(t, is(now, "a"))
	v.vetoed([]*v1.Pod{pod("a"), pod("b")}, now)
	require.True(t, is(now.Add(firstVeto-1), "a"))
	require.False(t, is(now.Add(firstVeto), "a"))

	now = now.Add(firstVeto)
	v.vetoed([]*v1.Pod{pod("a")}, now)
	require.True(t, is(now.Add(2*firstVeto-1), "a"), "twice as long")
	require.False(t, is(now, "b"))
	for range 20 {
		v.vetoed([]*v1.Pod{pod("a")}, now)
	}
	require.False(t, is(now.Add(lastVeto), "a"), "not for ever")

	v.vetoed([]*v1.Pod{pod("c")}, now.Add(lastVeto+1))
	require.NotContains(t, v.vetoes, types.UID("b"))

	state := func(at time.Time) [2]int {
		barred, came := v.Vetoed(at)
		return [2]int{len(barred), came}
	}
	before := state(now)
	require.NotEqual(t, before, state(now.Add(time.Hour)), "vetoes have ended")
	v.vetoed([]*v1.Pod{pod("a")}, now)
	require.NotEqual(t, before, state(now), "one has come")
}
