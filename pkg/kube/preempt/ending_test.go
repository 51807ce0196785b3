package preempt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// ends is a cluster on which a gang of two runs that is as important as g, of which nobody may leave for that, and one pod that may. It
// loses its first member.
func ends(t *testing.T) *testcluster.Cluster {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	var end []*v1.Pod
	for i := range 2 {
		end = append(end, testcluster.A(fmt.Sprint("end-", i), 100, "8", fmt.Sprint("n", i)))
	}
	c.Gang("end", 2, end...)
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "PodGroup/g Warning Unschedulable")
	require.Empty(t, c.Evicted())
	c.Remove("end-0")
	c.WaitSaid(1, "a gang is ending")
	return c
}

// TestNobodyLeavesForAnEnd: of a gang that ends the first pod has gone, and with somebody's eviction that would be enough. The second one follows:
// nobody is evicted.
func TestNobodyLeavesForAnEnd(t *testing.T) {
	c := ends(t)
	c.Remove("end-1")
	c.Wait("g-0=n0 g-1=n1", func() string { return c.Where("g-0", "g-1") })
	require.Empty(t, c.Evicted())
}

// TestNoEnd: nobody follows. It is waited for a moment, and no longer.
func TestNoEnd(t *testing.T) {
	c := ends(t)
	c.Wait("low", c.Evicted)
	c.Wait("g-0=n0 g-1=n2", func() string { return c.Where("g-0", "g-1") })
}

// TestASpareOneIsNoEnd: a gang that has lost one, and needs no more than are left, does not end: nobody waits for that.
func TestASpareOneIsNoEnd(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	var runs []*v1.Pod
	for i := range 3 {
		runs = append(runs, testcluster.A(fmt.Sprint("runs-", i), 100, "8", fmt.Sprint("n", i)))
	}
	c.Gang("runs", 2, runs...)
	c.Pod(testcluster.A("low", 10, "8", "n3"))
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "PodGroup/g Warning Unschedulable")
	c.Remove("runs-0")
	c.Wait("g-0=n0 g-1=n3", func() string { return c.Where("g-0", "g-1") })
	require.Empty(t, c.Said("a gang is ending"))
}

// TestOwnSubGroupsAreNoEnd: a gang of one sub-group has lost a member, and another one waits. It does not wait for those of its own who run,
// though planners see them as a gang of another name.
func TestOwnSubGroupsAreNoEnd(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	member := func(cpus, node string) *v1.Pod {
		p := testcluster.A("", 100, cpus, node)
		p.Labels = map[string]string{"app": "g", "part": "0"}
		return p
	}
	c.VolcanoGang("g", map[string]any{"minMember": int64(2), "subGroupPolicy": []any{map[string]any{
		"name": "part", "subGroupSize": int64(2), "minSubGroups": int64(1),
		"labelSelector": map[string]any{"matchLabels": map[string]any{"app": "g"}}, "matchLabelKeys": []any{"part"},
	}}}, member("8", "n0"), member("4", "n1"), member("8", ""))
	c.Pod(testcluster.A("beside", 100, "4", "n1"))
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	c.WaitSaid(1, "minMember is reached")
	c.Remove("g-1")
	c.Wait("g-2=n2", func() string { return c.Where("g-2") })
	require.Equal(t, "low", c.Evicted())
	require.Empty(t, c.Said("a gang is ending"))
}

// TestTriesForAnEnd: a gang ends slowly, and who waits for it is tried at each pod that goes, and once a second besides: not once more for each time
// that it was tried before.
func TestTriesForAnEnd(t *testing.T) {
	const goes, every = 25, 100 * time.Millisecond
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8 s/b/n3=8")
	var end []*v1.Pod
	for i := range goes + 10 {
		end = append(end, testcluster.A(fmt.Sprint("end-", i), 100, "200m", fmt.Sprint("n", 1+i/18)))
	}
	c.Gang("end", len(end), end...)
	c.Pod(testcluster.A("high", 100, "8", "n0"))
	c.Pod(testcluster.A("low", 10, "8", "n3"))
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "PodGroup/g Warning Unschedulable")
	c.Remove("end-0")
	c.Remove("high")
	c.WaitSaid(1, "a gang is ending")
	before, began := c.Plugin.Preemptor.Searched(), time.Now()
	for i := range goes {
		time.Sleep(every)
		c.Remove(fmt.Sprint("end-", 1+i))
	}
	tries := (c.Plugin.Preemptor.Searched() - before) / 4 // nodes
	require.Empty(t, c.Evicted())
	require.LessOrEqual(t, tries, int64(goes+time.Since(began)/time.Second+3))
}

// TestOvertaken: who came later and needs less does not take the room of who waits for an end.
func TestOvertaken(t *testing.T) {
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8 s/b/n2=8")
	var end []*v1.Pod
	for i := range 2 {
		end = append(end, testcluster.A(fmt.Sprint("end-", i), 100, "8", fmt.Sprint("n", i)))
	}
	c.Gang("end", 2, end...)
	c.Pod(testcluster.A("low", 10, "8", "n2"))
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 100, "8")...)
	c.WaitSaid(1, "PodGroup/g Warning Unschedulable")
	later, never := testcluster.A("later", 100, "8", ""), v1.PreemptNever
	later.Spec.PreemptionPolicy = &never
	c.Pod(later)
	c.WaitSaid(1, "Pod/later Warning FailedScheduling")
	c.Remove("end-0")
	c.Within(6*time.Second, func() bool { return c.Where("g-0", "g-1") == "g-0=n0 g-1=n2" })
	require.Equal(t, "g-0=n0 g-1=n2", c.Where("g-0", "g-1"), c.Describe())
}
