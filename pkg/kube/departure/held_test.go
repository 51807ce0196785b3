package departure_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// The preemptor of a bundle is not placed from the first successful deletion until every deletion has succeeded.
func TestPreemptorIsHeldDuringBundleEviction(t *testing.T) {
	c := filled(t)
	p := c.Plugin.Preemptor
	big := a("big", 100, "8", "")
	var mu sync.Mutex
	asked, held := map[string]int{}, map[string]bool{} // by victim, at its last request
	fails := func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *v1.Pod, _ string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[victim.Name]++
		held[victim.Name] = p.Victims.Holds(big)
		if asked["r-1"] == 1 || victim.Name == "r-0" && asked["r-0"] < 3 { // at first all
			return false, apierrors.NewServiceUnavailable("soon")
		}
		return false, nil
	}
	victims := []*v1.Pod{c.Get("r-1"), c.Get("r-0")} // one writer asks them in this order
	p.Writers = 1
	p.LeaveFor(t.Context(), big, victims, fails)
	require.Equal(t, map[string]int{"r-1": 2, "r-0": 3}, asked)
	require.Equal(t, map[string]bool{"r-1": false, "r-0": true}, held)
	require.False(t, p.Victims.Holds(big), "all victims are deleted")
	require.False(t, p.Victims.Holds(a("other", 100, "8", "")))
	require.Zero(t, p.Victims.Held())
}
