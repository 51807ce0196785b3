package simulate

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestNoMemberIsEvictedWhenTheReservationIsLost: a gang is to move. The API server rejects the evictions for a while, and a gang
// of higher priority takes reserved nodes meanwhile.
func TestNoMemberIsEvictedWhenTheReservationIsLost(t *testing.T) {
	const scenarios = "../../../test/scenarios/simulate/"
	load := func(files ...string) *Set {
		set := &Set{}
		for _, file := range files {
			text, err := os.ReadFile(scenarios + file)
			require.NoError(t, err)
			require.NoError(t, set.Add(file, text))
		}
		return set
	}
	first := `{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: first}, spec: {minMember: 2}}`
	for _, n := range []string{"0", "1"} {
		first += `
---
{apiVersion: v1, kind: Pod, metadata: {name: first-` + n + `, labels: {pod-group.scheduling.sigs.k8s.io: first}},
 spec: {schedulerName: muster-scheduler, priorityClassName: high, nodeSelector: {kubernetes.io/hostname: node-` + n + `},
  containers: [{name: c, image: i, resources: {requests: {cpu: 8}}}]}}`
	}
	config, err := os.ReadFile(scenarios + "repair-moves-the-gang/config.yaml")
	require.NoError(t, err)
	for name, taken := range map[string]bool{"a higher gang takes nodes": true, "none comes": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			rejected, bound := 0, false
			between := func(action clienttesting.Action, ask answer) (runtime.Object, error) {
				patch, isPatch := action.(clienttesting.PatchAction)
				switch {
				case action.GetSubresource() == "binding":
					bound = true
				case isPatch && !bound && rejected < 4 && strings.Contains(string(patch.GetPatch()), string(v1.DisruptionTarget)):
					rejected++
					return nil, apierrors.NewServiceUnavailable("test")
				}
				return ask()
			}
			later := []*Set{load("repair-moves-the-gang/lost.yaml"), load("repair-moves-the-gang/replacement.yaml")}
			w, err := Open(ctx, Options{Config: config, intercept: between}, load("../../fixtures/clusternetworktopology.yaml",
				"../../fixtures/example-nodes.yaml", "priorities.yaml", "repair-moves-the-gang/in.yaml"))
			require.NoError(t, err)
			defer w.Close()
			for _, set := range later {
				require.NoError(t, w.Settle(ctx, nil))
				pods, err := w.cluster.apply(set)
				require.NoError(t, err)
				require.NoError(t, w.addPods(ctx, pods))
			}
			require.NoError(t, w.Settle(ctx, func() bool { return rejected > 0 }))
			require.Empty(t, w.Result().Evicted, "the nodes are reserved, and no member is evicted yet")
			if taken {
				pods, err := w.cluster.apply(setOf(t, first))
				require.NoError(t, err)
				require.NoError(t, w.addPods(ctx, pods))
			}
			require.NoError(t, w.Settle(ctx, nil))
			require.Equal(t, map[bool]int{true: 0, false: 3}[taken], len(w.Result().Evicted))
			require.Equal(t, taken, bound)
		})
	}
}
