package gang_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// story applies events to a book on a virtual clock and records the effects.
type story struct {
	*testing.T
	book  *gang.Book
	now   time.Time
	freed int // how often Freed was returned
}

func newStory(t *testing.T) *story {
	return &story{T: t, book: gang.New(strings.Compare), now: time.Unix(0, 0)}
}

func (s *story) after(d time.Duration) []string { s.now = s.now.Add(d); return s.do(gang.Tick{}) }

// do returns the effects as words, without Report and Freed.
func (s *story) do(events ...gang.Event) (out []string) {
	s.Helper()
	for _, ev := range events {
		for _, e := range s.book.Apply(ev, s.now) {
			if e.Verb == gang.Freed {
				s.freed++
			} else if e.Verb != gang.Report {
				out = append(out, strings.TrimSpace(fmt.Sprint(e.Verb, " ", e.Pod, e.Gang.String())))
			}
		}
		require.NoError(s, s.book.Check())
	}
	return out
}

// ref parses the name of a gang.
func ref(name string) gang.Ref {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		namespace, name = "", namespace
	}
	return gang.Ref{Source: "test", Namespace: namespace, Name: name}
}

func refs(names ...string) (out []gang.Ref) {
	for _, name := range names {
		out = append(out, ref(name))
	}
	return out
}

func noRoom(group string) gang.Unschedulable {
	return gang.Unschedulable{Group: ref(group), Refusal: gang.Obstacle{By: gang.Plan, Words: "no room"}}
}

func declared(name string, least int, change ...func(*gang.Spec)) gang.Declared {
	s := gang.Spec{Ref: ref(name), Min: least, Policy: gang.OnceSatisfied, Wait: 10 * time.Second}
	for _, c := range change {
		c(&s)
	}
	return gang.Declared{Spec: s}
}

func seen(pod string, rank int, node string) gang.Seen {
	return gang.Seen{Member: gang.Member{Gang: ref(pod[:strings.LastIndex(pod, "-")]), Pod: pod, UID: pod, Rank: rank, Node: node}}
}

func left(pod string) gang.MemberDeleted { return gang.MemberDeleted{Pod: pod, UID: pod} }

func planned(group string, places ...string) gang.Planned {
	p := gang.Planned{Group: ref(group)}
	for _, at := range places {
		pod, node, _ := strings.Cut(at, "@")
		p.Places = append(p.Places, gang.Assignment{Pod: pod, Node: node})
	}
	return p
}

func reserved(group string, places ...string) gang.Planned {
	p := planned(group, places...)
	p.Reserved = true
	return p
}

func assumed(pod string) gang.Assumed   { return gang.Assumed{Pod: pod} }
func held(pod string) gang.Held         { return gang.Held{Pod: pod} }
func released(pod string) gang.Released { return gang.Released{Pod: pod, Why: "test"} }

func (s *story) admits(pod string) string {
	ok, why := s.book.Admit(pod)
	if ok {
		return "yes"
	}
	return why
}

// Members with a row sort row by row, after members without a row and before members without a rank.
func TestMembersSortByRow(t *testing.T) {
	inOrder := []gang.Member{
		{Rank: 7}, {Row: "r", Rank: 0}, {Row: "r", Rank: 1}, {Row: "s", Rank: 0}, {Row: "s", Rank: gang.NoRank},
	}
	for i, x := range inOrder {
		for j, y := range inOrder {
			require.Equal(t, cmp.Compare(i, j), x.CompareRanks(&y, strings.Compare), "%v before %v", x, y)
		}
	}
	nobody, none := gang.Member{Rank: gang.NoRank}, gang.Member{Row: "s", Rank: gang.NoRank}
	require.Zero(t, nobody.CompareRanks(&none, strings.Compare), "without a rank there is no row")

	s := newStory(t)
	member := func(pod, row string, rank int) gang.Seen {
		return gang.Seen{Member: gang.Member{Gang: ref("ns/a"), Pod: pod, UID: pod, Row: row, Rank: rank}}
	}
	s.do(declared("ns/a", 2), member("ns/a-0", "s", 0))
	require.Equal(t, []string{"wake ns/a-1"}, s.do(member("ns/a-1", "r", 1)))
	require.Equal(t, []string{"wake ns/a-0"}, s.do(member("ns/a-1", "t", 1)), "it is another row's now")
}

