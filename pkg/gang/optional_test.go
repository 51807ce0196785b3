package gang_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// some is a book with gangs of two members each, of which some are optional.
type some struct {
	*gang.Book
	now time.Time
}

// newSome returns a book with gangs. Each gang is written with the levels above it: "a<p<root".
func newSome(least map[string]int, gangs ...string) *some {
	s := &some{Book: gang.New(strings.Compare), now: time.Unix(0, 0)}
	s.declare(least, gang.OnceSatisfied, gangs...)
	return s
}

func (s *some) declare(least map[string]int, policy gang.MatchPolicy, gangs ...string) {
	var names []string
	for _, g := range gangs {
		name, _, _ := strings.Cut(g, "<")
		names = append(names, "ns/"+name)
	}
	for i, g := range gangs {
		spec := gang.Spec{Ref: ref(names[i]), Min: 2, Policy: policy, Wait: wait, Group: refs(names...)}
		for _, level := range strings.Split(g, "<")[1:] {
			spec.Levels = append(spec.Levels, choice.Level{Name: level, Least: least[level]})
		}
		s.apply(gang.Declared{Spec: spec})
	}
}

func (s *some) apply(ev gang.Event) (out []string) {
	for _, e := range s.Apply(ev, s.now) {
		if e.Pod != "" {
			out = append(out, fmt.Sprint(e.Verb, " ", e.Pod))
		}
	}
	return out
}

// come creates members: "a0" is the first member of gang a. A member with a node is bound.
func (s *some) come(node string, pods ...string) (out []string) {
	for _, p := range pods {
		m := gang.Member{Gang: ref("ns/" + p[:1]), Pod: p, UID: p, Rank: gang.NoRank, Node: node}
		out = append(out, s.apply(gang.Seen{Member: m})...)
	}
	return out
}

// plan assigns a node of its own to each pod.
func (s *some) plan(pods ...string) []string {
	ev := gang.Planned{Group: ref("ns/a")}
	for _, p := range pods {
		ev.Places = append(ev.Places, gang.Assignment{Pod: p, Node: "n-" + p})
	}
	return s.apply(ev)
}

// arrive brings members to the barrier.
func (s *some) arrive(pods ...string) (out []string) {
	for _, p := range pods {
		s.apply(gang.Assumed{Pod: p})
		out = append(out, s.apply(gang.Held{Pod: p})...)
	}
	return out
}

func (s *some) open(t *testing.T) (out []string) {
	g, ok := s.GroupOf(ref("ns/a"))
	require.True(t, ok)
	for i, of := range g.Choice.Gangs {
		word := g.Gangs[i].Ref.Name
		if of.Open {
			word += "?"
		}
		out = append(out, fmt.Sprint(word, of.Need, "/", of.Members))
	}
	return out
}

func (s *some) why(pod string) string {
	_, why := s.Admit(pod)
	return why
}

// Two of three gangs start while a member of the third is missing. The third starts later, complete, and the two do
// not wait for it.
func TestOptionalGangsStartWithoutIncompleteGang(t *testing.T) {
	s := newSome(map[string]int{"root": 2}, "a<root", "b<root", "c<root")
	s.come("", "c0", "b0", "b1", "a0")
	require.Equal(t, "1 of 2 members of gang ns/a exist", s.why("b0"), "two gangs must be whole")
	require.Empty(t, s.StartTogether(ref("ns/b")))
	require.Contains(t, s.come("", "a1"), "wake a0")
	require.Equal(t, "1 of 2 members of gang ns/c exist", s.why("c0"))
	require.Equal(t, "1 of 2 members of gang ns/c exist", s.State(ref("ns/c")).Refusal.Words)
	require.Empty(t, s.State(ref("ns/a")).Refusal.Words)
	require.Equal(t, []string{"a?2/2", "b?2/2", "c?2/0"}, s.open(t))
	require.Equal(t, refs("ns/a", "ns/b"), s.StartTogether(ref("ns/c")), "c is not complete")

	s.plan("a0", "a1", "b0", "b1")
	require.Empty(t, s.arrive("a0", "a1", "b0"), "b is not whole")
	require.ElementsMatch(t, []string{"allow a0", "allow a1", "allow b0", "allow b1"}, s.arrive("b1"))
	s.come("n", "a0", "a1", "b0", "b1")

	require.Contains(t, s.come("", "c1"), "wake c0", "it is whole now")
	require.Equal(t, []string{"a0/0", "b0/0", "c?2/2"}, s.open(t))
	s.plan("c0", "c1")
	require.Empty(t, s.arrive("c0"))
	require.Len(t, s.arrive("c1"), 2)
}

