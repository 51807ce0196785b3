package elasticquota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Who waits is called when somebody may leave for him who might not before, or more of them; not for what he knows, nor for what goes away.
func TestGained(t *testing.T) {
	w := newWorld(t, nil)
	jobs := map[string]func(context.Context) error{}
	w.runs(jobs)
	var called []string
	w.Gained = func(waits map[string]*v1.Pod) { called = append(called, sorted(waits)...) }
	w.node("n1", "16", v1.ConditionTrue)
	w.declare(`a max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`)
	w.pod("nb/old", "", "n1", "12")
	g := w.group("na/g", "", 4)
	its := Named(g.Pods["na/g-0"])
	look := func(why string, want ...string) {
		t.Helper()
		called = nil
		if do := jobs["quotas: who may be evicted"]; do != nil {
			delete(jobs, "quotas: who may be evicted")
			require.NoError(t, do(t.Context()))
		}
		require.Equal(t, want, called, why)
	}
	choices, _ := w.Admit(g)
	require.Len(t, choices, 1, "the quotas have enough: it is nodes that refuse it")
	w.pod("nb/waits", "", "", "1") // something changes
	look("b has what it is entitled to")
	first, second := w.pod("nb/first", "", "n1", "1"), w.pod("nb/second", "", "n1", "1")
	look("b has too much", its)
	w.pod("nb/waits-too", "", "", "1")
	look("nothing new")
	w.dropPod(first)
	look("less of b may leave")
	w.dropPod(second)
	w.pod("nb/third", "", "n1", "1")
	look("as much, but of somebody else", its)
	w.pod("na/more", "", "", "2")
	look("b is entitled to less, since a asks for more", its)
	for _, p := range g.Pods {
		w.dropPod(p)
	}
	look("it has gone")
	require.Empty(t, w.revoke.waits)
	require.NotContains(t, jobs, "quotas: who may be evicted")
}

// Who may leave is looked for again when quotas are declared anew, also if the last one went while a look was due.
func TestGainedWhenQuotasComeBack(t *testing.T) {
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
	for _, name := range sorted(w.objects) {
		w.dropObject(w.objects[name].about, false)
	}
	require.NoError(t, jobs["the tree of quotas"](t.Context()))
	require.False(t, w.Active())
	require.NoError(t, jobs["quotas: who may be evicted"](t.Context()))
	require.Zero(t, called)
	clear(jobs)
	declare()
	w.Admit(g)
	w.pod("nb/more", "", "n1", "1")
	require.Contains(t, jobs, "quotas: who may be evicted")
	require.NoError(t, jobs["quotas: who may be evicted"](t.Context()))
	require.Equal(t, 1, called)
}

// looks runs what looks for who may leave, and returns who was called.
func (w *world) looks(jobs map[string]func(context.Context) error) (called []string) {
	w.Gained = func(waits map[string]*v1.Pod) { called = append(called, sorted(waits)...) }
	if do := jobs[looksForRights]; do != nil {
		delete(jobs, looksForRights)
		require.NoError(w.t, do(context.Background()))
	}
	return called
}

// newLooking is a world whose jobs in the background are run when a test says so.
func newLooking(t *testing.T) (*world, map[string]func(context.Context) error) {
	w, jobs := newWorld(t, nil), map[string]func(context.Context) error{}
	w.runs(jobs)
	return w, jobs
}

const looksForRights = "quotas: who may be evicted"

// A gang of which some run hears of it, too, whatever happens to those who run.
func TestGainedByWhoRunsInPart(t *testing.T) {
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
	runs.Status.Phase = v1.PodRunning // the kubelet says so
	w.setPod(runs)
	w.pod("nb/more", "", "n1", "2")
	require.Equal(t, []string{Named(runs)}, w.looks(jobs))
}

// Who needs less than all its members asks for something once that is known, and so others may be entitled to less.
func TestGainedByWhatOthersNeed(t *testing.T) {
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
	require.Equal(t, []string{Named(g.Pods["na/g-0"])}, w.looks(jobs))
}

// What was found before quotas were declared anew counts no more.
func TestGainedAnew(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "32", v1.ConditionTrue)
	declare := func() { w.declare(`a min=4 max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`) }
	declare()
	g := w.group("na/g", "", 4)
	w.Admit(g)
	old := w.pod("nb/old", "", "n1", "13")
	its := []string{Named(g.Pods["na/g-0"])}
	require.Equal(t, its, w.looks(jobs))
	for _, name := range sorted(w.objects) {
		w.dropObject(w.objects[name].about, false)
	}
	require.NoError(t, jobs["the tree of quotas"](t.Context()))
	require.NoError(t, w.pods.Delete(old))
	declare()
	w.Admit(g)
	w.setPod(old)
	require.Equal(t, its, w.looks(jobs))
}

// Who was tried while less might leave for him is tried again when it is as much as before.
func TestGainedSinceTried(t *testing.T) {
	w, jobs := newLooking(t)
	w.node("n1", "16", v1.ConditionTrue)
	w.declare(`a max=32 namespaces=["na"]`, `b max=32 namespaces=["nb"]`)
	g := w.group("na/g", "", 4)
	w.Admit(g)
	w.pod("nb/old", "", "n1", "12")
	w.pod("nb/job", "", "n1", "1")
	its := []string{Named(g.Pods["na/g-0"])}
	require.Equal(t, its, w.looks(jobs))
	w.Admit(g)
	require.Empty(t, w.looks(jobs))
	w.dropPod(w.pod("nb/job", "", "n1", "1"))
	w.Admit(g) // in vain: b has what it is entitled to
	w.pod("nb/job", "", "n1", "1")
	require.Equal(t, its, w.looks(jobs))
}

// A pod without a gang hears of what it gains by being of another quota.
func TestGainedInAnotherQuota(t *testing.T) {
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
	require.Equal(t, []string{Named(p)}, w.looks(jobs))
}

// What others have too much concerns those alone who may take it back.
func TestGainedByWhomItConcerns(t *testing.T) {
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
	require.Equal(t, []string{Named(g.Pods["na/g-0"])}, w.looks(jobs))
}

// Where many are called who ask for something else it is looked less often, so that others have their turn, and as often as before when few are.
func TestGainedByMany(t *testing.T) {
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
