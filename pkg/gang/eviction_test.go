package gang_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

func victims(pods ...string) (out []gang.Victim) {
	for _, pod := range pods {
		out = append(out, gang.Victim{Pod: pod, UID: pod})
	}
	return out
}

const leaves = "the gang is being evicted, and some members have not terminated yet"

// While evicted members run, a replacement gets no node, and a plan with it is dropped.
func TestEvictedGangGetsNoReplacementUntilItTerminates(t *testing.T) {
	begin := func(events ...gang.Event) *story {
		s := newStory(t)
		s.do(declared("a", 1, lists("a", "b")), declared("b", 1, lists("a", "b")),
			seen("a-0", 0, "n0"), seen("b-0", 0, "n1"), seen("a-1", 1, ""))
		s.do(events...)
		return s
	}
	kept := func(s *story) {
		t.Helper()
		require.Equal(t, leaves, s.admits("a-1"))
		require.Equal(t, leaves, s.book.State(ref("b")).Refusal.Words)
		require.False(t, s.book.AnyPlaces())
		require.Empty(t, s.do(planned("a", "a-1@n2")), "it was planned in the same moment")
		require.Empty(t, s.do(reserved("a", "a-1@n2")))
		require.False(t, s.book.AnyPlaces())
	}
	out := gang.Evicted{Pods: victims("a-0", "b-0")}
	t.Run("before it is planned", func(t *testing.T) {
		s := begin(out)
		kept(s)
		require.Empty(t, s.do(left("a-0")), "b-0 runs still")
		kept(s)
		require.Equal(t, []string{"wake a-1"}, s.do(left("b-0"), seen("b-1", 5, "")))
	})
	t.Run("on its way", func(t *testing.T) {
		s := begin(planned("a", "a-1@n2"), assumed("a-1"), out)
		kept(s)
		require.Equal(t, []string{"reject a-1"}, s.do(held("a-1")))
	})
	t.Run("at the barrier", func(t *testing.T) {
		s := begin(seen("b-1", 1, ""), declared("b", 3, lists("a", "b")), planned("a", "a-1@n2"), assumed("a-1"), held("a-1"))
		s.do(out)
		kept(s)
	})
	t.Run("all are spared", func(t *testing.T) {
		s := begin(out)
		require.Empty(t, s.do(gang.Spared{Pods: victims("b-0")}))
		kept(s)
		require.Equal(t, []string{"wake a-1"}, s.do(gang.Spared{Pods: victims("a-0")}))
		require.Empty(t, s.do(gang.Spared{Pods: victims("a-0", "a-9")}), "nothing is new")
		require.Equal(t, "yes", s.admits("a-1"))
	})
	t.Run("the gang that waits for them is tried", func(t *testing.T) {
		s := begin(out)
		s.do(declared("c", 1), seen("c-0", 9, ""), reserved("c", "c-0@n0"))
		require.Equal(t, []string{"wake c-0"}, s.do(gang.Spared{Pods: victims("b-0")}))
		require.Equal(t, []string{"wake c-0"}, s.do(gang.Spared{Pods: victims("single")}), "a pod without a gang, which the book does not know")
	})
	t.Run("one finishes instead", func(t *testing.T) {
		s := begin(gang.Evicted{Pods: victims("a-0")})
		kept(s)
		done := seen("a-0", 0, "n0")
		done.Member.Done = true
		require.Equal(t, []string{"wake a-1"}, s.do(done))
	})
	t.Run("the gang starts over", func(t *testing.T) {
		s := newStory(t)
		s.do(declared("a", 2), seen("a-0", 0, "n0"), seen("a-1", 1, "n1"), gang.Evicted{Pods: victims("a-0", "a-1")})
		s.do(seen("a-2", 2, ""), left("a-0"), left("a-1"))
		require.Equal(t, "1 of 2 members exist", s.admits("a-2"), "alone it is too few, though the gang was whole once")
	})
	t.Run("members at Permit", func(t *testing.T) {
		s := begin(gang.Evicted{Pods: victims("a-1")})
		require.Equal(t, "yes", s.admits("a-1"), "they go back to the queue, and are not deleted")
		s.do(seen("a-1", 1, "n2"), seen("a-2", 2, ""))
		require.Equal(t, "yes", s.admits("a-2"), "nor are they when they come again")
	})
	t.Run("another pod of that name", func(t *testing.T) {
		s := begin(gang.Evicted{Pods: []gang.Victim{{Pod: "a-0", UID: "other"}}})
		require.Equal(t, "yes", s.admits("a-1"))
	})
}
