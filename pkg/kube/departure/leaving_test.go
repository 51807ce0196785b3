package departure

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// looked is a node that notes when its pods are looked at.
type looked struct {
	fwk.NodeInfo
	at func()
}

func (n looked) GetPods() []fwk.PodInfo {
	n.at()
	return n.NodeInfo.GetPods()
}

// Listing the terminating pods of nodes does not hold the lock, so that other evictions can be recorded meanwhile.
func TestListingTerminatingPodsDoesNotHoldLock(t *testing.T) {
	v := &Victims{}
	v.recordReservation(gangG, pods("n0/x"))
	a := attempting(gangG, "n0/x n0/y", "n0")
	looks := 0
	a.Nodes[0] = looked{a.Nodes[0], func() {
		looks++
		require.True(t, v.mu.TryLock())
		v.mu.Unlock()
	}}
	require.True(t, v.Leaving(a, time.Unix(1000, 0)).Any())
	require.Positive(t, looks)
}

// Pods on nodes that are not reserved are listed again only if the node changed, or if a pod there terminates or was
// requested to.
func TestTerminatingPodsOnOtherNodes(t *testing.T) {
	now := time.Unix(1000, 0)
	v := &Victims{}
	var at []string
	watch := func(a *place.Attempt) {
		for i, n := range a.Nodes {
			a.Nodes[i] = looked{n, func() { at = append(at, n.Node().Name) }}
		}
	}
	elsewhere := func(a *place.Attempt) string {
		at = nil
		l := Terminating{own: make([][]*v1.Pod, len(a.Nodes))}
		l = v.addElsewhere(a, l, v.remembered(gangG, now))
		slices.Sort(at)
		return strings.Join([]string{
			strings.Join(slices.Compact(at), " "), namesOf(slices.Concat(l.own...)), namesOf(slices.Concat(l.everywhere...)),
		}, "|")
	}
	a := attempting(gangG, "n0/x n1/y n2/z!")
	watch(a)
	require.Equal(t, "n0 n1 n2||z!", elsewhere(a))
	require.Equal(t, "n2||z!", elsewhere(a))
	n := v.recordReservation(gangG, pods("n0/x"))
	v.recordReservation(gangH, pods("n1/y"))
	require.Equal(t, "n0 n1 n2|x|x y z!", elsewhere(a))
	delete(v.pending, "x")
	require.Equal(t, "n0 n1 n2|x|x y z!", elsewhere(a), "its eviction was requested, though it is not counted on")
	v.Spare(pods("n0/x"), n, now)
	v.Abandon(gangG)
	v.Abandon(gangH)
	require.Equal(t, "n2||z!", elsewhere(a))

	changed := attempting(gangG, "n1/w!")
	a.Nodes[1] = changed.Nodes[1]
	require.Equal(t, "n2||w! z!", elsewhere(a))
	a.Nodes[1] = attempting(gangG, "n1/y").Nodes[1]
	require.Equal(t, "n2||z!", elsewhere(a))

	a.Nodes = append(a.Nodes, attempting(gangG, "n0/v!").Nodes[0])
	require.Equal(t, "n0 n2||z! v!", elsewhere(a), "there are more nodes")
}
