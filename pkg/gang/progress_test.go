package gang_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// done is a member that finished on a node after all members without another creation time were created.
func done(pod, owner string) gang.Seen {
	s := ownerCounts(seen(pod, 0, "n"), owner, true)
	s.Member.Ended = 5
	return s
}

// succeeded is a member that has finished well.
func succeeded(pod, owner string) gang.Seen {
	s := done(pod, owner)
	s.Member.Succeeded = true
	return s
}

// again is a member that was created after the others had finished.
func again(pod, owner string) gang.Seen {
	s := ownerCounts(seen(pod, 0, ""), owner, false)
	s.Member.Created = 5
	return s
}

// completed sets how many succeeded members the minimum excludes.
func completed(n int) func(*gang.Spec) { return func(s *gang.Spec) { s.Completed = n } }

func ownerCounts(s gang.Seen, owner string, done bool) gang.Seen {
	s.Member.Owner, s.Member.Done = owner, done
	return s
}

// withoutMinMember is for a gang whose minMember no object states.
func withoutMinMember(s *gang.Spec) { s.Counted = true }

// A finished member counts unless it was recreated, and a gang that was complete may continue one by one.
func TestFinishedMembersCountForGang(t *testing.T) {
	for name, c := range map[string]struct {
		events []gang.Event
		admits string // a-3
		need   int
	}{
		"one has finished, and a scheduler starts now (case 45)": {
			[]gang.Event{declared("a", 4), done("a-0", ""), seen("a-1", 0, "n"), seen("a-2", 0, "n"), seen("a-3", 0, "")}, "yes", 1,
		},
		"told in another order": {
			[]gang.Event{seen("a-3", 0, ""), seen("a-1", 0, "n"), done("a-0", ""), seen("a-2", 0, "n"), declared("a", 4)}, "yes", 1,
		},
		"all but one have finished": {
			[]gang.Event{
				declared("a", 4), done("a-0", "job"), done("a-1", "job"), done("a-2", "job"), ownerCounts(seen("a-3", 0, ""), "job", false),
			}, "yes", 1,
		},
		"its PodGroup was made again (case 46)": {
			[]gang.Event{
				declared("a", 4), seen("a-0", 0, "n"), seen("a-1", 0, "n"), seen("a-2", 0, "n"), seen("a-4", 0, "n"),
				gang.Removed{Gang: ref("a")},
				left("a-4"), left("a-2"), declared("a", 4), seen("a-3", 0, ""),
			}, "yes", 0,
		},
		"its PodGroup came after its members": {
			[]gang.Event{
				seen("a-0", 0, "n"), seen("a-1", 0, "n"), seen("a-2", 0, "n"), seen("a-4", 0, "n"), declared("a", 4),
				left("a-4"), left("a-2"), seen("a-3", 0, ""),
			}, "yes", 0,
		},
		"its owner is away while some of it run": {
			[]gang.Event{
				declared("a", 4), seen("a-0", 0, "n"), seen("a-1", 0, "n"), declared("a", 2, withoutMinMember), seen("a-3", 0, ""), declared("a", 4),
			}, "3 of 4 members exist", 2,
		},
		"it was whole before its owner was away": {
			[]gang.Event{
				declared("a", 2), seen("a-0", 0, "n"), seen("a-1", 0, "n"), declared("a", 2,
					withoutMinMember), left("a-1"), declared("a", 4), seen("a-3", 0, ""),
			}, "yes", 0,
		},
		"its PodGroup says that it was whole": {
			[]gang.Event{declared("a", 4), seen("a-0", 0, "n"), seen("a-3", 0, ""), gang.WasComplete{Gang: ref("a")}}, "yes", 0,
		},
		"its PodGroup says so of others": {
			[]gang.Event{declared("a", 4), seen("a-3", 0, ""), gang.WasComplete{Gang: ref("a")}}, "1 of 4 members exist", 4,
		},
		"too few have finished": {
			[]gang.Event{declared("a", 4), done("a-0", ""), done("a-1", ""), seen("a-3", 0, "")}, "3 of 4 members exist", 2,
		},
		"each that failed has a successor: they start together": {
			[]gang.Event{
				declared("a", 4), done("a-8", ""), done("a-9", ""), seen("a-0", 0, ""), seen("a-1", 0, ""), seen("a-2", 0, ""), seen("a-3", -1, ""),
			}, "yes", 4,
		},
		"a job that was made again starts whole": {
			[]gang.Event{
				declared("a", 4), done("a-0", "old"), done("a-1", "old"), done("a-2", "old"), done("a-4", "old"), ownerCounts(seen("a-3", 0, ""), "new",
					false),
			}, "1 of 4 members exist", 4,
		},
		"told in another order, too": {
			[]gang.Event{
				declared("a", 4), ownerCounts(seen("a-3", 0, ""), "new",
					false), done("a-0", "old"), done("a-1", "old"), done("a-2", "old"), done("a-4", "old"),
			}, "1 of 4 members exist", 4,
		},
		"once-satisfied is forgotten with the last, finished or not": {
			[]gang.Event{
				declared("a", 2), seen("a-0", 0,
					"n"), seen("a-1", 0, "n"), done("a-0", ""), done("a-1", ""), left("a-0"), left("a-1"), seen("a-3", 0, ""),
			}, "1 of 2 members exist", 2,
		},
		"it is remembered as long as one that finished is there": {
			[]gang.Event{
				declared("a", 2), seen("a-0", 0, "n"), seen("a-1", 0, "n"), done("a-0", ""), done("a-1", ""), left("a-0"), seen("a-3", 0, ""),
			}, "yes", 0,
		},
		"a second run of one owner, of which all have failed before": {
			[]gang.Event{declared("a", 2), done("a-0", "job"), done("a-1", "job"), again("a-3", "job")}, "1 of 2 members exist", 2,
		},
		"a second run, told in another order": {
			[]gang.Event{declared("a", 2), again("a-3", "job"), done("a-0", "job"), done("a-1", "job")}, "1 of 2 members exist", 2,
		},
		"a second run, of which all have succeeded before": {
			[]gang.Event{declared("a", 2), succeeded("a-0", "job"), succeeded("a-1", "job"), again("a-3", "job")}, "1 of 2 members exist", 2,
		},
		"a second run of a gang that was whole": {
			[]gang.Event{
				declared("a", 2), seen("a-0", 0, "n"), seen("a-1", 0, "n"), done("a-0", ""), done("a-1", ""), again("a-4", ""), again("a-3", ""),
			}, "yes", 2,
		},
		"its PodGroup says that the run before was whole": {
			[]gang.Event{
				declared("a", 2), done("a-0", ""), done("a-1", ""), again("a-3", ""), gang.WasComplete{Gang: ref("a")},
			}, "1 of 2 members exist", 2,
		},
		"one has succeeded, and the other one was evicted": {
			[]gang.Event{declared("a", 2), succeeded("a-0", "job"), again("a-3", "job")}, "yes", 1,
		},
		"the only one that has failed is made again": {
			[]gang.Event{declared("a", 3), succeeded("a-0", "job"), succeeded("a-1", "job"), done("a-2", "job"), again("a-3", "job")}, "yes", 1,
		},
		"the minimum excludes succeeded members": {
			[]gang.Event{
				declared("a", 2, completed(2)), succeeded("a-0", "job"), succeeded("a-1", "job"), done("a-2", "job"), again("a-3", "job"),
			}, "1 of 2 members exist", 2,
		},
		"the minimum excludes more members than exist": {
			[]gang.Event{declared("a", 2, completed(9)), succeeded("a-0", ""), done("a-2", ""), seen("a-1", 0, "n"), seen("a-3", 0, "")}, "yes", 0,
		},
		"a late word does not bring one back that has finished": {
			[]gang.Event{declared("a", 2), done("a-0", ""), seen("a-0", 0, "n"), seen("a-3", 0, "")}, "yes", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.do(c.events...)
			require.Equal(t, c.admits, s.admits("a-3"))
			g := mustGroup(t, s, "a-3")
			require.Equal(t, c.need, g.Need())
			for _, m := range g.Bound {
				require.False(t, m.Done, "a finished member holds no node for the gang")
			}
		})
	}
}

