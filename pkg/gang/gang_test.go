package gang_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// story plays events to a book on a virtual clock and writes down the effects.
type story struct {
	*testing.T
	book *gang.Book
	now  time.Time
}

func newStory(t *testing.T) *story {
	return &story{T: t, book: gang.New(strings.Compare), now: time.Unix(0, 0)}
}

func (s *story) after(d time.Duration) []string { s.now = s.now.Add(d); return s.do(gang.Tick{}) }

// do returns the effects as words; reports are left out.
func (s *story) do(events ...gang.Event) (out []string) {
	s.Helper()
	for _, ev := range events {
		for _, e := range s.book.Apply(ev, s.now) {
			if e.Verb != gang.Report {
				out = append(out, strings.TrimSpace(fmt.Sprint(e.Verb, " ", e.Pod, e.Gang)))
			}
		}
		require.NoError(s, s.book.Check())
	}
	return out
}

func declared(name string, least int, change ...func(*gang.Spec)) gang.Declared {
	s := gang.Spec{Name: name, Min: least, Policy: gang.OnceSatisfied, Wait: 10 * time.Second}
	for _, c := range change {
		c(&s)
	}
	return gang.Declared{Spec: s}
}

func seen(pod string, rank int, node string) gang.Seen {
	return gang.Seen{Member: gang.Member{Gang: pod[:strings.LastIndex(pod, "-")], Pod: pod, UID: pod, Rank: rank, Node: node}}
}

func left(pod string) gang.Left { return gang.Left{Pod: pod, UID: pod} }

func planned(group string, places ...string) gang.Planned {
	p := gang.Planned{Group: group}
	for _, at := range places {
		pod, node, _ := strings.Cut(at, "@")
		p.Places = append(p.Places, gang.Place{Pod: pod, Node: node})
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

func TestAGangFromFirstMemberToBound(t *testing.T) {
	s := newStory(t)
	require.Empty(t, s.do(seen("ns/a-0", 0, "")))
	require.Equal(t, "PodGroup ns/a does not exist", s.admits("ns/a-0"))
	require.Empty(t, s.do(declared("ns/a", 2)))
	require.Equal(t, "1 of 2 members exist", s.admits("ns/a-0"))

	require.Equal(t, []string{"wake ns/a-0"}, s.do(seen("ns/a-1", 1, "")), "whole: the lowest rank is tried for all")
	require.Equal(t, "yes", s.admits("ns/a-0"))
	require.Equal(t, "waits for ns/a-0, which is tried first for the whole gang", s.admits("ns/a-1"))

	require.Equal(t, []string{"wake ns/a-0", "wake ns/a-1"}, s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1")))
	require.Equal(t, "yes", s.admits("ns/a-1"))
	require.Equal(t, []string{"ns/a-1"}, s.book.PlacesOn("n1"))

	require.Empty(t, s.do(assumed("ns/a-0"), held("ns/a-0")))
	require.Equal(t, []string{"allow ns/a-0", "allow ns/a-1"}, s.do(assumed("ns/a-1"), held("ns/a-1")))
	require.Empty(t, s.book.PlacesOn("n1"), "the scheduler counts it there now")
	require.Empty(t, s.do(seen("ns/a-0", 0, "n0"), seen("ns/a-1", 1, "n1")))
	require.Equal(t, 2, s.book.State("ns/a").Bound)
	require.False(t, s.book.AnyPlaces())

	require.Empty(t, s.do(seen("ns/a-0", 0, "")), "a late delivery does not unbind")
	require.Equal(t, 2, s.book.State("ns/a").Bound)
}

func TestHoldingEndsInTime(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"))
	s.do(assumed("ns/a-0"), held("ns/a-0"))
	require.Empty(t, s.after(9*time.Second))
	require.Equal(t, []string{"expire ns/a", "reject ns/a-0", "wake ns/a-0"}, s.after(time.Second))
	require.Equal(t, 1, mustGroup(t, s, "ns/a-0").InFlight, "it is on its way back, and not to be planned yet")
	require.Equal(t, []string{"wake ns/a-0"}, s.do(released("ns/a-0")))
	require.Zero(t, mustGroup(t, s, "ns/a-0").InFlight)
}

func TestAFailureReturnsAllAndIsTriedLater(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 3), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""), seen("ns/a-2", 2, ""))
	s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1", "ns/a-2@n2"), assumed("ns/a-0"), held("ns/a-0"), assumed("ns/a-1"), held("ns/a-1"))
	require.Equal(t, []string{"reject ns/a-0", "reject ns/a-1"}, s.do(gang.Dropped{Group: "ns/a", Why: "n2 refused"}))
	require.Empty(t, s.do(released("ns/a-0"), released("ns/a-1")))
	require.Empty(t, s.after(999*time.Millisecond))
	require.Equal(t, []string{"wake ns/a-0"}, s.after(time.Millisecond))
}