func TestAGangFromFirstMemberToBound(t *testing.T) {
	s := newStory(t)
	require.Empty(t, s.do(seen("ns/a-0", 0, "")))
	require.Equal(t, "PodGroup ns/a does not exist", s.admits("ns/a-0"))
	require.Empty(t, s.do(declared("ns/a", 2)))
	require.Equal(t, "1 of 2 members exist", s.admits("ns/a-0"))

	require.Equal(t, []string{"wake ns/a-0"}, s.do(seen("ns/a-1", 1, "")), "whole: the lowest rank is tried for all")
	require.Equal(t, "yes", s.admits("ns/a-0"))
	require.Equal(t, "waits for ns/a-0, with which Muster tries the whole gang", s.admits("ns/a-1"))

	require.Equal(t, []string{"wake ns/a-0", "wake ns/a-1"}, s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1")))
	require.Equal(t, "yes", s.admits("ns/a-1"))
	require.Equal(t, []string{"ns/a-1"}, s.book.PlacesOn("n1"))

	require.Empty(t, s.do(assumed("ns/a-0"), held("ns/a-0")))
	require.Equal(t, []string{"allow ns/a-0", "allow ns/a-1"}, s.do(assumed("ns/a-1"), held("ns/a-1")))
	require.Empty(t, s.book.PlacesOn("n1"), "the scheduler counts it there now")
	require.Empty(t, s.do(seen("ns/a-0", 0, "n0"), seen("ns/a-1", 1, "n1")))
	require.Equal(t, 2, s.book.State(ref("ns/a")).Bound)
	require.False(t, s.book.AnyPlaces())

	require.Empty(t, s.do(seen("ns/a-0", 0, "")), "a late delivery does not unbind")
	require.Equal(t, 2, s.book.State(ref("ns/a")).Bound)
}

// Other groups may wait for the released nodes, and no pod event wakes them.
func TestReleasedNodesWakeOtherGroups(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"))
	require.Zero(t, s.freed)
	s.do(gang.Dropped{Group: ref("ns/a"), Node: "n1", Why: "test"})
	require.Equal(t, 1, s.freed)
	s.do(left("ns/a-1"))
	require.Equal(t, 1, s.freed, "there was no plan any more")

	s.book.Starve = time.Second
	s.do(seen("ns/a-1", 1, ""), noRoom("ns/a"))
	s.after(time.Second)
	s.do(gang.CapacityHeld{Group: ref("ns/a"), Places: []gang.Assignment{{Pod: "ns/a-0", Node: "n0"}}})
	require.Equal(t, 1, s.freed)
	s.do(left("ns/a-1"))
	require.Equal(t, 2, s.freed, "what was saved is not saved any longer")
}

func TestWaitAtBarrierTimesOut(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"))
	s.do(assumed("ns/a-0"), held("ns/a-0"))
	require.Empty(t, s.after(9*time.Second))
	require.Equal(t, []string{"expire ns/a", "reject ns/a-0"}, s.after(time.Second))
	require.Equal(t, 1, mustGroup(t, s, "ns/a-0").InFlight, "it is on its way back, and not to be planned yet")
	require.Empty(t, s.do(released("ns/a-0")), "others have their turn first")
	require.Equal(t, []string{"wake ns/a-0"}, s.after(time.Second))
	require.Zero(t, mustGroup(t, s, "ns/a-0").InFlight)
}

// A member whose binding request failed tries the same node again. The node is not avoided, and the other members
// keep theirs.
func TestFailedBindingRequestKeepsAssignment(t *testing.T) {
	for _, nonStrict := range []bool{false, true} {
		s := newStory(t)
		s.do(declared("ns/a", 2, func(s *gang.Spec) { s.NonStrict = nonStrict }), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""))
		s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"), assumed("ns/a-0"), held("ns/a-0"), assumed("ns/a-1"), held("ns/a-1"))
		require.Equal(t, gang.PastBarrier, s.book.Step("ns/a-1", ""))
		for range 5 {
			require.Empty(t, s.do(gang.Released{Pod: "ns/a-1", By: gang.API}))
			require.Equal(t, gang.NotAssumed, s.book.Step("ns/a-1", ""))
			require.Equal(t, "yes", s.admits("ns/a-1"))
			require.Equal(t, []string{"ns/a-1"}, s.book.PlacesOn("n1"), "no other pod takes it")
			require.Equal(t, []string{"allow ns/a-1"}, s.do(assumed("ns/a-1"), held("ns/a-1")), "the other is past the barrier")
		}
		require.Empty(t, s.do(gang.Released{Pod: "ns/a-0", By: gang.API}, gang.Released{Pod: "ns/a-1", By: gang.API}))
		require.Empty(t, s.do(assumed("ns/a-0"), held("ns/a-0")), "no member binds alone")
		require.Equal(t, []string{"allow ns/a-0", "allow ns/a-1"}, s.do(assumed("ns/a-1"), held("ns/a-1")))
		require.Empty(t, mustGroup(t, s, "ns/a-1").Avoid)
	}
}

