package plugin_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// TestALostPlace is case 54 in a whole scheduler: of a NonStrict gang that needs all its four
// members one loses its place at the barrier. Once the others all hold theirs it gets another,
// nobody goes back, and the barrier opens.
func TestALostPlace(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8").Run()
	members := testcluster.Pending(4, 100, "4")
	testcluster.Held(members[3], "outside")
	c.GangWith(map[string]string{scheduling.AnnotationMode: string(scheduling.ModeNonStrict), scheduling.AnnotationTopologySpec: testcluster.InOneSpine}, "g", 4, members...)
	c.WaitHeld("g-0", "g-1", "g-2")
	waits := func(name string) fwk.WaitingPod { return c.Profile().GetWaitingPod(types.UID(name)) }
	waits("g-2").Reject("Holder", "somebody wants the place back")
	c.Wait("lost", func() string {
		if waits("g-2") == nil {
			return "lost"
		}
		return "held"
	})
	require.NotNil(t, waits("g-0"))
	require.NotNil(t, waits("g-1"))
	c.Edit("g-3", func(p *v1.Pod) { delete(p.Labels, "hold") })
	c.Wait("g-0=n0 g-1=n0 g-2=n2 g-3=n1", func() string { return c.Where("g-0", "g-1", "g-2", "g-3") })
	require.Empty(t, c.Said("ScheduleTimeout"))
}
