package gang_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// planAhead is a plan with reserved nodes for future members.
func planAhead(p gang.Planned, places ...string) gang.Planned {
	for _, at := range places {
		pod, node, _ := strings.Cut(at, "@")
		p.Future = append(p.Future, gang.Assignment{Pod: pod, Node: node})
	}
	return p
}

// The leader of a gang is planned first, and nodes near it are reserved for its workers.
func TestNodesAreReservedForFutureMembers(t *testing.T) {
	start := func(t *testing.T) *story {
		s := newStory(t)
		s.do(declared("g", 1), seen("g-0", 0, ""), declared("h", 1), seen("h-0", 0, ""))
		s.do(planAhead(planned("g", "g-0@n0"), "g-0~1@n1", "g-0~2@n1"))
		require.Equal(t, []string{"g-0~1", "g-0~2"}, s.book.PlacesOn("n1"))
		return s
	}
	runs := func(t *testing.T) *story {
		s := start(t)
		s.do(assumed("g-0"), held("g-0"), gang.Bound{Pod: "g-0", UID: "g-0", Node: "n0"}, released("g-0"))
		require.Equal(t, []string{"g-0~1", "g-0~2"}, s.book.PlacesOn("n1"), "they outlive the plan")
		return s
	}
	none := func(s *story, freed int) {
		s.Helper()
		require.Empty(s, s.book.PlacesOn("n1"))
		require.False(s, s.book.AnyPlaces())
		require.Equal(s, freed, s.freed, "others are told that there is room")
	}
	t.Run("they are the group's", func(t *testing.T) {
		s := start(t)
		require.True(t, s.book.SameGroup("g-0~1", "g-0"))
		require.True(t, s.book.SameGroup("g-0~1", "g-0~2"))
		require.False(t, s.book.SameGroup("g-0~1", "h-0"))
		require.False(t, s.book.SameGroup("h-0", "x"))
	})
	t.Run("the plan is given up", func(t *testing.T) {
		s := start(t)
		s.do(gang.Dropped{Group: ref("g"), Why: "test"})
		none(s, 2) // the leader's node, and the workers' nodes
	})
	t.Run("the first worker comes", func(t *testing.T) {
		s := runs(t)
		s.do(seen("g-1", 1, ""))
		require.Len(t, s.book.PlacesOn("n1"), 2, "until it is planned")
		s.do(planAhead(planned("g", "g-1@n1"), "g-0~2@n2"))
		require.Equal(t, []string{"g-1"}, s.book.PlacesOn("n1"))
		require.Equal(t, []string{"g-0~2"}, s.book.PlacesOn("n2"))
	})
	t.Run("all come", func(t *testing.T) {
		s := runs(t)
		s.do(seen("g-1", 1, ""), seen("g-2", 2, ""), planned("g", "g-1@n1", "g-2@n1"))
		require.Equal(t, []string{"g-1", "g-2"}, s.book.PlacesOn("n1"))
	})
	t.Run("no worker is created in time", func(t *testing.T) {
		s := runs(t)
		s.after(9 * time.Second)
		require.Len(t, s.book.PlacesOn("n1"), 2)
		s.after(time.Second)
		none(s, 1)
	})
	t.Run("another process has kept them", func(t *testing.T) {
		again := func(s *story, until time.Duration) {
			s.do(gang.FutureReserved{
				Group: ref("g"), Places: []gang.Assignment{{Pod: "g-0~1", Node: "n1"}, {Pod: "g-0~2", Node: "n1"}}, Until: s.now.Add(until),
			})
		}
		s := newStory(t)
		s.do(declared("g", 1), seen("g-0", 0, ""))
		again(s, 5*time.Second)
		require.Empty(t, s.book.PlacesOn("n1"), "the leader has no node")
		s.do(seen("g-0", 0, "n0"))
		again(s, 5*time.Second)
		require.Equal(t, []string{"g-0~1", "g-0~2"}, s.book.PlacesOn("n1"))
		require.True(t, s.book.SameGroup("g-0~1", "g-0"))
		again(s, time.Hour)
		s.after(4 * time.Second)
		require.Len(t, s.book.PlacesOn("n1"), 2)
		s.after(time.Second)
		none(s, 1)

		s = runs(t)
		again(s, time.Hour)
		s.after(10 * time.Second)
		none(s, 1)
	})
	t.Run("the leader is deleted", func(t *testing.T) {
		s := runs(t)
		s.do(left("g-0"))
		none(s, 1)
	})
	t.Run("the leader is deleted before it is bound", func(t *testing.T) {
		s := start(t)
		s.do(left("g-0"))
		none(s, 2)
	})
	t.Run("the gang is grouped with another", func(t *testing.T) {
		s := runs(t)
		together := func(sp *gang.Spec) { sp.Group = refs("g", "h") }
		s.do(declared("h", 1, together), declared("g", 1, together))
		none(s, 1)
	})
	t.Run("victims terminate for all of them", func(t *testing.T) {
		s := newStory(t)
		s.do(declared("g", 1), seen("g-0", 0, ""), planAhead(reserved("g", "g-0@n0"), "g-0~1@n1"))
		s.do(gang.Confirmed{Group: ref("g")})
		require.Equal(t, []string{"g-0~1"}, s.book.PlacesOn("n1"))
	})
	t.Run("a name is used by another pod", func(t *testing.T) {
		s := newStory(t)
		s.do(declared("g", 1), seen("g-0", 0, ""), planAhead(planned("g", "g-0@n0"), "g-0@n1", "g-0~1@n1", "g-0~1@n2"))
		require.Equal(t, []string{"g-0~1"}, s.book.PlacesOn("n1"))
		require.Empty(t, s.book.PlacesOn("n2"))
	})
}
