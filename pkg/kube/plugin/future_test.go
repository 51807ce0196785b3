package plugin_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// The queue and the book learn of a pod from separate handlers. The queue may try a member whose gates the book has
// not seen removed, or that the book knows to be bound by another scheduler.
func TestQueueIsAheadOfBook(t *testing.T) {
	c := testcluster.New(t, "s/b/n-0=4 s/b/n-1=4 s/b/n-2=4")
	gated := testcluster.A("", 0, "4", "")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}}
	c.Gang("g", 2, testcluster.A("", 0, "4", "n-0"), testcluster.A("", 0, "4", "n-1"), gated)
	c.Run()
	tried := func(p *v1.Pod) string {
		nodes, err := c.Profile().SnapshotSharedLister().NodeInfos().List()
		require.NoError(t, err)
		_, s := c.Plugin.PreFilter(t.Context(), framework.NewCycleState(), p, nodes)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, s.Code())
		return s.Message()
	}
	let := c.Get("g-2").DeepCopy()
	let.Spec.SchedulingGates = nil
	c.Wait("it cannot be placed yet: spec.schedulingGates has quota", func() string { return tried(let) })
	unbound := c.Get("g-0").DeepCopy()
	unbound.Spec.NodeName = ""
	require.Equal(t, "it is bound to n-0", tried(unbound))
	older := c.Get("g-2").DeepCopy()
	older.UID = "older"
	require.Equal(t, "the pod was recreated during the scheduling cycle", tried(older))
	s, _ := c.Plugin.Permit(t.Context(), framework.NewCycleState(), older, "n-2")
	require.Equal(t, fwk.Unschedulable, s.Code(), "nothing would requeue it")

	c.Edit("g-2", func(p *v1.Pod) { p.Spec.SchedulingGates = nil })
	c.Wait("g-0=n-0 g-1=n-1 g-2=n-2", func() string { return c.Where("g-0", "g-1", "g-2") })
}

// TestMembersThatLeaveTheirGang: pods that were kept out for their gang are tried when
// they no longer name one.
func TestMembersThatLeaveTheirGang(t *testing.T) {
	c := testcluster.New(t, "s/b/n=8").Run()
	c.Gang("g", 3, testcluster.Of(2, func() *v1.Pod { return testcluster.A("", 0, "1", "") })...)
	c.Wait("kept out", func() string {
		if ok, why := c.Plugin.Cache.Admit(c.Get("g-0")); !ok && why == "2 of 3 members exist" {
			return "kept out"
		}
		return ""
	})
	for _, name := range []string{"g-0", "g-1"} {
		c.Edit(name, func(p *v1.Pod) { p.Labels = nil })
	}
	c.Wait("g-0=n g-1=n", func() string { return c.Where("g-0", "g-1") })
}
