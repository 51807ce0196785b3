package departure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

func namesOf(pods []*v1.Pod) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// sorted are names of pods in order.
func sorted(pods []*v1.Pod) string {
	names := strings.Fields(namesOf(pods))
	slices.Sort(names)
	return strings.Join(names, " ")
}

// other is the number of an eviction that is not the first ones.
const other = 1000

// TestVictimsUnseen: who is to leave and was not seen leaving, within a time: those whose leaving the API server has taken, and
// the others. Who asks again asks the others only.
func TestVictimsUnseen(t *testing.T) {
	now := time.Unix(1000, 0)
	v := &Victims{}
	all := pods("n0/taken n0/asked n0/slow n0/late")
	all[2].Spec.TerminationGracePeriodSeconds = new(int64)
	*all[2].Spec.TerminationGracePeriodSeconds = 61
	v.set(gangG, all[:3])
	v.Expect(all[3:], now, other) // nobody has heard of it in time
	v.Expect(pods("n0/seen!"), time.Time{}, other)
	_, done := v.turn(all[0])
	done(true)
	for within, want := range map[time.Duration]string{time.Minute: "taken | asked", time.Hour: "taken | asked slow"} {
		taken, others := v.Pending(now, within)
		require.Equal(t, want, sorted(taken)+" | "+sorted(others))
	}
	require.Equal(t, "asked slow", sorted(v.AllNotRequested(now)))
	require.Equal(t, "asked", sorted(v.NotRequested(all[:2], now)))
	require.Equal(t, "asked late slow", sorted(v.AllNotRequested(now.Add(-1))))
}

// TestDeparts: who is seen leaving is to be gone within a time, unless he should have gone long ago.
func TestDeparts(t *testing.T) {
	now := time.Unix(1000, 0)
	for in, want := range map[time.Duration]bool{0: true, time.Minute: true, time.Minute + 1: false, -time.Hour + 1: true, -time.Hour: false} {
		pod := at("n0", "x!")
		pod.DeletionTimestamp.Time = now.Add(in)
		require.Equal(t, want, (&Victims{}).GoneWithin(pod, now, time.Minute, time.Hour), in)
	}
}

// TestLeavesFor: a pod leaves for a group if it was asked to for that one's reservation, or leaves for whomever.
func TestLeavesFor(t *testing.T) {
	now := time.Unix(1000, 0)
	v := &Victims{}
	v.set(gangG, pods("n0/x n0/y"))
	v.Expect(pods("n0/z"), time.Time{}, other)
	_, done := v.turn(at("n0", "y"))
	done(true)
	delete(v.pending, "y") // it is not counted on, but was asked
	for name, want := range map[string][2]bool{"x": {true, true}, "y": {true, false}, "z": {true, true}, "w": {false, false}, "w!": {true, true}} {
		pod := at("n0", name)
		require.Equal(t, want, [2]bool{v.TerminatesFor(gangG, now)(pod), v.TerminatesFor(gangH, now)(pod)}, name)
	}
}

