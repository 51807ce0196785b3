package gang_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// A late binding event of a pod that was deleted by force is ignored, and does not bind a new pod of the same name.
func TestBindingOfDeletedPodIsIgnored(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 2), seen("a-0", 0, ""), seen("a-1", 1, ""), left("a-0"))
	require.Empty(t, s.do(gang.Bound{Pod: "a-0", UID: "a-0", Node: "n0"}))
	require.Equal(t, "1 of 2 members exist", s.admits("a-1"))
	again := seen("a-0", 0, "")
	again.Member.UID = "other"
	s.do(again)
	require.Empty(t, s.do(gang.Bound{Pod: "a-0", UID: "a-0", Node: "n0"}))
	require.Zero(t, s.book.State(ref("a")).Bound)
	s.do(gang.Bound{Pod: "a-0", UID: "other", Node: "n0"})
	require.Equal(t, 1, s.book.State(ref("a")).Bound)
	s.do(gang.Bound{Pod: "a-0", UID: "other", Node: "n9"})
	require.Equal(t, "n0", mustGroup(t, s, "a-1").Bound[0].Node, "it was bound already")
}

// The remaining members would violate the multiple, so all members are requeued and planned again.
func TestPlanInMultiplesIsDroppedWhenNodeRejectsMember(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 1, inNumbers, func(s *gang.Spec) { s.NonStrict = true }), seen("a-0", 0, ""), seen("a-1", 1, ""), seen("a-2", 2, ""))
	s.do(planned("a", "a-0@n0", "a-1@n1", "a-2@n2"), assumed("a-0"), held("a-0"))
	require.Equal(t, []string{"reject a-0"}, s.do(assumed("a-2"), released("a-2")))
	require.False(t, s.book.AnyPlaces())
	require.Equal(t, "yes", s.admits("a-0"))
	require.Empty(t, s.do(released("a-0")))
	require.Equal(t, []string{"wake a-0"}, s.after(time.Second))
}

// inNumbers lets members gather in multiples.
func inNumbers(s *gang.Spec) { s.Multiples = true }

// With multiples no member binds before all have reached the barrier. The plan is dropped when a member is deleted
// before that.
func TestMembersInMultiplesWaitForAllMembers(t *testing.T) {
	members := []gang.Event{seen("a-0", 0, ""), seen("a-1", 1, ""), seen("a-2", 2, ""), planned("a", "a-0@n0", "a-1@n1", "a-2@n2")}
	begin := func(change ...func(*gang.Spec)) *story {
		s := newStory(t)
		s.do(append([]gang.Event{declared("a", 1, change...)}, members...)...)
		return s
	}
	s := begin()
	require.Equal(t, []string{"allow a-0"}, s.do(assumed("a-0"), held("a-0")), "nothing is asked of numbers")
	require.Empty(t, s.do(left("a-2")))

	s = begin(inNumbers)
	require.Empty(t, s.do(assumed("a-0"), held("a-0"), assumed("a-1"), held("a-1")))
	require.Equal(t, []string{"allow a-0", "allow a-1", "allow a-2"}, s.do(assumed("a-2"), held("a-2")))
	require.Empty(t, s.do(left("a-1")), "they bind already")

	s = begin(inNumbers)
	s.do(assumed("a-0"), held("a-0"), assumed("a-1"), held("a-1"))
	require.Equal(t, []string{"reject a-0", "reject a-1", "wake a-0"}, s.do(left("a-2")), "one is deleted")
	require.False(t, s.book.AnyPlaces())
	require.Equal(t, 2, mustGroup(t, s, "a-0").InFlight, "it is planned again when both are back")
}

// Step tells a late rejection from the next plan.
func TestLateRejectionSparesNextPlan(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 2), seen("a-0", 0, ""), seen("a-1", 1, ""), planned("a", "a-0@n0", "a-1@n1"), assumed("a-0"), held("a-0"))
	require.Equal(t, gang.AtBarrier, s.book.Step("a-0", "a-0"))
	require.Equal(t, []string{"reject a-0"}, s.do(gang.Dropped{Group: ref("a"), Why: "test"}))
	require.Equal(t, gang.SentBack, s.book.Step("a-0", "a-0"))
	require.Equal(t, gang.NotAssumed, s.book.Step("a-0", "another"), "it has gone")
	s.do(released("a-0"))
	s.after(time.Second)
	s.do(planned("a", "a-0@n0", "a-1@n1"), assumed("a-0"), held("a-0"))
	require.Equal(t, gang.AtBarrier, s.book.Step("a-0", "a-0"), "it holds a place of the next plan")
}