// If it is unknown whether the request or the node failed, the assignment is dropped after some failures.
func TestBindingFailureIsRetriedAFewTimes(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 1), seen("ns/a-0", 0, ""), planned("ns/a", "ns/a-0@n0"))
	for range 2 {
		require.Equal(t, []string{"allow ns/a-0"}, s.do(assumed("ns/a-0"), held("ns/a-0")))
		require.Empty(t, s.do(released("ns/a-0")))
	}
	s.do(assumed("ns/a-0"), held("ns/a-0"), released("ns/a-0"))
	require.Equal(t, map[string]string{"n0": "test"}, mustGroup(t, s, "ns/a-0").Avoid)
	require.False(t, s.book.AnyPlaces())
	s.do(planned("ns/a", "ns/a-0@n1"), assumed("ns/a-0"), held("ns/a-0"))
	require.Empty(t, s.do(released("ns/a-0")), "another place is another matter")
}

// The steps of a member from its plan to its binding.
func TestStepsOfMember(t *testing.T) {
	s := newStory(t)
	at := func(want gang.Step) { t.Helper(); require.Equal(t, want, s.book.Step("ns/a-0", "")) }
	at(gang.NotAssumed)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"))
	at(gang.NotAssumed)
	s.do(assumed("ns/a-0"))
	at(gang.AssumedOnNode)
	s.do(held("ns/a-0"))
	at(gang.AtBarrier)
	s.do(gang.Dropped{Group: ref("ns/a"), Node: "n1", Why: "test"})
	at(gang.SentBack)
	s.do(assumed("ns/a-1"))
	require.Equal(t, []string{"reject ns/a-1"}, s.do(held("ns/a-1")))
	require.Equal(t, gang.SentBack, s.book.Step("ns/a-1", ""), "the plan was given up while it was on its way")
	s.do(released("ns/a-0"))
	at(gang.NotAssumed)
}

// A plan is dropped for a better one: no node is avoided and the retry is immediate.
func TestBetterPlanIsSearchedAtOnce(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 3), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), seen("ns/a-2", 2, ""))
	learned := gang.Dropped{Group: ref("ns/a"), Node: "n0", Why: "test", Learned: true}
	for _, plan := range []gang.Planned{
		planned("ns/a", "ns/a-0@n0", "ns/a-1@n0", "ns/a-2@n0"), planned("ns/a", "ns/a-0@n0", "ns/a-1@n1", "ns/a-2@n1"),
	} {
		s.do(plan, assumed("ns/a-0"), held("ns/a-0"))
		require.Equal(t, []string{"reject ns/a-0"}, s.do(learned))
		require.Empty(t, mustGroup(t, s, "ns/a-1").Avoid)
		require.Equal(t, []string{"wake ns/a-0"}, s.do(released("ns/a-0")), "when the last is back")
	}
	s.do(reserved("ns/a", "ns/a-0@n0", "ns/a-1@n0", "ns/a-2@n0"), gang.Confirmed{Group: ref("ns/a")})
	require.Equal(t, []string{"clear ns/a-0", "clear ns/a-1", "clear ns/a-2", "wake ns/a-0"}, s.do(learned), "no member is in flight")
	require.False(t, s.book.AnyPlaces())
}

