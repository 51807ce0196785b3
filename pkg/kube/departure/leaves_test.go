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
	"k8s.io/apimachinery/pkg/types"

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

// Victims that are not seen terminating are listed in two parts: with an accepted request, and without one. Only
// victims without an accepted request are requested again.
func TestVictimsNotSeenTerminating(t *testing.T) {
	now := time.Unix(1000, 0)
	v := &Victims{}
	all := pods("n0/taken n0/asked n0/slow n0/late")
	all[2].Spec.TerminationGracePeriodSeconds = new(int64)
	*all[2].Spec.TerminationGracePeriodSeconds = 61
	v.recordReservation(gangG, all[:3])
	v.Expect(all[3:], now, other) // its deadline has passed
	v.Expect(pods("n0/seen!"), time.Time{}, other)
	_, done := v.lockRequest(all[0])
	done(true)
	for within, want := range map[time.Duration]string{time.Minute: "taken | asked", time.Hour: "taken | asked slow"} {
		taken, others := v.Pending(now, within)
		require.Equal(t, want, sorted(taken)+" | "+sorted(others))
	}
	require.Equal(t, "asked slow", sorted(v.AllNotRequested(now)))
	require.Equal(t, "asked", sorted(v.NotRequested(all[:2], now)))
	require.Equal(t, "asked late slow", sorted(v.AllNotRequested(now.Add(-1))))
}

// A terminating pod counts as gone within a time, unless its deletion is long overdue.
func TestGoneWithin(t *testing.T) {
	now := time.Unix(1000, 0)
	for in, want := range map[time.Duration]bool{0: true, time.Minute: true, time.Minute + 1: false, -time.Hour + 1: true, -time.Hour: false} {
		pod := at("n0", "x!")
		pod.DeletionTimestamp.Time = now.Add(in)
		require.Equal(t, want, (&Victims{}).GoneWithin(pod, now, time.Minute, time.Hour), in)
	}
}

// A pod terminates for a gang if it was evicted for the gang's reservation, or if it terminates anyway.
func TestTerminatesFor(t *testing.T) {
	now := time.Unix(1000, 0)
	v := &Victims{}
	v.recordReservation(gangG, pods("n0/x n0/y"))
	v.Expect(pods("n0/z"), time.Time{}, other)
	_, done := v.lockRequest(at("n0", "y"))
	done(true)
	delete(v.pending, "y") // it is not counted on, but was asked
	for name, want := range map[string][2]bool{
		"x": {true, true}, "y": {true, false}, "z": {true, true}, "w": {false, false}, "w!": {true, true},
	} {
		pod := at("n0", name)
		require.Equal(t, want, [2]bool{v.TerminatesFor(gangG, now)(pod), v.TerminatesFor(gangH, now)(pod)}, name)
	}
}

// After a restart the scheduler reads from a victim's condition why the victim was evicted.
func TestEvictionReasonIsReadFromCondition(t *testing.T) {
	pod := func(priority int32) *v1.Pod {
		p := at("n0", fmt.Sprint("p", priority))
		p.Spec.Priority, p.Spec.SchedulerName = &priority, "muster"
		return p
	}
	by := preemptor{pod: pod(100)}
	gangs := preemptor{pod: pod(100), gangs: []gang.Ref{gangG}}
	forced := gangs
	forced.forceFit = ForceFit{Waited: 2 * time.Hour, Victims: map[types.UID]bool{pod(100).UID: true}}
	since := preemptor{pod: pod(100), why: "quota b has had too much for 5m0s"}
	for name, test := range map[string]struct {
		by       preemptor
		priority int32
		told     string
		forQuota bool
		revoked  string
	}{
		"less important": {
			by, 99, "muster: preempting to accommodate a higher priority pod " + convert.PodKey(by.pod), false, "",
		},
		"less important than a gang": {gangs, 99, "muster: preempting to accommodate a higher priority gang " + gangG.String(), false, ""},
		"as important": {
			by, 100, "muster: preempting to accommodate pod " + convert.PodKey(by.pod) + ": its quota reclaims what the quota of this pod borrows",
			true, "",
		},
		"more important": {
			gangs, 101, "muster: preempting to accommodate gang " + gangG.String() + ": its quota reclaims what the quota of this pod borrows", true,
			"",
		},
		"as important, by force fit": {
			forced, 100, "muster: preempting to accommodate gang " + gangG.String() + ", by force fit: that gang was unschedulable for 2h0m0s and was " +
				"created before the gang of this pod (argument forceFit)", true, "",
		},
		"less important, by force fit": {forced, 99, "muster: preempting to accommodate a higher priority gang " + gangG.String(), false, ""},
		"of a quota that has too much": {
			since, 99, "muster: evicted because quota b has had too much for 5m0s", false, "quota b has had too much for 5m0s",
		},
		"and of whatever priority that is": {
			since, 101, "muster: evicted because quota b has had too much for 5m0s", false, "quota b has had too much for 5m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			victim := pod(test.priority)
			require.Equal(t, [2]string{"", ""}, [2]string{conditionMessage(victim), revocationReason(victim, "muster")})
			victim.Status.Conditions = []v1.PodCondition{*disrupted(test.by, victim)}
			require.Equal(t, test.told, conditionMessage(victim))
			require.Equal(t, test.forQuota, evictedByEqual(victim))
			require.Equal(t, test.revoked, revocationReason(victim, "muster"))
			require.Empty(t, revocationReason(victim, "another"), "another profile has said so")
		})
	}
	gone := apierrors.NewNotFound(v1.Resource("pods"), "x")
	require.NoError(t, unlessNotFound(gone))
	down := apierrors.NewServiceUnavailable("soon")
	require.Equal(t, down, unlessNotFound(down))
}