// A deleted pod that the scheduler brings to the barrier would wait there for ever and keep its node.
func TestDeletedMemberIsRejectedAtBarrier(t *testing.T) {
	begin := func() *story {
		s := newStory(t)
		s.do(declared("a", 2), seen("a-0", 0, ""), seen("a-1", 1, ""), planned("a", "a-0@n0", "a-1@n1"), assumed("a-0"))
		return s
	}
	s := begin()
	require.Empty(t, s.do(gang.MemberDeleted{Pod: "a-0", UID: "a-0"}))
	require.Equal(t, []string{"reject a-0"}, s.do(gang.Held{Pod: "a-0", UID: "a-0"}), "deleted on its way")

	s = begin()
	s.do(gang.MemberDeleted{Pod: "a-0", UID: "a-0"}, gang.Seen{Member: gang.Member{Pod: "a-0", UID: "new", Gang: ref("a")}})
	require.Equal(t, []gang.Effect{{Verb: gang.Reject, Pod: "a-0", UID: "a-0", Why: "the pod was deleted meanwhile"}},
		s.book.Apply(gang.Held{Pod: "a-0", UID: "a-0"}, s.now), "and made again")
	require.Equal(t, gang.NotAssumed, s.book.Step("a-0", "new"))
	require.Empty(t, s.do(gang.Assumed{Pod: "a-0", UID: "a-0"}, gang.Released{Pod: "a-0", UID: "a-0"}))
	require.Equal(t, gang.NotAssumed, s.book.Step("a-0", "new"), "what becomes of the old one says nothing of it")

	s = begin()
	s.do(held("a-0"))
	require.Equal(t, []string{"reject a-0"}, s.do(gang.MemberDeleted{Pod: "a-0", UID: "a-0"}), "it has come there just before")

	s = begin()
	s.do(held("a-0"), assumed("a-1"), held("a-1"))
	require.Empty(t, s.do(gang.MemberDeleted{Pod: "a-0", UID: "a-0"}), "past the barrier it does not wait")
}

// surplus returns the pending members that are not needed.
func surplus(g *gang.Group) []gang.Member {
	needed := g.Needed()
	return slices.DeleteFunc(slices.Clone(g.Pending), func(m gang.Member) bool { return slices.Contains(needed, m) })
}

// Needed members come first by rank. The others are surplus: they neither evict nor use a reserved node.
func TestSurplusMembersDoNotEvict(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 3), seen("a-0", 0, "n"), seen("a-1", 1, ""), seen("a-2", 2, ""), seen("a-3", 3, ""))
	g := mustGroup(t, s, "a-1")
	require.Equal(t, []string{"a-1", "a-2"}, pods(g.Needed()))
	require.Equal(t, []string{"a-3"}, pods(surplus(g)))

	s.do(declared("d", 1, func(s *gang.Spec) { s.Policy = gang.OnlyWaiting }), seen("d-0", 0, "n"), seen("d-1", 1, ""))
	require.Equal(t, []string{"d-1"}, pods(surplus(mustGroup(t, s, "d-1"))), "whatever it waits for, it has its minMember")

	s.do(declared("e", 2), seen("e-0", 0, "n"), seen("e-1", 1, "n"), left("e-1"), seen("e-2", 1, ""), seen("e-3", 3, ""))
	g = mustGroup(t, s, "e-2")
	require.Zero(t, g.Need(), "it has started")
	require.Equal(t, []string{"e-2"}, pods(g.Needed()), "and replaces a lost member")
	require.Equal(t, []string{"e-3"}, pods(surplus(g)))

	s.do(declared("b", 1), seen("b-0", 0, ""), declared("c", 1), seen("c-0", 0, ""))
	s.do(reserved("b", "b-0@n1"), planned("c", "c-0@n1"))
	require.Equal(t, []string{"b-0", "c-0"}, s.book.PlacesOn("n1"))
	reserved := func() map[string]string { return maps.Collect(s.book.ReservedPlaces()) }
	require.Equal(t, map[string]string{"b-0": "n1"}, reserved())
	s.do(gang.Confirmed{Group: ref("b")})
	require.Equal(t, map[string]string{"b-0": "n1"}, reserved(), "its victims have left for it")
	s.do(assumed("b-0"))
	require.Empty(t, reserved(), "the scheduler counts it")
}

// The book forgets a thousand gangs of every kind once they are deleted.
func TestDeletedGangsAreForgotten(t *testing.T) {
	s := newStory(t)
	s.book.Starve = time.Minute
	for i := range 1000 {
		name, other := fmt.Sprintf("ns/g%04d", i), fmt.Sprintf("ns/h%04d", i)
		s.book.Apply(declared(name, 2, func(s *gang.Spec) { s.NonStrict, s.Group = i%2 == 0, refs(name, other) }), s.now)
		if i%3 > 0 {
			s.book.Apply(declared(other, 1, lists(name, other)), s.now)
		}
		pods := []string{name + "-0", name + "-1", name + "-2", other + "-0"}
		for j, pod := range pods {
			s.book.Apply(seen(pod, j, ""), s.now)
		}
		switch i % 7 {
		case 0:
			s.book.Apply(noRoom(name), s.now)
		case 1:
			s.book.Apply(reserved(name, pods[0]+"@n0", pods[1]+"@n1", pods[3]+"@n2"), s.now)
		case 2:
			for _, ev := range []gang.Event{
				planned(name, pods[0]+"@n0", pods[1]+"@n1", pods[3]+"@n2"), assumed(pods[0]), held(pods[0]), assumed(pods[1]), released(pods[1]),
			} {
				s.book.Apply(ev, s.now)
			}
		case 3:
			s.book.Apply(seen(pods[0], 0, "n0"), s.now)
		case 4:
			s.book.Apply(done(pods[0], "job"), s.now)
		case 5:
			s.book.Resume(s.now)
		}
		s.book.Apply(gang.Tick{}, s.now.Add(time.Hour))
		events := []gang.Event{gang.Removed{Gang: ref(name)}, gang.Removed{Gang: ref(other)}}
		for _, pod := range pods {
			events = append(events, left(pod))
		}
		if i%2 == 0 {
			events = append(events[2:], events[:2]...)
		}
		for _, ev := range events {
			s.book.Apply(ev, s.now)
		}
		if i%3 == 0 { // a late word about a group that is gone
			s.book.Apply(noRoom(name), s.now)
		}
	}
	require.NoError(t, s.book.Check())
	require.NoError(t, s.book.CheckEmpty())
}