func TestFailedGangIsRequeuedAndRetriedLater(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 3), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), seen("ns/a-2", 2, ""))
	s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1", "ns/a-2@n2"), assumed("ns/a-0"), held("ns/a-0"), assumed("ns/a-1"), held("ns/a-1"))
	require.Equal(t, []string{"reject ns/a-0", "reject ns/a-1"}, s.do(gang.Dropped{Group: ref("ns/a"), Why: "n2 refused"}))
	require.Empty(t, s.do(released("ns/a-0"), released("ns/a-1")))
	require.Empty(t, s.after(999*time.Millisecond))
	require.Equal(t, []string{"wake ns/a-0"}, s.after(time.Millisecond))
}

func TestNonStrictGangBindsWithoutFailedMember(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 1, func(s *gang.Spec) { s.NonStrict = true }), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""))
	s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"), assumed("ns/a-1"), assumed("ns/a-0"))
	require.Empty(t, s.do(released("ns/a-1")))
	require.Equal(t, []string{"allow ns/a-0"}, s.do(held("ns/a-0")))
}

// The reservation ends at once when its node is deleted. A scheduler without nodes would have no cycle to end it.
func TestReservationEndsWhenNodeIsDeleted(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), reserved("ns/a", "ns/a-0@n0", "ns/a-1@n1"))
	require.Empty(t, s.do(gang.NodeGone{Node: "n2"}))
	require.Equal(t, []string{"clear ns/a-0", "clear ns/a-1", "wake ns/a-0"}, s.do(gang.NodeGone{Node: "n1"}))
	require.False(t, s.book.AnyPlaces())
}

func TestReservationSurvivesFailedMember(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""))
	require.Empty(t, s.do(reserved("ns/a", "ns/a-0@n0", "ns/a-1@n1")), "no member enters while victims terminate")
	require.Equal(t, []string{"ns/a-1"}, s.book.PlacesOn("n1"))
	require.Equal(t, []string{"wake ns/a-0", "wake ns/a-1"}, s.do(gang.Confirmed{Group: ref("ns/a")}))
	s.do(assumed("ns/a-0"), held("ns/a-0"), assumed("ns/a-1"))
	require.Equal(t, []string{"reject ns/a-0"}, s.do(released("ns/a-1")))
	s.do(released("ns/a-0"))
	require.True(t, mustGroup(t, s, "ns/a-0").Waiting)
	require.Equal(t, map[string]string{"ns/a-0": "n0", "ns/a-1": "n1"}, mustGroup(t, s, "ns/a-0").Places)
	require.Equal(t, []string{"ns/a-0"}, s.book.PlacesOn("n0"))
}

func TestReservationTimesOut(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 1), seen("ns/a-0", 0, ""))
	r := reserved("ns/a", "ns/a-0@n0")
	r.Until = s.now.Add(time.Minute)
	s.do(r)
	require.Empty(t, s.after(59*time.Second))
	require.Equal(t, []string{"overdue ns/a", "expire ns/a", "clear ns/a-0", "wake ns/a-0"}, s.after(time.Second))
	require.False(t, s.book.AnyPlaces())
}

func TestAGroupWaitsForEveryGang(t *testing.T) {
	s := newStory(t)
	both := func(s *gang.Spec) { s.Group = refs("ns/a", "ns/b") }
	s.do(declared("ns/a", 1, both), seen("ns/a-0", 0, ""))
	require.Equal(t, "gang ns/b of the gang group does not exist: create it, or remove it from the group", s.admits("ns/a-0"))
	require.Empty(t, s.do(declared("ns/b", 2, both)))
	require.Equal(t, "0 of 2 members of gang ns/b exist", s.admits("ns/a-0"))
	require.Empty(t, s.do(seen("ns/b-0", 0, "")))
	require.Equal(t, []string{"wake ns/a-0"}, s.do(seen("ns/b-1", 1, "")))

	s.do(planned("ns/a", "ns/a-0@n0", "ns/b-0@n1", "ns/b-1@n2"))
	require.Empty(t, s.do(assumed("ns/a-0"), held("ns/a-0"), assumed("ns/b-0"), held("ns/b-0")))
	require.Equal(t, []string{"allow ns/a-0", "allow ns/b-0", "allow ns/b-1"}, s.do(assumed("ns/b-1"), held("ns/b-1")))
}

