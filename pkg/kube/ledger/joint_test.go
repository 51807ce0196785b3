package ledger_test

import (
	"fmt"
	"slices"
	"strings"
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

// joint has members go to nodes, by name, and says which devices their claim gets, and for how many it is reserved; or why a
// member does not get them.
func (c *cluster) joint(beside, members []*v1.Pod, on ...string) string {
	says, why := c.jointly(beside, members, on...)
	return why + says
}

func (c *cluster) jointly(beside, members []*v1.Pod, on ...string) (says, why string) {
	nodes := c.nodes()
	var puts, others []fit.Put
	for i, m := range members {
		puts = append(puts, fit.Put{Pod: m, Node: nodes[on[i]]})
	}
	for _, m := range beside {
		others = append(others, fit.Put{Pod: m, Node: nodes["n"]})
	}
	demand := []fit.Demand{{Pod: members[0], Members: len(members)}}
	if len(members) > 1 && members[0].Name[0] != members[1].Name[0] {
		demand = []fit.Demand{{Pod: members[0], Members: 1}, {Pod: members[1], Members: len(members) - 1}}
	}
	pages, err := fit.Open(c.t.Context(), c.ledgers, demand)
	require.NoError(c.t, err)
	claims, s := pages.SharedClaims(c.t.Context(), others, puts)
	if !s.IsSuccess() {
		return "", s.Message()
	}
	for _, claim := range claims {
		for _, d := range claim.Status.Allocation.Devices.Results {
			says += d.Pool + "/" + d.Device + " "
		}
		says += fmt.Sprint("for ", len(claim.Status.ReservedFor), " ")
	}
	return strings.TrimSpace(says), ""
}

// TestJoint: a joint claim gets devices that all members' nodes reach and that are free.
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
	require.Equal(t, "n/gpu-1 for 2", c.joint(other, members, "n", "n"), "gpu-0 is planned for another pod")
	require.Empty(t, c.joint(nil, members[:1], "n"), "its only user allocates it in its own cycle")
	require.Empty(t, c.joint(nil, other, "n"))
}

// TestJointFar: devices that several nodes reach are taken before a node's own, so that members can go to several nodes.
func TestJointFar(t *testing.T) {
	members, objects := sharers(2, asks("gpu", "gpu", 1))
	c := newCluster(t,
		slices.Concat(objects, []runtime.Object{node("n"), node("m"), slice("a", "n", gpus(1)...), slice("far", "", gpus(1)...)})...)
	require.Equal(t, "far/gpu-0 for 2", c.joint(nil, members, "n", "m"))

	own, claims := claimingAs("m", 2, asks("gpu", "gpu", 1))
	claims = slices.DeleteFunc(claims, func(o runtime.Object) bool { _, is := o.(*v1.Pod); return is }) // which are there
	for i, p := range members {
		p.Spec.ResourceClaims = append(own[i].Spec.ResourceClaims,
			v1.PodResourceClaim{Name: "too", ResourceClaimName: p.Spec.ResourceClaims[0].ResourceClaimName})
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

// TestAtOnce: what members of one node get only if all are asked for at once fits, and is written ahead for all of them; what
// they find one after the other is not.
func TestAtOnce(t *testing.T) {
	pickyAndAny := []resourceapi.DeviceRequest{asks("picky", "gpu", 1, kindIs("y")), asks("any", "gpu", 2)}
	picky, anyone := []resourceapi.DeviceRequest{asks("gpu", "gpu", 1, kindIs("y"))}, []resourceapi.DeviceRequest{asks("gpu", "gpu", 1)}
	for name, test := range map[string]struct {
		first, then []resourceapi.DeviceRequest // of one member, and of the rest
		devices     []resourceapi.Device
		fit         int
		gets        string
	}{
		"a claim for any device takes the needed one": {
			anyone, picky, []resourceapi.Device{typed("a", "y"), typed("b", "x")}, 2, "n/b for 1 n/a for 1",
		},
		"there is enough for both": {anyone, picky, []resourceapi.Device{typed("a", "x"), typed("b", "y")}, 2, ""},
		"alike, with two requests": {
			pickyAndAny, pickyAndAny,
			[]resourceapi.Device{typed("a", "y"), typed("b", "y"), typed("c", "x"), typed("d", "x"), typed("e", "x"), typed("f", "x")},
			2,
			"n/a n/c n/d for 1 n/b n/e n/f for 1",
		},
		"not even then": {anyone, picky, []resourceapi.Device{typed("a", "y"), typed("b", "x"), typed("c", "x")}, 2, "n/b for 1 n/a for 1"},
	} {
		t.Run(name, func(t *testing.T) {
			members, objects := claimingAs("a", 1, test.first...)
			rest, more := claimingAs("m", 2, test.then...)
			members = append(members, rest...)
			c := newCluster(t,
				slices.Concat(objects, more, []runtime.Object{node("n"), node("m"), deviceClass("gpu"), slice("n", "n", test.devices...)})...)
			_, why := c.jointly(nil, members, "n", "n", "n")
			require.Equal(t, "cannot allocate all claims", why)
			says, why := c.jointly(nil, members[:test.fit], "n", "n")
			require.Empty(t, why)
			require.Equal(t, test.gets, says)
		})
	}
}

// TestAtOnceUndone: members that had something else for the sake of one that has gone have again what they had.
func TestAtOnceUndone(t *testing.T) {
	anyone, objects := claimingAs("a", 1, asks("gpu", "gpu", 1))
	picky, more := claimingAs("m", 1, asks("gpu", "gpu", 1, kindIs("y")))
	c := newCluster(t,
		slices.Concat(objects, more, []runtime.Object{node("n"), deviceClass("gpu"), slice("n", "n", typed("a", "y"), typed("b", "x"))})...)
	n := c.nodes()["n"]
	for _, page := range c.open(anyone[0], picky[0]) {
		r := page.Rehearse()
		takes := func(p *v1.Pod) bool { return r.Take(t.Context(), p, n).IsSuccess() }
		require.True(t, takes(anyone[0]))
		for range 2 {
			require.True(t, takes(picky[0]))
			require.False(t, takes(picky[0]))
			r.Undo()
		}
		r.Undo()
		require.True(t, takes(picky[0]))
		require.True(t, takes(anyone[0]))
		require.False(t, takes(anyone[0]))
	}
}