// TestSays: what a victim is told is what a later process reads.
func TestSays(t *testing.T) {
	pod := func(priority int32) *v1.Pod {
		p := at("n0", fmt.Sprint("p", priority))
		p.Spec.Priority, p.Spec.SchedulerName = &priority, "muster"
		return p
	}
	by := preemptor{pod: pod(100)}
	gangs := preemptor{pod: pod(100), gangs: []gang.Ref{gangG}}
	since := preemptor{pod: pod(100), why: "quota b has had too much for 5m0s"}
	for name, test := range map[string]struct {
		by       preemptor
		priority int32
		told     string
		forQuota bool
		revoked  string
	}{
		"less important":                   {by, 99, "muster: preempting to accommodate a higher priority pod " + convert.PodKey(by.pod), false, ""},
		"less important than a gang":       {gangs, 99, "muster: preempting to accommodate a higher priority gang " + gangG.String(), false, ""},
		"as important":                     {by, 100, "muster: preempting to accommodate pod " + convert.PodKey(by.pod) + ": its quota reclaims what the quota of this pod borrows", true, ""},
		"more important":                   {gangs, 101, "muster: preempting to accommodate gang " + gangG.String() + ": its quota reclaims what the quota of this pod borrows", true, ""},
		"of a quota that has too much":     {since, 99, "muster: since quota b has had too much for 5m0s", false, "quota b has had too much for 5m0s"},
		"and of whatever priority that is": {since, 101, "muster: since quota b has had too much for 5m0s", false, "quota b has had too much for 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			victim := pod(test.priority)
			require.Equal(t, [2]string{"", ""}, [2]string{toldReason(victim), revoked(victim, "muster")})
			victim.Status.Conditions = []v1.PodCondition{*disrupted(test.by, victim)}
			require.Equal(t, test.told, toldReason(victim))
			require.Equal(t, test.forQuota, forQuota(victim))
			require.Equal(t, test.revoked, revoked(victim, "muster"))
			require.Empty(t, revoked(victim, "another"), "another profile has said so")
		})
	}
	gone := apierrors.NewNotFound(v1.Resource("pods"), "x")
	require.NoError(t, unlessNotFound(gone))
	down := apierrors.NewServiceUnavailable("soon")
	require.Equal(t, down, unlessNotFound(down))
}

// TestUnits: who leaves or stays together, the dearest first. Who is left of a group that has lost somebody leaves in any case.
func TestUnits(t *testing.T) {
	for name, test := range map[string]struct {
		victims string // "name=priority", of the group before "-"
		lost    string // groups that have lost somebody
		want    string
	}{
		"nobody":                         {"", "", ""},
		"the more important ones first":  {"x=10 y=30 z=20", "", "y | z | x"},
		"groups, and the larger ones":    {"x=90 g-0=10 h-0=10 g-1=10 h-1=20 h-2=5", "", "h-0 h-1 h-2 | g-0 g-1 | x"},
		"not those of a broken group":    {"x=90 g-0=10 g-1=10 h-0=1", "g", "x | h-0"},
		"nobody but of a broken group":   {"g-0=10 g-1=10", "g", ""},
		"equal ones as they are counted": {"y=10 x=10", "", "y | x"},
	} {
		t.Run(name, func(t *testing.T) {
			w := (&Evictor{Options: Options{Victims: &Victims{}}}).Single()
			var victims []*v1.Pod
			for word := range strings.FieldsSeq(test.victims) {
				name, number, _ := strings.Cut(word, "=")
				pod := at("n0", name)
				n, err := strconv.ParseInt(number, 10, 32)
				require.NoError(t, err)
				priority := int32(n)
				pod.Spec.Priority = &priority
				victims = append(victims, pod)
				if group, _, is := strings.Cut(pod.Name, "-"); is {
					w.BundleOf[pod.UID] = gang.Ref{Name: group}
				}
			}
			for of := range strings.FieldsSeq(test.lost) {
				w.hasLost[gang.Ref{Name: of}] = true
			}
			var got []string
			for _, unit := range w.ByBundle(victims) {
				got = append(got, namesOf(unit))
			}
			require.Equal(t, test.want, strings.Join(got, " | "))
		})
	}
}