// Gangs that no longer list one another do not wait for one another.
func TestGangThatLeavesGroupIsNotAwaited(t *testing.T) {
	s := newStory(t)
	both := func(s *gang.Spec) { s.Group = refs("ns/a", "ns/b") }
	s.do(declared("ns/a", 2, both), declared("ns/b", 1, both), seen("ns/a-0", 0, ""), seen("ns/b-0", 0, ""))
	require.Equal(t, "1 of 2 members of gang ns/a exist", s.admits("ns/b-0"))
	require.Empty(t, s.do(declared("ns/a", 2)))
	require.Equal(t, "gang ns/a does not list ns/b, which waits: each gang of a gang group must list the others", s.admits("ns/b-0"))
	require.Equal(t, []string{"wake ns/b-0"}, s.do(declared("ns/b", 1)))
	require.Equal(t, "yes", s.admits("ns/b-0"))
}

func TestMatchPolicies(t *testing.T) {
	for policy, opens := range map[gang.MatchPolicy]bool{gang.OnlyWaiting: false, gang.WaitingAndRunning: true, gang.OnceSatisfied: true} {
		t.Run(string(policy), func(t *testing.T) {
			s := newStory(t)
			s.do(declared("ns/a", 2, func(s *gang.Spec) { s.Policy = policy }), seen("ns/a-0", 0, "n0"), seen("ns/a-1", 1, ""))
			s.do(planned("ns/a", "ns/a-1@n1"), assumed("ns/a-1"))
			require.Equal(t, opens, len(s.do(held("ns/a-1"))) > 0, "one runs, one waits, two are needed")
		})
	}
}

func TestOnceSatisfiedEndsWithLastMember(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, "n0"), seen("ns/a-1", 1, "n1"), left("ns/a-1"))
	require.Equal(t, []string{"wake ns/a-2"}, s.do(seen("ns/a-2", 2, "")), "a replacement need not wait")
	s.do(left("ns/a-0"), left("ns/a-2"), seen("ns/a-3", 3, ""))
	require.Equal(t, "1 of 2 members exist", s.admits("ns/a-3"))
}

func TestAnotherUIDIsAnotherPod(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 1), seen("ns/a-0", 0, "n0"))
	again := seen("ns/a-0", 0, "")
	again.Member.UID = "other"
	require.Equal(t, []string{"wake ns/a-0"}, s.do(again))
	require.Empty(t, s.do(left("ns/a-0")), "the old pod's end comes late")
	require.Equal(t, 1, s.book.State(ref("ns/a")).Exist)
}

func TestBoundElsewhereVoidsThePlan(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"))
	require.Equal(t, []string{"wake ns/a-1"}, s.do(seen("ns/a-0", 0, "n9")), "the rest is planned anew around it")
	require.False(t, s.book.AnyPlaces())
}

func mustGroup(t *testing.T, s *story, pod string) *gang.Group {
	g, ok := s.book.Group(pod)
	require.True(t, ok)
	return g
}

