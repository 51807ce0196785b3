package preempt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"
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

// TestLeavingHoldsNobodyUp: who goes through the pods of nodes to see who leaves does not keep others from noting who is to.
func TestLeavingHoldsNobodyUp(t *testing.T) {
	v := &Victims{}
	v.set(gangG, pods("n0/x"))
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