// Case 47: a worker is replaced although no member of the launcher's gang runs any more.
func TestWorkerIsReplacedAfterLauncherFinishes(t *testing.T) {
	for _, policy := range []gang.MatchPolicy{gang.OnceSatisfied, gang.WaitingAndRunning} {
		s := newStory(t)
		both := func(s *gang.Spec) { s.Group, s.Policy = refs("launcher", "worker"), policy }
		s.do(declared("launcher", 1, both), declared("worker", 2, both), done("launcher-0", ""), seen("worker-0", 0, "n"))
		require.Equal(t, []string{"wake worker-1"}, s.do(seen("worker-1", 1, "")))
		s.do(planned("launcher", "worker-1@n1"), assumed("worker-1"))
		require.Equal(t, []string{"allow worker-1"}, s.do(held("worker-1")), policy)
	}
}

// The last member of a complete gang is reported as deleted, and then as finished. Other gangs of its group need
// not wait for it. A gang that is created in between starts over.
func TestLastMemberFinishesAfterItsDeletion(t *testing.T) {
	for _, c := range []struct {
		name    string
		between []gang.Event
		done    string // the UID of the finished pod
		want    string
	}{
		{"it is the same pod", nil, "b-0", "yes"},
		{"it is another one", nil, "other", "1 of 2 members of gang b exist"},
		{"the gang is made anew", []gang.Event{seen("b-2", 0, "")}, "b-0", "1 of 2 members of gang b exist"},
	} {
		s := newStory(t)
		s.do(declared("a", 1, lists("a", "b")), declared("b", 2, lists("a", "b")), seen("a-0", 0, "n0"), seen("b-0", 0, "n1"),
			seen("b-1", 0, "n2"))
		s.do(left("b-1"), left("b-0"))
		s.do(c.between...)
		finished := done("b-0", "job")
		finished.Member.UID, finished.Member.Node = c.done, "n1"
		s.do(finished, left("a-0"), seen("a-1", 0, ""))
		require.Equal(t, c.want, s.admits("a-1"), c.name)
	}
}

