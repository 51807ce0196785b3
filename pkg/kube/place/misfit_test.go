package place_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// TestSees: a plan fills node n1 with four members, and n1 refuses one of them. The next plan
// will avoid n1 by itself if a pod of equal priority has arrived; members of the plan on n1
// will have returned by then.
func TestSees(t *testing.T) {
	for name, test := range map[string]struct {
		also string // in the cluster
		then func(w *world)
		sees bool
	}{
		"no pod was added":                  {},
		"a pod was added":                   {also: "pod x cpu=1 priority=1", then: func(w *world) { w.bind("x", "n1") }, sees: true},
		"a pod was added elsewhere":         {also: "pod x cpu=1 priority=1", then: func(w *world) { w.bind("x", "n2") }},
		"a more important pod is nominated": {also: "pod x cpu=1 priority=9 nominated=n1", sees: true},
		"a less important pod is nominated": {also: "pod x cpu=1 priority=1 nominated=n1"},
		"one of them has come": {then: func(w *world) {
			p := w.get("a-0").DeepCopy()
			p.Spec.NodeName = "n1"
			require.NoError(w.t, w.scheduler.AssumePod(klog.Background(), p))
		}},
		"one of them runs":          {then: func(w *world) { w.bind("a-0", "n1") }},
		"another member runs there": {also: "pods a 4-5 cpu=1 priority=5", then: func(w *world) { w.bind("a-4", "n1") }, sees: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "node s/b/n1 4\nnode s/b/n2 1\ngang a min=2\npods a 4 cpu=1 priority=5\n"+test.also)
			key := w.cache.GroupKey(w.get("a-0"))
			plan := gang.Planned{Group: key}
			for _, pod := range []string{"a-0", "a-1", "a-2", "a-3"} {
				plan.Places = append(plan.Places, gang.Assignment{Pod: "default/" + pod, Node: "n1"})
			}
			w.cache.Handle(plan)
			if test.then != nil {
				test.then(w)
			}
			w.nodes()
			group, refusal := w.cache.Group(w.get("a-0"))
			require.False(t, refusal.Exists())
			require.Equal(t, test.sees, w.planner.DetectsMisfit(t.Context(), group, "n1"))
			require.False(t, w.planner.DetectsMisfit(t.Context(), group, "n2"), "the plan has no member there")
			require.False(t, w.planner.DetectsMisfit(t.Context(), group, "n9"), "it is gone")
		})
	}
}