func TestNodeThatRejectedMemberIsAvoidedForAWhile(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""))
	fail := func() {
		s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"), assumed("ns/a-0"), held("ns/a-0"), assumed("ns/a-1"), released("ns/a-1"),
			released("ns/a-0"))
	}
	fail()
	require.Equal(t, map[string]string{"n1": "test"}, mustGroup(t, s, "ns/a-0").Avoid, "n0 is not to blame")
	s.after(time.Second)
	s.do(noRoom("ns/a"))
	require.Contains(t, mustGroup(t, s, "ns/a-0").Avoid, "n1", "a refusal does not bring the node back")
	require.Empty(t, s.after(28*time.Second))
	require.Equal(t, []string{"wake ns/a-0"}, s.after(time.Second))
	require.Empty(t, mustGroup(t, s, "ns/a-0").Avoid)

	fail()
	s.after(2 * time.Second) // the retry after the failure
	require.Empty(t, s.after(57*time.Second))
	require.Equal(t, []string{"wake ns/a-0"}, s.after(time.Second), "the second time it is avoided twice as long")

	s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"), assumed("ns/a-0"), held("ns/a-0"), assumed("ns/a-1"), held("ns/a-1"))
	s.do(seen("ns/a-0", 0, "n0"), seen("ns/a-1", 1, "n1"), seen("ns/a-2", 2, ""))
	require.Empty(t, mustGroup(t, s, "ns/a-2").Avoid)
}

func TestInterdependentMembersBindInOrder(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 3), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), seen("ns/a-2", 2, ""))
	p := planned("ns/a", "ns/a-2@n2", "ns/a-0@n0", "ns/a-1@n1")
	p.InOrder = true
	require.Equal(t, []string{"wake ns/a-2"}, s.do(p))
	require.Equal(t, "waits for ns/a-2, which must be placed before it", s.admits("ns/a-0"))
	require.Equal(t, "yes", s.admits("ns/a-2"))
	require.Equal(t, []string{"wake ns/a-0"}, s.do(assumed("ns/a-2"), held("ns/a-2")))
	require.Equal(t, []string{"ns/a-2", "ns/a-0", "ns/a-1"}, mustGroup(t, s, "ns/a-0").Turn)
	require.Equal(t, "yes", s.admits("ns/a-0"))
	require.Equal(t, "waits for ns/a-0, which must be placed before it", s.admits("ns/a-1"))
	require.Contains(t, s.do(gang.MemberDeleted{Pod: "ns/a-0", UID: "ns/a-0"}), "reject ns/a-2", "two are too few")
}

// Capacity is held for one group at a time, the most important first. The hold ends with a plan, or when the held
// capacity no longer grows.
func TestCapacityIsHeldForStarvingGroup(t *testing.T) {
	s := newStory(t)
	s.book.Starve = time.Minute
	s.do(declared("ns/a", 1), seen("ns/a-0", 0, ""), declared("ns/b", 2))
	for _, pod := range []string{"ns/b-0", "ns/b-1"} {
		m := seen(pod, 0, "")
		m.Member.Priority = 5
		s.do(m)
	}
	s.do(noRoom("ns/a"), noRoom("ns/b"))
	require.Empty(t, s.after(59*time.Second))
	save := gang.CapacityHeld{Group: ref("ns/b"), Places: []gang.Assignment{{Pod: "ns/b-0", Node: "n0"}}}
	s.do(save)
	require.False(t, s.book.AnyPlaces(), "it is not its turn")
	require.Equal(t, []string{"wake ns/b-0"}, s.after(time.Second), "the more important one")
	require.True(t, mustGroup(t, s, "ns/b-0").Starving)
	require.False(t, mustGroup(t, s, "ns/a-0").Starving)

	s.do(save)
	require.Equal(t, []string{"ns/b-0"}, s.book.PlacesOn("n0"))
	s.after(59 * time.Second)
	s.do(gang.CapacityHeld{Group: ref("ns/b"), Places: []gang.Assignment{{Pod: "ns/b-0", Node: "n0"}, {Pod: "ns/b-1", Node: "n1"}}})
	require.Equal(t, []string{"ns/b-1"}, s.book.PlacesOn("n1"))
	s.after(time.Minute - time.Second)
	require.True(t, s.book.AnyPlaces(), "it has grown since")
	require.Equal(t, []string{"wake ns/a-0"}, s.after(time.Second), "it stood still: the next one")
	require.False(t, s.book.AnyPlaces())

	s.do(gang.CapacityHeld{Group: ref("ns/a"), Places: []gang.Assignment{{Pod: "ns/a-0", Node: "n0"}}})
	s.do(planned("ns/a", "ns/a-0@n2"))
	require.Empty(t, s.book.PlacesOn("n0"), "a plan takes the place of what is saved")
	require.NotContains(t, s.after(2*time.Minute-time.Second), "wake ns/b-0")
	require.Contains(t, s.after(time.Second), "wake ns/b-0", "it was in vain, so it has waited for twice as long")
	s.after(time.Minute)
	require.False(t, mustGroup(t, s, "ns/b-0").Starving)
	require.NotContains(t, s.after(4*time.Minute-time.Second), "wake ns/b-0")
	require.Contains(t, s.after(time.Second), "wake ns/b-0", "and twice that")
}