// A plan is dropped when a gang in it is incomplete, or when too few gangs remain. A gang outside of it does not
// matter.
func TestPlanIsDroppedWhenItsGangIsIncomplete(t *testing.T) {
	begin := func() *some {
		s := newSome(map[string]int{"root": 1}, "a<root", "b<root", "c<root")
		s.come("", "a0", "a1", "b0", "b1", "c0", "c1")
		s.plan("a0", "a1", "b0", "b1")
		return s
	}
	s := begin()
	s.apply(gang.MemberDeleted{Pod: "c1", UID: "c1"})
	require.True(t, s.AnyPlaces())
	s.apply(gang.MemberDeleted{Pod: "b1", UID: "b1"})
	require.False(t, s.AnyPlaces(), "b is in the plan")
	require.Equal(t, []string{"a?2/2", "b?2/0", "c?2/0"}, s.open(t))

	s = begin()
	require.Empty(t, s.arrive("a0", "b0", "b1"), "a is in the plan, too")
	require.Len(t, s.arrive("a1"), 4)
}

// A branch that cannot start does not delay the others. Its gangs report why they wait.
func TestIncompleteBranchDoesNotDelayOthers(t *testing.T) {
	s := newSome(map[string]int{"root": 1, "p": 2, "q": 1}, "a<p<root", "b<p<root", "c<q<root")
	s.come("", "a0", "a1", "b0")
	require.Equal(t, "1 of 2 members of gang ns/b exist", s.why("a0"), "nor is c whole")
	require.Contains(t, s.come("", "c0", "c1"), "wake c0")
	require.Equal(t, "too few gangs of p are whole", s.why("a0"))
	require.Equal(t, []string{"a?2/0", "b?2/0", "c?2/2"}, s.open(t))
	s.come("", "b1")
	require.Equal(t, []string{"a?2/2", "b?2/2", "c?2/2"}, s.open(t))
	g, _ := s.GroupOf(ref("ns/a"))
	require.Equal(t, 2, g.Need(), "c alone is the least")
	only, ok := g.Restricted(choice.Set{true, true, false})
	require.True(t, ok)
	require.Equal(t, 4, only.Need())
	require.Len(t, only.Pending, 4)
	require.False(t, only.Choice.Any())
	_, ok = g.Restricted(choice.Set{true, false, true})
	require.False(t, ok, "p starts with two, or not at all")
}

// A group has a reservation, and a further gang becomes complete. Its first member sorts first and is let in to
// check the victims.
func TestNewRepresentativeOfReservationIsWoken(t *testing.T) {
	s := newSome(map[string]int{"root": 1}, "a<root", "b<root")
	s.come("", "b0", "b1")
	s.apply(gang.Planned{Group: ref("ns/a"), Places: []gang.Assignment{{Pod: "b0", Node: "n"}, {Pod: "b1", Node: "n"}}, Reserved: true})
	s.apply(gang.PlanSearched{Pod: "b0"})
	require.Empty(t, s.come("", "a0"))
	require.Contains(t, s.come("", "a1"), "wake a0")
	s.apply(gang.PlanSearched{Pod: "a0"})
	require.Empty(t, s.come("", "a1"), "what it knows is nothing new")
}

// A started gang gets another member. Policy OnlyWaiting does not count its running members, and too few gangs
// could start now. The member still follows the plan: the barrier opens.
func TestOptionalGangWithOnlyWaitingStarts(t *testing.T) {
	s := newSome(map[string]int{"root": 2}, "a<root", "b<root", "c<root")
	s.declare(map[string]int{"root": 2}, gang.OnlyWaiting, "a<root", "b<root", "c<root")
	s.come("n", "a0", "b0", "b1")
	s.come("", "a1", "b2", "b3")
	require.Equal(t, []string{"a?2/0", "b2/2", "c?2/0"}, s.open(t), "one member of a waits, and running members do not count")
	s.plan("b2", "b3")
	require.Empty(t, s.arrive("b2"))
	require.Equal(t, []string{"allow b2", "allow b3"}, s.arrive("b3"))
}