// Victims are grouped by bundle, the most important bundle first. A bundle that has lost a pod is not listed: its
// rest is evicted in any case.
func TestByBundle(t *testing.T) {
	for name, test := range map[string]struct {
		victims string // "name=priority", of the group before "-"
		lost    string // groups that have lost a pod
		want    string
	}{
		"no victims":                     {"", "", ""},
		"the more important ones first":  {"x=10 y=30 z=20", "", "y | z | x"},
		"groups, and the larger ones":    {"x=90 g-0=10 h-0=10 g-1=10 h-1=20 h-2=5", "", "h-0 h-1 h-2 | g-0 g-1 | x"},
		"no pods of a broken group":      {"x=90 g-0=10 g-1=10 h-0=1", "g", "x | h-0"},
		"only pods of a broken group":    {"g-0=10 g-1=10", "g", ""},
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

// As many victims as possible are spared, bundle by bundle. Earlier bundles are spared before later ones.
func TestSparedOf(t *testing.T) {
	units := [][]*v1.Pod{pods("n0/a n0/b"), pods("n0/c"), pods("n0/d"), pods("n0/e")}
	for name, test := range map[string]struct {
		most  int    // the number of pods that may stay
		never string // and never this one
		want  string
	}{
		"all":                        {5, "", "a b c d e"},
		"none":                       {0, "", ""},
		"the first ones":             {3, "", "a b c"},
		"the first bundle that fits": {1, "", "c"},
		"all but one in the midst":   {5, "c", "a b d e"},
		"all but the first unit":     {5, "b", "c d e"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, sorted(SparedOf(units, func(some [][]*v1.Pod) bool {
				all := slices.Concat(some...)
				return len(all) <= test.most && !slices.ContainsFunc(all, func(p *v1.Pod) bool { return p.Name == test.never })
			})))
		})
	}
	var many [][]*v1.Pod
	for i := range 2 * mostFitsCalls {
		many = append(many, pods(fmt.Sprint("n0/p", i)))
	}
	tries := 0
	require.Empty(t, SparedOf(many, func([][]*v1.Pod) bool { tries++; return false }))
	require.Equal(t, mostFitsCalls, tries, "the search is bounded")

	gone := [][]*v1.Pod{pods("n0/a n0/c n0/d!"), nil, pods("n2/b n2/e")}
	var left []string
	for _, here := range without(gone, [][]*v1.Pod{pods("n0/a n2/b"), pods("n0/d!")}) {
		left = append(left, namesOf(here))
	}
	require.Equal(t, "c d! |  | e", strings.Join(left, " | "), "a terminating pod is not spared")
	require.Equal(t, "a c d!", namesOf(gone[0]), "what was given is not changed")
}

// The question whether victims can be spared belongs to one eviction and is answered once.
func TestSpareQuestionIsAnsweredOnce(t *testing.T) {
	v := &Victims{}
	require.Nil(t, v.takeQuestion(gangG))
	n := v.recordReservation(gangG, pods("n0/x"))
	require.Nil(t, v.askUnneeded(gangG, n-1, nil), "of an eviction before")
	require.Nil(t, v.askUnneeded(gangH, n, nil), "of another group")
	require.Nil(t, v.takeQuestion(gangG), "there is no question")
	d := v.askUnneeded(gangG, n, [][]*v1.Pod{pods("n0/x")})
	require.NotNil(t, d)
	require.Nil(t, v.takeQuestion(gangH))
	require.Same(t, d, v.takeQuestion(gangG))
	require.Nil(t, v.takeQuestion(gangG), "it was taken")
}

// A bundle is partially evicted from its first deleted pod until no further pod of it is awaited. After a deletion
// request that timed out, the bundle is partially evicted only once that pod terminates.
func TestPartiallyEvictedBundles(t *testing.T) {
	timeout := apierrors.NewTimeoutError("too slow", 1)
	for name, test := range map[string]struct {
		then   func(w *Bundles, g []*v1.Pod)
		broken bool // the rest is evicted in any case
		parted bool
	}{
		"no request was sent":        {func(*Bundles, []*v1.Pod) {}, false, false},
		"one has gone":               {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil) }, true, true},
		"one went back to the queue": {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], true, nil) }, false, false},
		"one may not be evicted": {
			func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, apierrors.NewTooManyRequests("budget", 1)) }, false, false,
		},
		"one was deleted by others": {func(w *Bundles, g []*v1.Pod) { w.terminates(g[0]) }, false, false},
		"one may have gone":         {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, timeout) }, false, false},
		"one may have gone, and terminates": {
			func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, timeout); w.terminates(g[0]) }, true, true,
		},
		"another pod terminates for another reason": {
			func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, timeout); w.terminates(g[1]) }, false, false,
		},
		"a pod without a bundle terminates": {
			func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[2], false, nil); w.terminates(g[2]) }, false, false,
		},
		"the last one is awaited":    {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil); w.recordRemaining(g[1:2]) }, true, true},
		"no pod is awaited any more": {func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil); w.recordRemaining(nil) }, true, false},
		"only a pod without a bundle is awaited": {
			func(w *Bundles, g []*v1.Pod) { w.recordAnswer(g[0], false, nil); w.recordRemaining(g[2:]) }, true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, some := (&Evictor{Options: Options{Victims: &Victims{}}}).Single(), pods("n0/g-0 n0/g-1 n0/x")
			w.BundleOf[some[0].UID], w.BundleOf[some[1].UID] = gangG, gangG
			test.then(w, some)
			require.Equal(t, test.broken, w.broken(some[1]))
			require.Equal(t, test.parted, w.anyPartlyEvicted())
			require.False(t, w.broken(some[2]))
			require.Equal(t, "g-0 g-1", namesOf(w.Among(some)))
		})
	}
}
