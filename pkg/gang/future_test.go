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

// Before running members are evicted so that the gang starts elsewhere, nodes are reserved for their successors.
func TestNodesOfSuccessorsSurviveTheEviction(t *testing.T) {
	start := func(t *testing.T) *story {
		s := newStory(t)
		s.do(declared("g", 2), seen("g-0", 0, "n0"), seen("g-1", 1, "n0"), declared("h", 1))
		s.do(gang.FutureReserved{
			Group: ref("g"), Places: []gang.Assignment{{Pod: "g-0~next", Node: "n1"}, {Pod: "g-1~next", Node: "n1"}},
			Until: s.now.Add(time.Minute), Successors: true,
		})
		require.Equal(t, []string{"g-0~next", "g-1~next"}, s.book.PlacesOn("n1"))
		require.True(t, s.book.ReservesFuture(ref("g")))
		return s
	}
	evicted := func(t *testing.T) *story {
		s := start(t)
		s.do(gang.Evicted{Pods: []gang.Victim{{Pod: "g-0", UID: "g-0"}, {Pod: "g-1", UID: "g-1"}}})
		s.do(gang.MemberDeleted{Pod: "g-0", UID: "g-0"}, gang.MemberDeleted{Pod: "g-1", UID: "g-1"})
		require.Len(t, s.book.PlacesOn("n1"), 2, "no member runs any more")
		return s
	}
	t.Run("the recreated members take the nodes", func(t *testing.T) {
		s := evicted(t)
		s.do(seen("g-2", 2, ""), seen("g-3", 3, ""))
		require.True(t, s.book.SameGroup("g-2", "g-0~next"))
		require.Len(t, s.book.PlacesOn("n1"), 2, "until they are planned")
		s.do(planned("g", "g-2@n1", "g-3@n1"))
		require.Equal(t, []string{"g-2", "g-3"}, s.book.PlacesOn("n1"))
	})
	t.Run("no member is recreated in time", func(t *testing.T) {
		s := evicted(t)
		s.after(time.Minute)
		require.Empty(t, s.book.PlacesOn("n1"))
	})
	t.Run("the members are not evicted after all", func(t *testing.T) {
		s := start(t)
		s.do(gang.FutureReserved{Group: ref("g"), Successors: true})
		require.Empty(t, s.book.PlacesOn("n1"))
		require.False(t, s.book.ReservesFuture(ref("g")))
	})
	for name, test := range map[string]struct {
		priority int32
		node     string
		lost     bool
	}{
		"a member of higher priority gets a node": {5, "n1", true},
		"one of equal priority fits beside them":  {0, "n1", false},
		"one of higher priority gets another":     {5, "n2", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			higher := seen("h-0", 0, "")
			higher.Member.Priority = test.priority
			s.do(higher, planned("h", "h-0@"+test.node))
			require.Equal(t, !test.lost, s.book.ReservesFuture(ref("g")), "a lost reservation stops the eviction")
		})
	}
	t.Run("a group with a plan has none", func(t *testing.T) {
		s := start(t)
		s.do(seen("h-0", 0, ""), planned("h", "h-0@n2"))
		s.do(gang.FutureReserved{
			Group: ref("h"), Places: []gang.Assignment{{Pod: "h-0~next", Node: "n3"}}, Successors: true,
			Until: s.now.Add(time.Minute),
		})
		require.Empty(t, s.book.PlacesOn("n3"))
	})
}

// A gang that may move later is tried again when it is time.
func TestRetryIsDue(t *testing.T) {
	s := newStory(t)
	s.do(declared("g", 1), seen("g-0", 0, ""))
	s.do(gang.PlanSearched{Pod: "g-0"}, gang.Unschedulable{Group: ref("g"), Refusal: gang.Obstacle{By: gang.Plan, Words: "test"}})
	s.do(gang.RetryDue{Group: ref("g"), At: s.now.Add(time.Minute)})
	group, _ := s.book.GroupOf(ref("g"))
	require.Equal(t, s.now, group.UnschedulableSince)
	require.NotContains(t, s.book.Apply(gang.Tick{}, s.now.Add(59*time.Second)), gang.Effect{Verb: gang.Wake, Pod: "g-0"})
	require.Contains(t, s.book.Apply(gang.Tick{}, s.now.Add(time.Minute)), gang.Effect{Verb: gang.Wake, Pod: "g-0"})
}
