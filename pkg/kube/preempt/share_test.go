package preempt_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	policy "k8s.io/api/policy/v1"

	kubegroup "github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// A pod without a gang compares victims on as many nodes as DefaultPreemption's arguments say. All nodes are compared
// if these have no victims, or only against a disruption budget or with a long grace period.
func TestPodComparesVictimsOnAShareOfTheNodes(t *testing.T) {
	none := func(*testcluster.Cluster) {}
	for name, c := range map[string]struct {
		nodes   int32 // of four
		given   func(c *testcluster.Cluster)
		budgets []*policy.PodDisruptionBudget
		evicts  string
	}{
		"all":                   {4, func(c *testcluster.Cluster) { c.Pod(a("v0", 20, "4", "n0")) }, nil, "v3"},
		"one":                   {1, func(c *testcluster.Cluster) { c.Pod(a("v0", 20, "4", "n0")) }, nil, "v0"},
		"two, evenly spread":    {2, func(c *testcluster.Cluster) { c.Pod(a("v0", 20, "4", "n0")) }, nil, "v2"},
		"no pod may be evicted": {1, func(c *testcluster.Cluster) { c.Pod(a("v0", 200, "4", "n0")) }, nil, "v3"},
		"a budget is violated": {
			1, func(c *testcluster.Cluster) { c.Pod(app(a("v0", 1, "4", "n0"), "db")) }, []*policy.PodDisruptionBudget{budget("b", 0, "db")}, "v3",
		},
		"it may take a day":       {1, func(c *testcluster.Cluster) { c.Pod(slow(a("v0", 1, "4", "n0"))) }, nil, "v3"},
		"there is room elsewhere": {1, none, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := wanting(t, "s/b/n0=4 s/b/n1=4 s/b/n2=4 s/b/n3=4", 1, pending(1, 1, "4"), func(tc *testcluster.Cluster) {
				c.given(tc)
				tc.Pod(a("v1", 10, "4", "n1"))
				tc.Pod(a("v2", 9, "4", "n2"))
				tc.Pod(a("v3", 8, "4", "n3"))
			}, c.budgets...)
			s.Plugin.Preemptor.Compares = func(int32) (int32, int32) { return 0, c.nodes }
			pod := a("high", 100, "4", "")
			pod.Namespace, pod.UID = "default", "high"
			attempt := place.NewPlanner(s.Profile(), s.Plugin.Cache).NewAttempt(kubegroup.Alone(pod, ""), s.infos(), nil)
			_, _, err := attempt.Plan(t.Context())
			require.NoError(t, err)
			gone, _, verdict := s.Plugin.Preemptor.Asked(t.Context(), attempt)
			require.Equal(t, preempt.Evicts, verdict)
			slices.Sort(gone)
			require.Equal(t, c.evicts, strings.Join(gone, " "))
		})
	}
}
