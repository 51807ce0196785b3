package departure_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// someone is a preemptor with a candidate node.
type someone struct{ *v1.Pod }

func (s someone) UID() types.UID               { return "someone" }
func (s someone) SchedulerName() string        { return "" }
func (s someone) Obj() runtime.Object          { return s.Pod }
func (s someone) Pods() map[string]*v1.Pod     { return nil }
func (s someone) Priority() int32              { return 100 }
func (s someone) Type() string                 { return "pod" }
func (s someone) Name() string                 { return "n0" }
func (s someone) Victims() *extenderv1.Victims { return nil }
func (s someone) NumPodGroupDisruptions() int  { return 0 }

// A victim that is not bound yet is requeued and not deleted.
func TestUnboundVictimIsNotDeleted(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
	c.Pod(a("single", 10, "1", "n0"))
	c.Run()
	c.Gang("g", 1, testcluster.Held(a("", 10, "1", ""), "inside"))
	c.Gang("h", 1, testcluster.Held(a("", 10, "1", ""), "outside"))
	c.Gang("k", 1, a("", 10, "1", "n1"))
	c.WaitHeld("g-0")
	c.Wait("seen", func() string {
		if c.Plugin.Cache.Pod("default/k-0") == nil || c.Plugin.Cache.Pod("default/h-0") == nil {
			return "not yet"
		}
		return "seen"
	})
	for name, test := range map[string]struct {
		victim  string
		deleted bool
	}{
		"a pod without a gang":             {"single", true},
		"a member that runs":               {"k-0", true},
		"one that waits at Permit":         {"g-0", false},
		"one that is in the queue already": {"h-0", false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			evict := c.Plugin.Preemptor.Gently(func(
				context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string,
			) (bool, error) {
				asked = true
				return false, nil
			})
			by := someone{a("by", 100, "1", "")}
			inMemory, err := evict(t.Context(), by, by, c.Get(test.victim), "test")
			require.NoError(t, err)
			require.Equal(t, test.deleted, asked)
			require.Equal(t, !test.deleted, inMemory)
		})
	}
	c.WaitSaid(1, "Pod/g-0 Normal Preempted: ")
	require.Empty(t, c.Said("Pod/h-0 Normal Preempted: "))
}