// TestStay: of those who leave together as many as possible stay, the first rather than the last.
func TestStay(t *testing.T) {
	units := [][]*v1.Pod{pods("n0/a n0/b"), pods("n0/c"), pods("n0/d"), pods("n0/e")}
	for name, test := range map[string]struct {
		most  int    // so many pods may stay
		never string // and never this one
		want  string
	}{
		"all":                      {5, "", "a b c d e"},
		"none":                     {0, "", ""},
		"the first ones":           {3, "", "a b c"},
		"those for whom it does":   {1, "", "c"},
		"all but one in the midst": {5, "c", "a b d e"},
		"all but the first unit":   {5, "b", "c d e"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, sorted(SparedOf(units, func(some [][]*v1.Pod) bool {
				all := slices.Concat(some...)
				return len(all) <= test.most && !slices.ContainsFunc(all, func(p *v1.Pod) bool { return p.Name == test.never })
			})))
		})
	}
	var many [][]*v1.Pod
	for i := range 2 * mostQuestions {
		many = append(many, pods(fmt.Sprint("n0/p", i)))
	}
	tries := 0
	require.Empty(t, SparedOf(many, func([][]*v1.Pod) bool { tries++; return false }))
	require.Equal(t, mostQuestions, tries, "it is not tried for ever")

	gone := [][]*v1.Pod{pods("n0/a n0/c n0/d!"), nil, pods("n2/b n2/e")}
	var left []string
	for _, here := range without(gone, [][]*v1.Pod{pods("n0/a n2/b"), pods("n0/d!")}) {
		left = append(left, namesOf(here))
	}
	require.Equal(t, "c d! |  | e", strings.Join(left, " | "), "who is seen leaving does not stay")
	require.Equal(t, "a c d!", namesOf(gone[0]), "what was given is not changed")
}

// TestDoubts: a question about who need not leave is of one eviction, and is answered once.
func TestDoubts(t *testing.T) {
	v := &Victims{}
	require.Nil(t, v.takeDoubt(gangG))
	n := v.set(gangG, pods("n0/x"))
	require.Nil(t, v.ask(gangG, n-1, nil), "of an eviction before")
	require.Nil(t, v.ask(gangH, n, nil), "of another group")
	require.Nil(t, v.takeDoubt(gangG), "nobody asks")
	d := v.ask(gangG, n, [][]*v1.Pod{pods("n0/x")})
	require.NotNil(t, d)
	require.Nil(t, v.takeDoubt(gangH))
	require.Same(t, d, v.takeDoubt(gangG))
	require.Nil(t, v.takeDoubt(gangG), "it was taken")
}

// TestHowFarGroupsAre: a group is left in part from when somebody of it has gone until nobody of it is waited for. Whose deletion was
// answered with an error that says nothing may have gone: that shows when he leaves.
func TestHowFarGroupsAre(t *testing.T) {
	timeout := apierrors.NewTimeoutError("too slow", 1)
	for name, test := range map[string]struct {
		then   func(w *Bundles, g []*v1.Pod)
		broken bool // who is left leaves in any case
		parted bool
	}{
		"nobody was asked":                 {func(*Bundles, []*v1.Pod) {}, false, false},
		"one has gone":                     {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil) }, true, true},
		"one went back to the queue":       {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], true, nil) }, false, false},
		"one may not be evicted":           {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, apierrors.NewTooManyRequests("budget", 1)) }, false, false},
		"one was deleted by others":        {func(w *Bundles, g []*v1.Pod) { w.terminates(g[0]) }, false, false},
		"one may have gone":                {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, timeout) }, false, false},
		"one may have gone, and leaves":    {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, timeout); w.terminates(g[0]) }, true, true},
		"another one leaves, by himself":   {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, timeout); w.terminates(g[1]) }, false, false},
		"who leaves alone is of no group":  {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[2], false, nil); w.terminates(g[2]) }, false, false},
		"the last one is waited for":       {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil); w.awaits(g[1:2]) }, true, true},
		"nobody is waited for any more":    {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil); w.awaits(nil) }, true, false},
		"only somebody else is waited for": {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil); w.awaits(g[2:]) }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, some := (&Evictor{Options: Options{Victims: &Victims{}}}).Single(), pods("n0/g-0 n0/g-1 n0/x")
			w.BundleOf[some[0].UID], w.BundleOf[some[1].UID] = gangG, gangG
			test.then(w, some)
			require.Equal(t, test.broken, w.broken(some[1]))
			require.Equal(t, test.parted, w.parted())
			require.False(t, w.broken(some[2]))
			require.Equal(t, "g-0 g-1", namesOf(w.Among(some)))
		})
	}
}
