package gang_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// Case 54: one member of a NonStrict gang loses its node and needs another. The others keep theirs, and the barrier
// opens.
func TestMemberWithLostNodeIsPlannedAgain(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 3, func(s *gang.Spec) { s.NonStrict = true }), seen("a-0", 0, ""), seen("a-1", 1, ""), seen("a-2", 2, ""))
	s.do(planned("a", "a-0@n0", "a-1@n1", "a-2@n2"), assumed("a-2"), released("a-2"))
	s.do(assumed("a-0"), held("a-0"))
	require.Equal(t, "waits until the plan of its gang is carried out", s.admits("a-2"), "one is on its way yet")
	s.do(assumed("a-1"), held("a-1"))
	require.Equal(t, []string{"wake a-2"}, s.after(time.Second))
	require.Equal(t, "yes", s.admits("a-2"))

	g := mustGroup(t, s, "a-2")
	require.Equal(t, 1, g.Need())
	require.Equal(t, []string{"a-2"}, pods(g.Pending))
	require.Equal(t, []string{"a-0", "a-1"}, pods(g.Bound), "where they hold places counts for the rules")
	require.Equal(t, "n1", g.Bound[1].Node)
	require.True(t, g.Holding, "no pod is evicted while other members hold nodes")
	require.Contains(t, g.Avoid, "n2")

	require.Equal(t, []string{"wake a-2"}, s.do(planned("a", "a-2@n3")))
	require.Equal(t, []string{"a-2"}, s.book.PlacesOn("n3"))
	require.Equal(t, []string{"allow a-0", "allow a-1", "allow a-2"}, s.do(assumed("a-2"), held("a-2")))
}

// Without another node the wait of all members ends.
func TestVacancyWithoutNodeExpires(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 2, func(s *gang.Spec) { s.NonStrict = true }), seen("a-0", 0, ""), seen("a-1", 1, ""))
	s.do(planned("a", "a-0@n0", "a-1@n1"), assumed("a-0"), held("a-0"), assumed("a-1"), released("a-1"))
	require.Equal(t, []string{"wake a-1"}, s.after(time.Second))
	s.do(noRoom("a"))
	require.Equal(t, []string{"expire a", "reject a-0"}, s.after(9*time.Second))
	require.False(t, mustGroup(t, s, "a-1").Holding)
}

func pods(members []gang.Member) (out []string) {
	for _, m := range members {
		out = append(out, m.Pod)
	}
	return out
}

// A later reservation counts the earlier assignments of a confirmed plan, until either is planned again.
func TestLaterReservationCountsConfirmedPlan(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 1), seen("a-0", 0, ""), declared("b", 1), seen("b-0", 0, ""))
	require.False(t, s.book.ReservedAfter("b-0", "a-0"), "no pod has a node")
	s.do(planned("a", "a-0@n0"), reserved("b", "b-0@n0"))
	require.True(t, s.book.ReservedAfter("b-0", "a-0"))
	require.False(t, s.book.ReservedAfter("a-0", "b-0"))
	s.do(planned("a", "a-0@n0"))
	require.False(t, s.book.ReservedAfter("b-0", "a-0"), "the new plan counted the reservation")
	s.do(reserved("b", "b-0@n0"), gang.Confirmed{Group: ref("b")})
	require.False(t, s.book.ReservedAfter("b-0", "a-0"), "no victim is awaited any more")
}
