package gang_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// withReservation is a group of two that waits for victims.
func withReservation(t *testing.T) *story {
	s := newStory(t)
	s.do(declared("a", 2), seen("a-0", 0, ""), seen("a-1", 1, ""))
	p := planned("a", "a-0@n0", "a-1@n1")
	p.Reserved, p.Until = true, s.now.Add(time.Minute)
	s.do(p)
	require.True(t, s.book.Reserved(ref("a")))
	return s
}

// A reservation ends at once when one of its victims stays. The victim's node is avoided for a while.
func TestReservationEndsWhenVictimStays(t *testing.T) {
	s := withReservation(t)
	require.Equal(t, []string{"clear a-0", "clear a-1", "wake a-0"}, s.do(gang.VictimStays{Group: ref("a"), Node: "n1", Why: "forbidden"}))
	require.False(t, s.book.Reserved(ref("a")))
	g, _ := s.book.Group("a-0")
	require.Empty(t, g.Places)
	require.Equal(t, map[string]string{"n1": "forbidden"}, g.Avoid)
	require.Empty(t, s.do(gang.VictimStays{Group: ref("a"), Node: "n1", Why: "forbidden"}), "there is no reservation any more")
	require.Equal(t, []string{"wake a-0"}, s.after(30*time.Second))
	g, _ = s.book.Group("a-0")
	require.Empty(t, g.Avoid)
}

// A group with a reservation on a cordoned node is tried, and no other group.
func TestReservationOnCordonedNodeIsRetried(t *testing.T) {
	s := withReservation(t)
	s.do(declared("b", 1), seen("b-0", 0, ""), planned("b", "b-0@n1"))
	require.Equal(t, []string{"again a-0"}, s.do(gang.NodeClosed{Node: "n1"}))
	require.Empty(t, s.do(gang.NodeClosed{Node: "n2"}))
	require.True(t, s.book.Reserved(ref("a")), "its members may tolerate that")
}

// When the tried member of a group with a reservation is deleted, the next one is woken: cluster events do not wake
// it.
func TestNextRepresentativeIsWokenAfterDeletion(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 2), seen("a-0", 0, ""), seen("a-1", 1, ""), seen("a-2", 2, ""))
	p := planned("a", "a-0@n0", "a-1@n1", "a-2@n2")
	p.Reserved, p.Until = true, s.now.Add(time.Minute)
	s.do(p)
	require.Equal(t, []string{"wake a-1"}, s.do(left("a-0")))
}

// Policy OnlyWaiting does not count running members. If too few wait, their reservation would keep nodes for nothing.
func TestReservationEndsWhenTooFewWait(t *testing.T) {
	for name, change := range map[string]func(s *story){
		"minMember is raised": func(s *story) { s.do(declared("g", 3, onlyWaiting)) },
		"a member is deleted": func(s *story) { s.do(gang.MemberDeleted{Pod: "g-3", UID: "g-3"}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.do(declared("g", 2, onlyWaiting), seen("g-0", 0, "n0"), seen("g-1", 1, "n0"), seen("g-2", 2, ""), seen("g-3", 3, ""))
			p := planned("g", "g-2@n1", "g-3@n1")
			p.Reserved = true
			s.do(p)
			require.Equal(t, []string{"g-2", "g-3"}, s.book.PlacesOn("n1"))
			change(s)
			require.Empty(t, s.book.PlacesOn("n1"))
		})
	}
}

// A reservation ends when the group cannot start any more: all members of one gang have finished, and its next run begins with too few
// (world 947833).
func TestReservationEndsWhenNewRunIsIncomplete(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 2, lists("a", "b")), declared("b", 1, lists("a", "b")), done("a-0", ""), seen("a-1", 1, "n0"), seen("b-0", 0, "n0"))
	s.do(left("b-0"), seen("b-1", 0, ""))
	p := planned("a", "b-1@n1")
	p.Reserved = true
	s.do(p, left("a-1"))
	require.Equal(t, []string{"b-1"}, s.book.PlacesOn("n1"), "a runs no member, and waits for none")
	s.do(again("a-2", ""))
	require.Empty(t, s.book.PlacesOn("n1"), "a needs two new members")
	s.do(again("a-3", ""), planned("a", "a-2@n0", "a-3@n0", "b-1@n1"))
	require.Equal(t, []string{"b-1"}, s.book.PlacesOn("n1"))
}

func onlyWaiting(s *gang.Spec) { s.Policy = gang.OnlyWaiting }
