package elasticquota

import (
	"context"
	"testing"

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