// All running members of a group were deleted. A complete gang of it waits for as many gangs as before the first
// start.
func TestStoppedGroupNeedsItsMinimumAgain(t *testing.T) {
	s := newSome(map[string]int{"root": 2}, "a<root", "b<root")
	s.come("n", "a0", "a1", "b0", "b1")
	s.come("", "b2", "b3")
	require.Empty(t, s.why("b2"), "b runs, and has more members")
	for _, p := range []string{"a0", "a1", "b0", "b1"} {
		s.apply(gang.MemberDeleted{Pod: p, UID: p})
	}
	require.Equal(t, "0 of 2 members of gang ns/a exist", s.why("b2"))
}

// Two gangs run in part: one failed, the other lost its node. The group needs the pending member of each, so one
// assignment alone is no plan.
func TestPartlyRunningGangsArePlannedTogether(t *testing.T) {
	s := newSome(map[string]int{"root": 2}, "a<root", "b<root")
	s.come("n", "a0", "a1", "b0", "b1")
	s.come("", "b2", "b3", "a2", "a3")
	for _, p := range []string{"a0", "a1", "b0", "b1"} {
		s.apply(gang.MemberDeleted{Pod: p, UID: p})
	}
	g, ok := s.Group("a2")
	require.True(t, ok)
	require.Equal(t, 4, g.Need())
}

// A group that needs two of three gangs may start with any two, and later with the third. Gangs that are alike are
// tried once.
func TestStartableSetsOfOptionalGangs(t *testing.T) {
	s := newSome(map[string]int{"root": 2}, "a<root", "b<root", "c<root", "d<root")
	s.come("", "a0", "a1", "b0", "b1", "c0", "c1")
	sets := func(like func(string) string) (out []string) {
		g, ok := s.GroupOf(ref("ns/a"))
		require.True(t, ok)
		for _, only := range g.Sets(9, func(of *gang.Group) string {
			if len(of.Pending) == 0 {
				return ""
			}
			return like(of.Pending[0].Pod)
		}) {
			names := ""
			for _, m := range only.Pending {
				names += m.Pod + " "
			}
			require.Equal(t, len(only.Needed()), len(only.Pending), "all of them are needed")
			out = append(out, strings.TrimSpace(names))
		}
		return out
	}
	own, same := func(pod string) string { return pod }, func(string) string { return "same" }
	require.Equal(t, []string{"a0 a1 b0 b1", "a0 a1 c0 c1", "b0 b1 c0 c1"}, sets(own))
	require.Equal(t, []string{"a0 a1 b0 b1"}, sets(same))

	s.plan("a0", "a1", "b0", "b1")
	s.arrive("a0", "a1", "b0", "b1")
	s.come("n", "a0", "a1", "b0", "b1")
	s.come("", "d0", "d1")
	require.Equal(t, []string{"c0 c1", "d0 d1"}, sets(own))
	require.Equal(t, []string{"c0 c1"}, sets(same))
}

// Quotas admit one of the two members that gang b needs. The plan is for the other gangs.
func TestGangWithTooFewMembersIsLeftOut(t *testing.T) {
	a, b, c := gang.Ref{Name: "a"}, gang.Ref{Name: "b"}, gang.Ref{Name: "c"}
	g := gang.Group{
		Gangs:  []gang.Gang{{Spec: gang.Spec{Ref: a}}, {Spec: gang.Spec{Ref: b}}, {Spec: gang.Spec{Ref: c}}},
		Choice: &choice.Choice{Gangs: []choice.Gang{{Open: true, Need: 1}, {Open: true, Need: 2}, {Need: 2}}},
	}
	members := []gang.Member{{Gang: a, Pod: "a-0"}, {Gang: b, Pod: "b-0"}, {Gang: c, Pod: "c-0"}}
	require.Equal(t, []gang.Member{members[0], members[2]}, g.Startable(members), "c may not be left out")
	members = append(members, gang.Member{Gang: b, Pod: "b-1"})
	require.Equal(t, members, g.Startable(members))
}
