package place_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// taint gives a node n PreferNoSchedule taints and no other taint.
func (w *world) taint(name string, taints ...string) {
	w.t.Helper()
	for _, n := range w.nodes() {
		if n.Node().Name != name {
			continue
		}
		other := n.Node().DeepCopy()
		other.Spec.Taints = nil
		for _, key := range taints {
			other.Spec.Taints = append(other.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectPreferNoSchedule})
		}
		w.scheduler.UpdateNode(klog.Background(), n.Node(), other)
	}
}

// nodeOf is where member 0 of a gang goes.
func (w *world) nodeOf(gangName string) string {
	w.t.Helper()
	found, refusal, err := w.attempt(gangName).Plan(w.t.Context())
	require.NoError(w.t, err)
	require.Nil(w.t, refusal)
	return found.Places[0].Node
}

// TestTaintCountsFromTheNextAttemptOn: also where nothing else about the nodes has changed since the last attempt.
func TestTaintCountsFromTheNextAttemptOn(t *testing.T) {
	w := newWorld(t, `
		node s1/b1/n1 4
		node s1/b1/n2 4
		gang a min=1
		pods a 1 cpu=3`)
	require.Equal(t, "n1", w.nodeOf("a"))
	w.taint("n1", "suspect")
	require.Equal(t, "n2", w.nodeOf("a"))
	w.taint("n2", "suspect", "slow")
	require.Equal(t, "n1", w.nodeOf("a"), "fewer taints")
	w.taint("n1")
	w.taint("n2")
	require.Equal(t, "n1", w.nodeOf("a"))
	w.taint("n1", "suspect")
	require.Equal(t, "n2", w.nodeOf("a"))
}

// failing is a Score plugin that fails whenever it is run.
type failing struct{}

func (failing) Name() string { return "Failing" }

func (failing) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return fwk.NewStatus(fwk.Error, "it was run")
}

func (failing) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, fwk.NewStatus(fwk.Error, "it was run")
}

func (failing) ScoreExtensions() fwk.ScoreExtensions { return nil }

// TestNoScorePluginRunsWithoutSoftPreferences: a cluster without any pays nothing for them.
func TestNoScorePluginRunsWithoutSoftPreferences(t *testing.T) {
	w := newWorld(t, `
		node s1/b1/n1 4
		node s1/b1/n2 4
		pod x cpu=1 on=n1 apart=y
		gang a min=1
		pods a 1 cpu=3`)
	w.planner = place.NewPlanner(newProfile(t, w.snapshot, w.nominated, failing{}), w.cache)
	require.Equal(t, "n1", w.nodeOf("a"))
	w.taint("n1", "suspect")
	_, _, err := w.attempt("a").Plan(t.Context())
	require.ErrorContains(t, err, "it was run")
}
