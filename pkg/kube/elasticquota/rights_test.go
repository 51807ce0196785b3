package elasticquota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A waiting gang is retried when its eligible victims grow, but not for victims it has seen, and not when victims disappear.
func TestGangIsRetriedWhenVictimsGrow(t *testing.T) {
	w := newWorld(t, nil)
	jobs := map[string]func(context.Context) error{}
	w.runs(jobs)
	var called []string
	w.Gained = func(waits map[string]*v1.Pod) { called = append(called, sortedKeys(waits)...) }
	w.node("n1", "16", v1.ConditionTrue)
	w.declare(`a max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`)
	w.pod("nb/old", "", "n1", "12")
	g := w.group("na/g", "", 4)
	its := GangName(g.Pods["na/g-0"])
	look := func(why string, want ...string) {
		t.Helper()
		called = nil
		if do := jobs["quotas: eligible victims"]; do != nil {
			delete(jobs, "quotas: eligible victims")
			require.NoError(t, do(t.Context()))
		}
		require.Equal(t, want, called, why)
	}
	choices, _ := w.Admit(g)
	require.Len(t, choices, 1, "the quotas have enough: it is nodes that refuse it")
	w.pod("nb/waits", "", "", "1") // a change
	look("b has what it is entitled to")
	first, second := w.pod("nb/first", "", "n1", "1"), w.pod("nb/second", "", "n1", "1")
	look("b has too much", its)
	w.pod("nb/waits-too", "", "", "1")
	look("nothing new")
	w.dropPod(first)
	look("less of b may leave")
	w.dropPod(second)
	w.pod("nb/third", "", "n1", "1")
	look("as much, but of another pod", its)
	w.pod("na/more", "", "", "2")
	look("b is entitled to less, since a asks for more", its)
	for _, p := range g.Pods {
		w.dropPod(p)
	}
	look("it has gone")
	require.Empty(t, w.revoke.waiting)
	require.NotContains(t, jobs, "quotas: eligible victims")
}

// Eligible victims are checked again when quotas are declared again, also if the last quota was deleted while a check was scheduled.
func TestGangIsRetriedWhenQuotasAreDeclaredAgain(t *testing.T) {
	w := newWorld(t, nil)
	jobs := map[string]func(context.Context) error{}
	w.runs(jobs)
	called := 0
	w.Gained = func(map[string]*v1.Pod) { called++ }
	w.node("n1", "16", v1.ConditionTrue)
	declare := func() { w.declare(`a max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`) }
	declare()
	g := w.group("na/g", "", 4)
	w.Admit(g)
	w.pod("nb/old", "", "n1", "12")
	for _, name := range sortedKeys(w.objects) {
		w.dropObject(w.objects[name].raw, false)
	}
	require.NoError(t, jobs["the tree of quotas"](t.Context()))
	require.False(t, w.Active())
	require.NoError(t, jobs["quotas: eligible victims"](t.Context()))
	require.Zero(t, called)
	clear(jobs)
	declare()
	w.Admit(g)
	w.pod("nb/more", "", "n1", "1")
	require.Contains(t, jobs, "quotas: eligible victims")
	require.NoError(t, jobs["quotas: eligible victims"](t.Context()))
	require.Equal(t, 1, called)
}

// looks runs the scheduled check, and returns the gangs to retry.
func (w *world) looks(jobs map[string]func(context.Context) error) (called []string) {
	w.Gained = func(waits map[string]*v1.Pod) { called = append(called, sortedKeys(waits)...) }
	if do := jobs[looksForRights]; do != nil {
		delete(jobs, looksForRights)
		require.NoError(w.t, do(context.Background()))
	}
	return called
}

// newLooking is a world with background jobs that a test runs.
func newLooking(t *testing.T) (*world, map[string]func(context.Context) error) {
	w, jobs := newWorld(t, nil), map[string]func(context.Context) error{}
	w.runs(jobs)
	return w, jobs
}

const looksForRights = "quotas: eligible victims"

// A gang with some running members is retried, too, whatever happens to the running ones.
func TestPartlyRunningGangIsRetriedWhenVictimsGrow(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "16", v1.ConditionTrue)
	w.declare(`a max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`)
	g := w.group("na/g", "", 4)
	runs := g.Pods["na/g-0"].DeepCopy()
	runs.Spec.NodeName = "n1"
	w.setPod(runs)
	w.pod("nb/old", "", "n1", "11")
	g.Pending = g.Pending[1:]
	w.Admit(g)
	w.looks(jobs)
	runs = runs.DeepCopy()
	runs.Status.Phase = v1.PodRunning // as the kubelet reports
	w.setPod(runs)
	w.pod("nb/more", "", "n1", "2")
	require.Equal(t, []string{GangName(runs)}, w.looks(jobs))
}

