package place_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// TestTakeOwned: v is evicted for the large members only. The small ones must fit without its capacity, in any order.
func TestTakeOwned(t *testing.T) {
	w := newWorld(t, "node s/b/n1 8\ngang a min=8\npods a 4 cpu=2\npods a 4-8 cpu=1\npod v cpu=4 on=n1")
	a := w.attempt("a")
	_, refusal, err := a.Plan(t.Context())
	require.NoError(t, err)
	require.NotNil(t, refusal)
	gone := []*v1.Pod{w.get("v")}
	take := func(a *place.Attempt, kind int, load ...offer.Slots) offer.Slots {
		return a.Capacity(t.Context(), place.Question{Kind: kind, Load: load, Gone: gone})
	}
	require.Equal(t, offer.Slots(8), take(a, 1, 0, 0))

	owned, err := a.WithOwners(t.Context(), &place.Owners{
		Of:   func(member *v1.Pod) string { return member.Spec.Containers[0].Resources.Requests.Cpu().String() },
		Uses: func(owner string, _ *v1.Pod) bool { return owner == "2" },
	})
	require.NoError(t, err)
	for _, is := range []struct {
		kind         int
		large, small offer.Slots
		want         offer.Slots
	}{
		{0, 0, 0, 4},
		{0, 0, 4, 2},
		{0, 2, 4, 0},
		{1, 0, 0, 4},
		{1, 0, 3, 1},
		{1, 0, 4, 0},
		{1, 1, 0, 4},
		{1, 2, 0, 4},
		{1, 2, 4, 0},
		{1, 3, 0, 2},
		{1, 4, 0, 0},
	} {
		require.Equal(t, is.want, take(owned, is.kind, is.large, is.small), is)
	}
	require.False(t, owned.EqualMembers())
	places := func(pod string) []gang.Assignment { return []gang.Assignment{{Pod: "default/" + pod, Node: "n1"}} }
	require.True(t, owned.VictimsUsable(places("a-0"), gone))
	require.False(t, owned.VictimsUsable(places("a-4"), gone))
	require.True(t, a.VictimsUsable(places("a-4"), gone))
}

// TestOwnedAlike: equal members are distinguished if only some may use the capacity of a victim.
func TestOwnedAlike(t *testing.T) {
	w := newWorld(t, "node s/b/n1 8\ngang a min=3\npods a 2 cpu=2 priority=5\npods a 2-3 cpu=2 priority=6\npod v cpu=4 on=n1")
	a := w.attempt("a")
	_, _, err := a.Plan(t.Context())
	require.NoError(t, err)
	require.True(t, a.EqualMembers())
	owned, err := a.WithOwners(t.Context(), &place.Owners{Of: func(member *v1.Pod) string { return member.Annotations["owner"] }})
	require.NoError(t, err)
	require.True(t, owned.EqualMembers(), "all are of one quota")
	owned, err = a.WithOwners(t.Context(), &place.Owners{Of: func(member *v1.Pod) string { return fmt.Sprint(*member.Spec.Priority) }})
	require.NoError(t, err)
	require.False(t, owned.EqualMembers())
}
