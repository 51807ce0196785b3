package plugin

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestQueueIsAheadOfBook: the scheduler's queue and the book hear of a pod from handlers
// of their own. A member can be tried of which the book does not know yet that its gates
// are gone, or knows already that it was bound by somebody else.
func TestQueueIsAheadOfBook(t *testing.T) {
	c := newTestCluster(t, "s/b/n-0=4 s/b/n-1=4 s/b/n-2=4")
	gated := a("", 0, "4", "")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}}
	c.gang("g", 2, a("", 0, "4", "n-0"), a("", 0, "4", "n-1"), gated)
	c.run()
	tried := func(p *v1.Pod) string {
		nodes, err := c.plugin.handle.SnapshotSharedLister().NodeInfos().List()
		require.NoError(t, err)
		_, s := c.plugin.PreFilter(t.Context(), framework.NewCycleState(), p, nodes)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, s.Code())
		return s.Message()
	}
	let := c.get("g-2").DeepCopy()
	let.Spec.SchedulingGates, let.ResourceVersion = nil, "2"
	c.wait("it has scheduling gates or another scheduler, as far as is known by now", func() string { return tried(let) })
	unbound := c.get("g-0").DeepCopy()
	unbound.Spec.NodeName = ""
	require.Equal(t, "it is bound to n-0", tried(unbound))

	require.NoError(t, c.client.Tracker().Update(podsResource, let, "default"))
	c.wait("g-0=n-0 g-1=n-1 g-2=n-2", func() string { return c.where("g-0", "g-1", "g-2") })
}