// With policy OnlyWaiting, a gang whose members all run does not delay the others of its group.
func TestBoundOnlyWaitingGangDoesNotDelayGroup(t *testing.T) {
	s := newStory(t)
	only := func(s *gang.Spec) { s.Policy = gang.OnlyWaiting }
	s.do(declared("a", 1, lists("a", "b"), only), declared("b", 1, lists("a", "b"), only), seen("a-0", 0, "n0"), seen("b-0", 0, ""))
	g := mustGroup(t, s, "b-0")
	require.Equal(t, 1, g.Need(), "of b")
	require.Equal(t, []string{"b-0"}, pods(g.Pending))
	require.Equal(t, []string{"allow b-0"}, s.do(planned("a", "b-0@n1"), assumed("b-0"), held("b-0"))[1:])
	s.do(seen("b-0", 0, "n1"), seen("a-1", 1, ""))
	require.Equal(t, 1, mustGroup(t, s, "a-1").Need(), "a waiting member counts among the waiting members")
}

// A gang that only its members declare is gone with its last member. If that member has finished, the gang was complete all the same.
func TestGangDeclaredByMembersStaysStartedWhenItsLastMemberFinishes(t *testing.T) {
	s := newStory(t)
	group := func(spec *gang.Spec) { spec.Group = []gang.Ref{ref("g"), ref("h")} }
	s.do(declared("g", 2, group), declared("h", 1, group), seen("g-0", 0, "n"), seen("g-1", 1, "n"), seen("h-0", 0, "n"))
	s.do(left("g-0"), done("h-0", ""), seen("h-1", 1, ""))
	s.do(left("g-1"), gang.Removed{Gang: ref("g")}, gang.Tick{})
	s.do(succeeded("g-1", ""), declared("g", 2, group))
	require.Equal(t, "yes", s.admits("h-1"))
}

// A running gang is incomplete only by members that it had and lost. Failed members are lost, succeeded ones are not.
func TestGangIsIncompleteByLostMembersOnly(t *testing.T) {
	failed := func(pod string) gang.Seen { return done(pod, "") }
	for name, test := range map[string]struct {
		events          []gang.Event
		missing, absent int
	}{
		"complete":                                 {nil, 0, 0},
		"deleted":                                  {[]gang.Event{left("a-0")}, 1, 1},
		"deleted, and recreated":                   {[]gang.Event{left("a-0"), seen("a-4", 0, "")}, 1, 0},
		"failed":                                   {[]gang.Event{failed("a-0")}, 1, 1},
		"failed, and recreated":                    {[]gang.Event{failed("a-0"), seen("a-4", 0, "")}, 1, 0},
		"failed, and its replacement runs":         {[]gang.Event{failed("a-0"), seen("a-4", 0, "n")}, 0, 0},
		"succeeded":                                {[]gang.Event{succeeded("a-0", "")}, 0, 0},
		"succeeded and deleted":                    {[]gang.Event{succeeded("a-0", ""), left("a-0")}, 0, 0},
		"succeeded and deleted, another is lost":   {[]gang.Event{succeeded("a-0", ""), left("a-0"), left("a-1")}, 1, 1},
		"succeeded, recreated, deleted":            {[]gang.Event{succeeded("a-0", ""), seen("a-4", 0, "n"), left("a-0"), left("a-1")}, 1, 1},
		"minMember is raised":                      {[]gang.Event{declared("a", 6)}, 0, 0},
		"minMember is raised, and a member exists": {[]gang.Event{declared("a", 6), seen("a-4", 0, "")}, 0, 0},
		"minMember is raised, and one is lost":     {[]gang.Event{declared("a", 6), left("a-0")}, 1, 1},
		"minMember is raised, one comes, two are lost": {
			[]gang.Event{declared("a", 6), seen("a-4", 0, "n"), left("a-0"), left("a-1")}, 2, 2,
		},
		"minMember is lowered": {[]gang.Event{declared("a", 3), left("a-0")}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.do(declared("a", 4), seen("a-0", 0, "n"), seen("a-1", 0, "n"), seen("a-2", 0, "n"), seen("a-3", 0, "n"))
			s.do(test.events...)
			repair := s.book.Numbers(ref("a")).Repair
			require.Equal(t, test.missing, repair.Missing, "missing")
			require.Equal(t, test.absent, repair.Absent, "absent")
		})
	}
}

// A gang that was evicted as a whole starts as a whole, although a finished member still exists. Else its first recreated member could
// start where the others have no capacity.
func TestEvictedGangWithFinishedMemberStartsTogether(t *testing.T) {
	s := newStory(t)
	s.do(declared("a", 3), succeeded("a-0", ""), seen("a-1", 0, "n"), seen("a-2", 0, "n"))
	s.do(gang.Evicted{Pods: victims("a-1", "a-2")}, left("a-1"), left("a-2"), again("a-3", ""))
	require.Equal(t, "2 of 3 members exist", s.admits("a-3"))
	s.do(again("a-4", ""))
	require.Equal(t, "yes", s.admits("a-3"))
}
