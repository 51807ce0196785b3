package preempt_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// TestResume: a process before this one has begun to evict. Gang low had two members, of which
// low-0 is left on n1; somebody is nominated for n1, and n3 has room as well, but for pods without a
// gang. The rest of low leaves if all says that it was to leave, and stays if anything does not.
func TestResume(t *testing.T) {
	const ours = "muster-scheduler: preempting to accommodate a higher priority gang"
	mark := func(is v1.ConditionStatus, reason, message string) v1.PodCondition {
		return v1.PodCondition{Type: v1.DisruptionTarget, Status: is, Reason: reason, Message: message}
	}
	marked := mark(v1.ConditionTrue, v1.PodReasonPreemptionByScheduler, ours)
	for name, test := range map[string]struct {
		mark      v1.PodCondition
		least     int    // of low
		nominated string // who waits, for that node
		priority  int32  // its
		alone     bool   // it is no gang's
		other     bool   // low has another member, which is not marked
		evicted   string
		goes      string
	}{
		"it was evicted in part":         {marked, 2, "n1", 100, false, false, "low-0", "n1"},
		"for a pod without a gang":       {marked, 2, "n1", 100, true, false, "low-0", "n1"},
		"nobody said that it leaves":     {v1.PodCondition{}, 2, "n1", 100, false, false, "", "n3"},
		"that was taken back":            {mark(v1.ConditionFalse, v1.PodReasonPreemptionByScheduler, ours), 2, "n1", 100, false, false, "", "n3"},
		"another scheduler has said so":  {mark(v1.ConditionTrue, v1.PodReasonPreemptionByScheduler, "other: preempting"), 2, "n1", 100, false, false, "", "n3"},
		"somebody else has said so":      {mark(v1.ConditionTrue, "EvictionByEvictionAPI", ours), 2, "n1", 100, false, false, "", "n3"},
		"it has its minMember":           {marked, 1, "n1", 100, false, false, "", "n3"},
		"nobody waits for its node":      {marked, 2, "", 100, false, false, "", "n3"},
		"who waits is less important":    {marked, 2, "n1", 1, false, false, "", "n3"},
		"not all of it were marked yet":  {marked, 3, "n1", 100, false, true, "", "n3"},
		"who waits does for another one": {marked, 2, "n3", 100, false, false, "", "n3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := "s/b/n1=8 s/b/n3=8"
			if test.alone {
				nodes = "s/b/n1=8"
			}
			if test.other {
				nodes += " s/b/n2=8"
			}
			c := testcluster.New(t, nodes)
			low := testcluster.A("", 10, "8", "n1")
			if test.mark.Type != "" {
				low.Status.Conditions = []v1.PodCondition{test.mark}
			}
			members := []*v1.Pod{low}
			if test.other {
				members = append(members, testcluster.A("", 10, "8", "n2"))
			}
			c.Gang("low", test.least, members...)
			waits := testcluster.A("g-0", test.priority, "8", "")
			waits.Status.NominatedNodeName = test.nominated
			if test.alone {
				c.Pod(waits)
			} else {
				c.Gang("g", 1, waits)
			}
			c.Run()
			c.Wait("g-0="+test.goes, func() string { return c.Where("g-0") })
			require.Equal(t, test.evicted, c.Evicted(), c.Describe())
		})
	}
}
