package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// sharers are n members that share one claim.
func sharers(n int, requests ...resourceapi.DeviceRequest) (members []*v1.Pod, objects []runtime.Object) {
	name := "all"
	for i := range n {
		p := pod(fmt.Sprint("m-", i)).Req(map[v1.ResourceName]string{"cpu": "1m"}).Obj()
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		members, objects = append(members, p), append(objects, p)
	}
	return members, append(objects, deviceClass("gpu"), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "all"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	})
}

// joint has members go to nodes, by name, and says which devices their claim gets, and for how many it is reserved; or
// why somebody does not get them.
func (c *cluster) joint(beside, members []*v1.Pod, on ...string) string {
	nodes := c.nodes()
	var puts, others []fit.Put
	for i, m := range members {
		puts = append(puts, fit.Put{Pod: m, Node: nodes[on[i]]})
	}
	for _, m := range beside {
		others = append(others, fit.Put{Pod: m, Node: nodes["n"]})
	}
	pages, err := fit.Open(c.t.Context(), c.ledgers, []fit.Demand{{Pod: members[0], Members: len(members)}})
	require.NoError(c.t, err)
	claims, s := pages.Joint(c.t.Context(), others, puts)
	if !s.IsSuccess() {
		return s.Message()
	}
	says := ""
	for _, claim := range claims {
		for _, d := range claim.Status.Allocation.Devices.Results {
			says += d.Pool + "/" + d.Device + " "
		}
		says += fmt.Sprint("for ", len(claim.Status.ReservedFor))
	}
	return says
}

// TestJoint: what members have together is what all of their nodes reach, and what nobody else has.
func TestJoint(t *testing.T) {
	one := asks("gpu", "gpu", 1)
	other, objects := claimingAs("other", 1, one)
	members, more := sharers(2, one)
	c := newCluster(t, slices.Concat(objects, more, []runtime.Object{
		node("n"), node("m"), slice("n", "n", gpus(2)...), slice("m", "m", gpus(1)...),
	})...)
	require.Equal(t, "n/gpu-0 for 2", c.joint(nil, members, "n", "n"))
	require.Equal(t, "m/gpu-0 for 2", c.joint(nil, members, "m", "m"))
	require.Equal(t, "resourceclaim not available on the node", c.joint(nil, members, "n", "m"))
	require.Equal(t, "n/gpu-1 for 2", c.joint(other, members, "n", "n"), "gpu-0 is planned for somebody else")
	require.Empty(t, c.joint(nil, members[:1], "n"), "who has it alone allocates it in its own cycle")
	require.Empty(t, c.joint(nil, other, "n"))
}

// TestJointFar: devices that several nodes reach are taken before a node's own, so that members can go to several nodes.
func TestJointFar(t *testing.T) {
	members, objects := sharers(2, asks("gpu", "gpu", 1))
	c := newCluster(t, slices.Concat(objects, []runtime.Object{node("n"), node("m"), slice("a", "n", gpus(1)...), slice("far", "", gpus(1)...)})...)
	require.Equal(t, "far/gpu-0 for 2", c.joint(nil, members, "n", "m"))

	own, claims := claimingAs("m", 2, asks("gpu", "gpu", 1))
	for i, p := range members {
		p.Spec.ResourceClaims = append(own[i].Spec.ResourceClaims, v1.PodResourceClaim{Name: "too", ResourceClaimName: p.Spec.ResourceClaims[0].ResourceClaimName})
		p.Status.ResourceClaimStatuses = own[i].Status.ResourceClaimStatuses
	}
	c = newCluster(t, slices.Concat(objects, claims, []runtime.Object{
		node("n"), node("m"), slice("a", "n", gpus(1)...), slice("b", "m", gpus(1)...), slice("far", "", gpus(1)...),
	})...)
	require.Equal(t, "far/gpu-0 for 2", c.joint(nil, members, "n", "m"), "each has one of its node besides")
}

// TestJointMost: the API server takes 256 users of a claim.
func TestJointMost(t *testing.T) {
	members, objects := sharers(257, asks("gpu", "gpu", 1))
	c := newCluster(t, append(objects, node("n"), slice("n", "n", gpus(1)...))...)
	on := make([]string, len(members))
	for i := range on {
		on[i] = "n"
	}
	require.Equal(t, "resource claim ns/all is for 256 pods at the most", c.joint(nil, members, on...))
	require.Equal(t, "n/gpu-0 for 256", c.joint(nil, members[:256], on...))
}
