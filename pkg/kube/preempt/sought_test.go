package preempt_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// A pod that members must be near terminates on another node. The reservation does not end, because its own victim
// may be gone earlier.
func TestReservationSurvivesTerminationOfNearPod(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=4 s/c/n1=4 s/d/n2=4")
	c.Stay()
	c.Pod(a("x", 10, "4", "n1"))
	c.Pod(app(a("data", 200, "4", "n2"), "data"))
	wants := want(2, "4", func(p *v1.Pod) *v1.Pod { return near("data", "spine", p) })
	c.GangWith(map[string]string{scheduling.AnnotationTopologySpec: testcluster.InOneSpine}, "want", 2, wants...)
	c.Run()
	c.Wait("want-0>n0 want-1>n1", func() string { return c.Where("want-0", "want-1") })
	c.Wait("x", c.Evicted)
	c.Edit("data", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time} })
	for i := range 3 { // each new node makes the scheduler check the waiting gang
		c.Node(fmt.Sprintf("s/d/more%d=1", i))
		c.Never(func() bool { return len(c.Said("given up")) > 0 })
	}
	c.Release()
	c.Wait("want-0=n0 want-1=n1", func() string { return c.Where("want-0", "want-1") })
	require.Equal(t, "x", c.Evicted())
}
