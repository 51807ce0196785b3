package departure_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// An earlier process began to evict gang low. Of two members low-0 is left on n1. A pod waits with n1 as its
// nominated node; only gangs may also use n3. The rest of low is evicted if every sign says that it was a victim, and
// stays otherwise.
func TestPartialEvictionIsResumedAfterRestart(t *testing.T) {
	const ours = "muster-scheduler: preempting to accommodate a higher priority gang"
	mark := func(is v1.ConditionStatus, reason, message string) v1.PodCondition {
		return v1.PodCondition{Type: v1.DisruptionTarget, Status: is, Reason: reason, Message: message}
	}
	marked := mark(v1.ConditionTrue, v1.PodReasonPreemptionByScheduler, ours)
	for name, test := range map[string]struct {
		mark      v1.PodCondition
		least     int    // of low
		nominated string // the nominated node of the waiting pod
		priority  int32  // of the waiting pod
		alone     bool   // the waiting pod has no gang
		other     bool   // low has another member, which is not marked
		evicted   string
		goes      string
	}{
		"it was evicted in part":   {marked, 2, "n1", 100, false, false, "low-0", "n1"},
		"for a pod without a gang": {marked, 2, "n1", 100, true, false, "low-0", "n1"},
		"it is not marked":         {v1.PodCondition{}, 2, "n1", 100, false, false, "", "n3"},
		"the mark was removed":     {mark(v1.ConditionFalse, v1.PodReasonPreemptionByScheduler, ours), 2, "n1", 100, false, false, "", "n3"},
		"another scheduler has marked it": {
			mark(v1.ConditionTrue, v1.PodReasonPreemptionByScheduler, "other: preempting"), 2, "n1", 100, false, false, "", "n3",
		},
		"another API has marked it": {
			mark(v1.ConditionTrue, "EvictionByEvictionAPI", ours), 2, "n1", 100, false, false, "", "n3",
		},
		"it has its minMember":                          {marked, 1, "n1", 100, false, false, "", "n3"},
		"no pod waits for its node":                     {marked, 2, "", 100, false, false, "", "n3"},
		"the waiting pod is less important":             {marked, 2, "n1", 1, false, false, "", "n3"},
		"not all of it were marked yet":                 {marked, 3, "n1", 100, false, true, "", "n3"},
		"the waiting pod is nominated for another node": {marked, 2, "n3", 100, false, false, "", "n3"},
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

// A gang group with an unmarked member is not partially evicted, although a gang of the group has too few members and
// none to mark.
func TestPartialEvictionOfGangGroupIsResumed(t *testing.T) {
	for name, test := range map[string]struct {
		all           bool // are marked
		unknown       bool // only labels of its members name the other gang
		evicted, goes string
	}{
		"one is not marked":                  {false, false, "", "n3"},
		"all are marked":                     {true, false, "low-0 low-1", "n1"},
		"all remaining members are marked":   {true, true, "low-0 low-1", "n1"},
		"one remaining member is not marked": {false, true, "", "n3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s/b/n1=8 s/b/n2=8 s/b/n3=8")
			group := map[string]string{"gang.scheduling.koordinator.sh/groups": `["default/low","default/empty"]`}
			low0, low1 := testcluster.A("", 10, "8", "n1"), testcluster.A("", 10, "8", "n2")
			for _, pod := range []*v1.Pod{low0, low1}[:map[bool]int{false: 1, true: 2}[test.all]] {
				pod.Status.Conditions = []v1.PodCondition{{
					Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
					Message: "muster-scheduler: preempting to accommodate a higher priority gang",
				}}
			}
			c.GangWith(group, "low", 2, low0, low1)
			if !test.unknown {
				c.GangWith(group, "empty", 1)
			}
			waits := testcluster.A("g-0", 100, "8", "")
			waits.Status.NominatedNodeName = "n1"
			c.Gang("g", 1, waits)
			c.Run()
			c.Wait("g-0="+test.goes, func() string { return c.Where("g-0") })
			require.Equal(t, test.evicted, c.Evicted(), c.Describe())
		})
	}
}

// An earlier process began to evict a sub-group of two. One member is left, on n4, and its gang runs on with another
// sub-group. The rest of the sub-group is evicted if it was marked.
func TestPartialEvictionOfSubGroupIsResumed(t *testing.T) {
	for name, test := range map[string]struct {
		marked        []int // members that are
		evicted, goes string
	}{
		"the rest is marked":                     {[]int{4}, "low-4", "n4"},
		"no pod is marked":                       {nil, "", "n5"},
		"another sub-group is marked, but whole": {[]int{2, 3}, "", "n5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8 s/b/n4=8 s/b/n5=8")
			var low []*v1.Pod
			for i := range 5 {
				pod := testcluster.A("", 10, "8", fmt.Sprint("n", i))
				pod.Labels = map[string]string{"app": "low", "part": fmt.Sprint(i / 2)}
				if slices.Contains(test.marked, i) {
					pod.Status.Conditions = []v1.PodCondition{{
						Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
						Message: "muster-scheduler: preempting to accommodate a higher priority gang",
					}}
				}
				low = append(low, pod)
			}
			c.VolcanoGang("low", map[string]any{"minMember": int64(2), "subGroupPolicy": []any{map[string]any{
				"name": "part", "subGroupSize": int64(2), "minSubGroups": int64(1),
				"labelSelector": map[string]any{"matchLabels": map[string]any{"app": "low"}}, "matchLabelKeys": []any{"part"},
			}}}, low...)
			waits := testcluster.A("g-0", 100, "8", "")
			waits.Status.NominatedNodeName = "n4"
			c.Gang("g", 1, waits)
			c.Run()
			c.Wait("g-0="+test.goes, func() string { return c.Where("g-0") })
			require.Equal(t, test.evicted, c.Evicted(), c.Describe())
		})
	}
}