// A gang that needs fewer than all members requests something once that is known, which lowers other fair shares.
func TestGangIsRetriedWhenAnotherGangNeedsLess(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "12", v1.ConditionTrue)
	w.declare(`a max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`, `c max=3 namespaces=["nc"]`)
	w.pod("nb/old", "", "n1", "10")
	g, some := w.group("na/g", "", 2), w.group("nc/some", "", 4)
	w.Admit(g)
	w.looks(jobs)
	some.Gangs[0].Min, some.Gangs[0].Need = 2, 2
	w.Admit(some)
	require.Contains(t, jobs, looksForRights)
	require.Equal(t, []string{GangName(g.Pods["na/g-0"])}, w.looks(jobs))
}

// A check before quotas were declared again does not count.
func TestVictimCheckBeforeNewQuotasDoesNotCount(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "32", v1.ConditionTrue)
	declare := func() { w.declare(`a min=4 max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`) }
	declare()
	g := w.group("na/g", "", 4)
	w.Admit(g)
	old := w.pod("nb/old", "", "n1", "13")
	its := []string{GangName(g.Pods["na/g-0"])}
	require.Equal(t, its, w.looks(jobs))
	for _, name := range sortedKeys(w.objects) {
		w.dropObject(w.objects[name].raw, false)
	}
	require.NoError(t, jobs["the tree of quotas"](t.Context()))
	require.NoError(t, w.pods.Delete(old))
	declare()
	w.Admit(g)
	w.setPod(old)
	require.Equal(t, its, w.looks(jobs))
}

// A gang that was tried while fewer pods were eligible is retried when the earlier ones are eligible again.
func TestGangIsRetriedWhenVictimsReturn(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "16", v1.ConditionTrue)
	w.declare(`a max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`)
	g := w.group("na/g", "", 4)
	w.Admit(g)
	w.pod("nb/old", "", "n1", "12")
	w.pod("nb/job", "", "n1", "1")
	its := []string{GangName(g.Pods["na/g-0"])}
	require.Equal(t, its, w.looks(jobs))
	w.Admit(g)
	require.Empty(t, w.looks(jobs))
	w.dropPod(w.pod("nb/job", "", "n1", "1"))
	w.Admit(g) // in vain: b is within its fair share
	w.pod("nb/job", "", "n1", "1")
	require.Equal(t, its, w.looks(jobs))
}

// A pod without a gang is retried for victims that it gains with another quota.
func TestPodIsRetriedWhenItChangesQuota(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "16", v1.ConditionTrue)
	w.declare(`a max=2 namespaces=["na"]`, `b max=32 namespaces=["nb"]`, `c max=32`)
	w.pod("nb/old", "", "n1", "15")
	p := w.pod("na/p", "", "", "4")
	why := w.admitPod(p)
	require.NotEmpty(t, why)
	require.Empty(t, w.looks(jobs))
	w.declare(`a max=2`, `b max=32 namespaces=["nb"]`, `c max=32 namespaces=["na"]`)
	require.NoError(t, jobs["the tree of quotas"](t.Context()))
	require.Equal(t, []string{GangName(p)}, w.looks(jobs))
}

// Borrowed capacity concerns only the gangs that may take it back.
func TestOnlyGangsWithNewVictimsAreRetried(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "32", v1.ConditionTrue)
	w.declare(`p max=64 is-parent=true`, `a max=32 parent=p namespaces=["na"]`, `b max=32 parent=p namespaces=["nb"]`,
		`q max=64 is-parent=true`, `c max=32 parent=q namespaces=["nc"]`, `d max=32 parent=q namespaces=["nd"]`)
	g, h := w.group("na/g", "", 4), w.group("nc/h", "", 4)
	w.Admit(g)
	w.Admit(h)
	w.pod("nb/old", "", "n1", "14")
	w.pod("nd/old", "", "n1", "14")
	require.Len(t, w.looks(jobs), 2)
	w.pod("nb/more", "", "n1", "1")
	require.Equal(t, []string{GangName(g.Pods["na/g-0"])}, w.looks(jobs))
}

// With many different retries the checks become rarer, and frequent again when there are few.
func TestManyRetriesMakeVictimChecksRarer(t *testing.T) {
	w, jobs := newLooking(t)
	var after time.Duration
	write := w.Write
	w.Write = func(key string, later time.Duration, do func(context.Context) error) {
		if key == looksForRights {
			after = later
		}
		write(key, later, do)
	}
	w.settle = time.Second
	w.node("n1", "1000", v1.ConditionTrue)
	w.declare(`a max=1000 namespaces=["na"]`, `b max=1000 namespaces=["nb"]`)
	w.pod("nb/old", "", "n1", "990")
	for i := range 250 {
		w.admitPod(w.pod(fmt.Sprint("na/p-", i), "", "", fmt.Sprint(1+i)))
	}
	require.Equal(t, time.Second, after)
	require.Len(t, w.looks(jobs), 250)
	w.pod("na/more", "", "", "1")
	require.Equal(t, 3*time.Second, after)
	require.Empty(t, w.looks(jobs))
	w.pod("na/again", "", "", "1")
	require.Equal(t, time.Second, after)
}