// The hold is for a group whose turn it is not, and may be renewed. A plan ends it.
func TestCapacityHoldExpires(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 0, ""))
	save := gang.CapacityHeld{
		Group: ref("ns/a"), Places: []gang.Assignment{{Pod: "ns/a-0", Node: "n0"}, {Pod: "ns/a-1", Node: "n1"}}, For: 2 * time.Second,
	}
	s.do(save)
	require.Equal(t, []string{"ns/a-1"}, s.book.PlacesOn("n1"))
	s.after(time.Second)
	s.do(save)
	s.after(time.Second)
	require.True(t, s.book.AnyPlaces())
	before := s.freed
	s.after(time.Second)
	require.False(t, s.book.AnyPlaces())
	require.Equal(t, before+1, s.freed, "others hear of it")
	s.do(save)
	s.do(planned("ns/a", "ns/a-0@n2", "ns/a-1@n3"))
	require.Empty(t, s.book.PlacesOn("n0"), "a plan takes the place of what is saved")
	s.after(time.Minute)
}

// A user with many groups holds no more capacity than a user with one.
func TestCapacityIsHeldForOneGroupOfNamespace(t *testing.T) {
	s := newStory(t)
	s.book.Starve = time.Minute
	for _, name := range []string{"x/a", "x/b", "y/c"} {
		s.do(declared(name, 1), seen(name+"-0", 0, ""), noRoom(name))
	}
	require.Equal(t, []string{"wake x/a-0", "wake y/c-0"}, s.after(time.Minute))
	require.True(t, mustGroup(t, s, "y/c-0").Starving)
	require.False(t, mustGroup(t, s, "x/b-0").Starving)
}

// After a restart each such group is tried once before all others. The others wait at most ten seconds, and not for
// groups that cannot be tried.
func TestPartiallyBoundGroupsAreTriedFirstAfterRestart(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 3), seen("ns/a-0", 0, "n0"), seen("ns/a-1", 1, ""), seen("ns/a-2", 2, ""))
	s.do(declared("ns/b", 3), seen("ns/b-0", 0, "n1"), seen("ns/b-1", 1, ""))
	s.do(declared("ns/c", 1), seen("ns/c-0", 0, ""))
	s.book.Resume(s.now)
	require.True(t, s.book.Resumed(ref("ns/a")))
	require.False(t, s.book.Resumed(ref("ns/b")), "a member of it is missing: it cannot be tried")
	require.False(t, s.book.Resumed(ref("ns/c")))

	require.NotContains(t, s.after(10*time.Second-1), "go on")
	require.True(t, s.book.Resuming())
	require.Contains(t, s.after(1), "go on", "it was not tried in time")
	require.False(t, s.book.Resuming())
	require.NotContains(t, s.after(time.Minute), "go on")

	s.book.Resume(s.now)
	require.True(t, s.book.Resuming())
	s.do(noRoom("ns/a"))
	require.False(t, s.book.Resuming(), "it was tried")
}

