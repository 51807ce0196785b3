package plugin_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// TestEveryMemberReportsUnschedulable is case 58: each of four members of a gang on a full cluster is Unschedulable,
// with a message. No member is written again at 100 changes that do not help.
func TestEveryMemberReportsUnschedulable(t *testing.T) {
	t.Parallel()
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	for i := range 4 {
		c.Pod(testcluster.A(fmt.Sprint("old-", i), 1000, "8", fmt.Sprint("n", i)))
	}
	c.Run()
	c.Gang("g", 4, testcluster.Pending(4, 0, "8")...)
	c.Wait("Unschedulable Unschedulable Unschedulable Unschedulable", func() string {
		var reasons []string
		for i := range 4 {
			if _, is := podutil.GetPodCondition(&c.Get(fmt.Sprint("g-", i)).Status, v1.PodScheduled); is != nil {
				require.Contains(t, is.Message,
					"no candidate topology nodes can accommodate job, desiredOfferSlot: 4, topology topologyNode SpineLayer/s: 0")
				reasons = append(reasons, is.Reason)
			}
		}
		return strings.Join(reasons, " ")
	})
	var written atomic.Int32
	c.Answering(func(r testcluster.Request) error {
		if r.What == "status" && strings.HasPrefix(r.Pod, "g-") {
			written.Add(1)
		}
		return nil
	})
	m := meterOf(t, c)
	for i := range 50 {
		name := fmt.Sprint("little-", i)
		c.Pod(testcluster.A(name, 1000, "1", "n0"))
		c.Remove(name)
	}
	c.Never(func() bool { return written.Load() > 0 })
	require.Positive(t, m.value(`muster_wakeups_total{result="vain"}`), "it was tried again")
}