func TestNonStrictKeepsTheOthers(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 1, func(s *gang.Spec) { s.NonStrict = true }), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""))
	s.do(planned("ns/a", "ns/a-0@n0", "ns/a-1@n1"), assumed("ns/a-1"), assumed("ns/a-0"))
	require.Empty(t, s.do(released("ns/a-1")))
	require.Equal(t, []string{"allow ns/a-0"}, s.do(held("ns/a-0")))
}

func TestAReservationSurvivesAFailure(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 2), seen("ns/a-0", 0, ""), seen("ns/a-1", 1, ""))
	require.Empty(t, s.do(reserved("ns/a", "ns/a-0@n0", "ns/a-1@n1")), "nobody enters while victims leave")
	require.Equal(t, []string{"ns/a-1"}, s.book.PlacesOn("n1"))
	require.Equal(t, []string{"wake ns/a-0", "wake ns/a-1"}, s.do(gang.Confirmed{Group: "ns/a"}))
	s.do(assumed("ns/a-0"), held("ns/a-0"), assumed("ns/a-1"))
	require.Equal(t, []string{"reject ns/a-0"}, s.do(released("ns/a-1")))
	s.do(released("ns/a-0"))
	require.True(t, mustGroup(t, s, "ns/a-0").Waiting)
	require.Equal(t, map[string]string{"ns/a-0": "n0", "ns/a-1": "n1"}, mustGroup(t, s, "ns/a-0").Places)
	require.Equal(t, []string{"ns/a-0"}, s.book.PlacesOn("n0"))
}

func TestAReservationEndsInTime(t *testing.T) {
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
	both := func(s *gang.Spec) { s.Group = []string{"ns/a", "ns/b"} }
	s.do(declared("ns/a", 1, both), seen("ns/a-0", 0, ""))
	require.Equal(t, "gang ns/b of the group is missing", s.admits("ns/a-0"))
	require.Empty(t, s.do(declared("ns/b", 2)), "b need not list a")
	require.Equal(t, "0 of 2 members of gang ns/b exist", s.admits("ns/a-0"))
	require.Empty(t, s.do(seen("ns/b-0", 0, "")))
	require.Equal(t, []string{"wake ns/a-0"}, s.do(seen("ns/b-1", 1, "")))

	s.do(planned("ns/a,ns/b", "ns/a-0@n0", "ns/b-0@n1", "ns/b-1@n2"))
	require.Empty(t, s.do(assumed("ns/a-0"), held("ns/a-0"), assumed("ns/b-0"), held("ns/b-0")))
	require.Equal(t, []string{"allow ns/a-0", "allow ns/b-0", "allow ns/b-1"}, s.do(assumed("ns/b-1"), held("ns/b-1")))
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

func TestOnceSatisfiedIsForgottenWithTheLastMember(t *testing.T) {
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
	require.Equal(t, 1, s.book.State("ns/a").Exist)
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