// A preemptor could take a node between the plan and the binding. The running members would wait for ever.
func TestPartiallyBoundGroupIsTriedFirstUntilItIsPlaced(t *testing.T) {
	resumes := func(t *testing.T) *story {
		s := newStory(t)
		s.do(declared("ns/a", 3), seen("ns/a-0", 0, "n0"), seen("ns/a-1", 1, ""), seen("ns/a-2", 2, ""))
		s.book.Resume(s.now)
		return s
	}
	t.Run("placed", func(t *testing.T) {
		s := resumes(t)
		require.NotContains(t, s.do(planned("ns/a", "ns/a-1@n1", "ns/a-2@n2")), "go on")
		require.NotContains(t, s.do(assumed("ns/a-1"), held("ns/a-1")), "go on")
		require.True(t, s.book.Resumed(ref("ns/a")), "more important pods may take the node of a-2")
		require.Contains(t, s.do(assumed("ns/a-2")), "go on")
		require.False(t, s.book.Resumed(ref("ns/a")))
	})
	t.Run("confirmed", func(t *testing.T) {
		s := resumes(t)
		p := reserved("ns/a", "ns/a-1@n1", "ns/a-2@n2")
		p.Restored, p.Until = true, s.now.Add(time.Minute)
		require.NotContains(t, s.do(p, gang.Confirmed{Group: ref("ns/a")}, assumed("ns/a-1")), "go on")
		require.True(t, s.book.Resumed(ref("ns/a")))
		require.Contains(t, s.do(assumed("ns/a-2")), "go on")
	})
	t.Run("given up", func(t *testing.T) {
		s := resumes(t)
		s.do(planned("ns/a", "ns/a-1@n1", "ns/a-2@n2"), assumed("ns/a-1"), held("ns/a-1"))
		require.Contains(t, s.do(gang.Dropped{Group: ref("ns/a"), Node: "n2", Why: "test"}), "go on")
	})
	t.Run("a member is gone", func(t *testing.T) {
		s := resumes(t)
		s.do(planned("ns/a", "ns/a-1@n1", "ns/a-2@n2"), assumed("ns/a-1"), held("ns/a-1"))
		require.Contains(t, s.do(left("ns/a-2")), "go on")
	})
	t.Run("reserved", func(t *testing.T) {
		s := resumes(t)
		require.Contains(t, s.do(reserved("ns/a", "ns/a-1@n1", "ns/a-2@n2")), "go on", "it waits for terminating victims, maybe for long")
	})
	t.Run("not in time", func(t *testing.T) {
		s := resumes(t)
		s.do(planned("ns/a", "ns/a-1@n1", "ns/a-2@n2"), assumed("ns/a-1"), held("ns/a-1"))
		require.Contains(t, s.after(10*time.Second), "go on")
	})
}

// Nominated nodes do not say in which order interdependent members bind. The order is set when the reservation is
// confirmed.
func TestRestoredReservationGetsOrderWhenConfirmed(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""))
	p := reserved("ns/a", "ns/a-0@n0", "ns/a-1@n0")
	p.Restored, p.Until = true, s.now.Add(time.Minute)
	s.do(p)
	require.Nil(t, mustGroup(t, s, "ns/a-0").Turn)
	require.Equal(t, []string{"wake ns/a-1"}, s.do(gang.Confirmed{Group: ref("ns/a"), Turn: []string{"ns/a-1", "ns/a-0"}}))
	require.Equal(t, "waits for ns/a-1, which must be placed before it", s.admits("ns/a-0"))
	require.Equal(t, []string{"wake ns/a-0"}, s.do(assumed("ns/a-1"), held("ns/a-1")))
}

// The earlier process knew that gang a was complete once. This process does not, so no member may enter, and the
// reservation would be useless.
func TestReservationOfIncompleteGroupIsNotRestored(t *testing.T) {
	s := newStory(t)
	a, b := declared("ns/a", 2), declared("ns/b", 2)
	a.Spec.Group, b.Spec.Group = []gang.Ref{ref("ns/a"), ref("ns/b")}, []gang.Ref{ref("ns/a"), ref("ns/b")}
	s.do(a, b, seen("ns/a-0", 0, "n0"), seen("ns/b-0", 0, "n0"), seen("ns/b-1", 1, ""))
	p := reserved("ns/a", "ns/b-1@n1")
	p.Restored, p.Until = true, s.now.Add(time.Minute)
	s.do(p)
	require.Equal(t, "1 of 2 members of gang ns/a exist", s.admits("ns/b-1"))
	require.False(t, s.book.AnyPlaces(), "no pod takes them")
	s.do(seen("ns/a-1", 1, ""), p)
	require.True(t, s.book.AnyPlaces(), "it could start now")
}
