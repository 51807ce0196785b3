package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// openClaims is a world of a class and a template for one device, and what a text adds.
func openClaims(t *testing.T, o Options, text ...string) *shared {
	base := "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}\n---\n{apiVersion: resource.k8s.io/v1, " +
		"kind: ResourceClaimTemplate, metadata: {name: any}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, " +
		"count: 1}}]}}}}\n"
	return openWith(t, o, setOf(t, base+strings.Join(text, "")))
}

// gpuNode is a node with so many devices and CPUs.
func gpuNode(name string, gpus, cpu int) string {
	var devices []string
	for i := range gpus {
		devices = append(devices, fmt.Sprintf("{name: gpu-%d}", i))
	}
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {allocatable: {cpu: %d, pods: 20}}}\n", name, cpu) +
		fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s}, spec: {driver: d, nodeName: %s, pool: "+
			"{name: %s, generation: 1, resourceSliceCount: 1}, devices: [%s]}}\n", name, name, name, strings.Join(devices, ", "))
}

func gangOf(name string, least int) string {
	return fmt.Sprintf("---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s}, spec: {minMember: %d}}\n",
		name, least)
}

func claimFor(name string) string {
	return fmt.Sprintf("---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s, uid: %s}, spec: {devices: "+
		"{requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]}}}\n", name, name)
}

// user is a pod with claims, each "claim" or "template/".
func user(name, gang string, more string, claims ...string) string {
	var refs []string
	for i, c := range claims {
		template, is := strings.CutSuffix(c, "/")
		if is {
			refs = append(refs, fmt.Sprintf("{name: c%d, resourceClaimTemplateName: %s}", i, template))
		} else {
			refs = append(refs, fmt.Sprintf("{name: c%d, resourceClaimName: %s}", i, c))
		}
	}
	labels := ""
	if gang != "" {
		labels = "pod-group.scheduling.sigs.k8s.io: " + gang
	}
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {%s}}, spec: {schedulerName: muster-scheduler, %s "+
		"containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}], resourceClaims: [%s]}}\n", name, labels, more, strings.Join(refs,
		", "))
}

// says is where pods are, and what claims have for how many.
func (s *shared) says() string {
	var out []string
	for _, p := range s.Pods() {
		out = append(out, p.Name+"="+p.Spec.NodeName)
	}
	all, _ := s.cluster.list(resourceClaims, "", nil)
	for _, o := range all {
		c := o.(*resourceapi.ResourceClaim)
		has := "nothing"
		if c.Status.Allocation != nil {
			d := c.Status.Allocation.Devices.Results[0]
			has = d.Pool + "/" + d.Device
		}
		out = append(out, fmt.Sprintf("%s:%s for %d", c.Name, has, len(c.Status.ReservedFor)))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *shared) ends(want string) {
	s.t.Helper()
	require.NoError(s.t, s.Settle(s.ctx, nil))
	require.Equal(s.t, want, s.says())
}

// comes has objects come.
func (s *shared) comes(text string) {
	come, err := s.cluster.apply(setOf(s.t, text))
	require.NoError(s.t, err)
	require.NoError(s.t, s.addPods(s.ctx, come))
}

func isBinding(a clienttesting.Action) bool {
	return a.GetVerb() == "create" && a.GetSubresource() == "binding"
}

func isStatusOfClaim(a clienttesting.Action) bool {
	return a.GetVerb() == "update" && a.GetResource().Resource == "resourceclaims" && a.GetSubresource() == "status"
}

var unavailableNow = apierrors.NewServiceUnavailable("not now")

// TestLastUserGoes: one of the members that share a claim was bound when the scheduler was killed, and the
// others do not fit any more. When the bound member is deleted, the claim is free.
func TestLastUserGoes(t *testing.T) {
	bound := ""
	var killed atomic.Bool
	s := openShared(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
		if killed.Load() {
			return nil, errKilled
		}
		o, err := ask()
		if c, ok := action.(clienttesting.CreateAction); ok && isBinding(action) && bound == "" {
			bound = c.GetObject().(*v1.Binding).Name
			killed.Store(true)
		}
		return o, err
	}})
	require.NoError(t, s.Settle(s.ctx, killed.Load))
	s.restarts(func() { killed.Store(false); s.cordon("n0") })
	s.ends(strings.Replace("g-0= g-1= g-2= one:n0/gpu for 1", bound+"=", bound+"=n0", 1))
	s.deletes(bound)
	s.ends(strings.Replace("g-0= g-1= g-2= one:nothing for 0", bound+"= ", "", 1))
}

// cordon has a node take no pods.
func (s *shared) cordon(node string) {
	_, err := s.cluster.change(nodes, key{"", node}, func(old runtime.Object) (runtime.Object, error) {
		n := old.DeepCopyObject().(*v1.Node)
		n.Spec.Unschedulable = true
		return n, nil
	})
	require.NoError(s.t, err)
}

// TestLateWrite: the answer to a request that writes a claim is lost, and the request is carried out after
// the scheduler has read the claim.
func TestLateWrite(t *testing.T) {
	var late answer
	s := openShared(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
		if isStatusOfClaim(action) && late == nil {
			late = ask
			return nil, apierrors.NewTimeoutError("late", 1)
		}
		return ask()
	}})
	require.NoError(t, s.Settle(s.ctx, func() bool { return late != nil }))
	require.NoError(t, s.cluster.delete(sigs.PodGroups, key{"default", "g"}, metav1.DeleteOptions{}))
	require.NoError(t, s.Settle(s.ctx, nil))
	_, err := late()
	require.True(t, apierrors.IsConflict(err), err)
	s.settled("g-0= g-1= g-2= allocated false for 0")
}

// TestPodGroupGoes: when devices are written ahead the PodGroup is deleted.
func TestPodGroupGoes(t *testing.T) {
	deleted := func(s *shared) {
		require.NoError(t, s.cluster.delete(sigs.PodGroups, key{"default", "g"}, metav1.DeleteOptions{}))
	}
	t.Run("alive", func(t *testing.T) {
		s := openShared(t, Options{})
		s.written()
		deleted(s)
		s.settled("g-0= g-1= g-2= allocated false for 0")
		s.comes(gangOf("g", 3))
		s.settled(allTogether)
	})
	t.Run("killed", func(t *testing.T) {
		s := openShared(t, Options{})
		s.written()
		s.restarts(func() { deleted(s) })
		s.settled("g-0= g-1= g-2= allocated false for 0")
		s.comes(gangOf("g", 3))
		s.settled(allTogether)
	})
}

// TestClaimIsMadeAgain: when devices are written ahead the claim is deleted, and made again.
func TestClaimIsMadeAgain(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			s := openShared(t, Options{})
			s.written()
			gone := func() {
				require.NoError(t, s.cluster.delete(resourceClaims, key{"default", "one"}, metav1.DeleteOptions{}))
			}
			if killed {
				s.restarts(gone)
			} else {
				gone()
			}
			require.NoError(t, s.Settle(s.ctx, nil))
			require.Equal(t, "g-0= g-1= g-2=", s.says())
			s.comes(strings.Replace(claimFor("one"), "uid: one", "uid: another", 1))
			s.settled(allTogether)
		})
	}
}

// TestClaimIsBeingDeleted: as above, and its finalizer holds it until it is deallocated.
func TestClaimIsBeingDeleted(t *testing.T) {
	s := openShared(t, Options{})
	s.written()
	s.edit(func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: s.Now()} })
	require.NoError(t, s.Settle(s.ctx, nil))
	require.Equal(t, "g-0= g-1= g-2= one:nothing for 0", s.says())
	require.NoError(t, s.cluster.delete(resourceClaims, key{"default", "one"}, metav1.DeleteOptions{}))
	s.comes(strings.Replace(claimFor("one"), "uid: one", "uid: another", 1))
	s.settled(allTogether)
}

// TestClaimWithFewReservationsLeft: a claim that another client allocated has one or more reservations less
// than its limit.
func TestClaimWithFewReservationsLeft(t *testing.T) {
	for left, want := range map[int]string{2: "g-0= g-1= g-2=", 3: "g-0=n0 g-1=n0 g-2=n0"} {
		text := claimFor("one") + gangOf("g", 3) + gpuNode("n0", 1, 8) + gpuNode("n1", 1, 8)
		for i := range 3 {
			text += user(fmt.Sprint("g-", i), "g", "", "one")
		}
		quietLogs(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		set := setOf(t, "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}\n"+text)
		for _, o := range set.objects {
			if c, ok := o.Object.(*resourceapi.ResourceClaim); ok {
				c.Status.Allocation = &resourceapi.AllocationResult{
					AllocationTimestamp: new(metav1.Now()),
					Devices: resourceapi.DeviceAllocationResult{
						Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "d", Pool: "n0", Device: "gpu-0"}},
					},
					NodeSelector: &v1.NodeSelector{
						NodeSelectorTerms: []v1.NodeSelectorTerm{
							{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n0"}}}},
						},
					},
				}
				for i := range resourceapi.ResourceClaimReservedForMaxSize - left {
					c.Status.ReservedFor = append(c.Status.ReservedFor,
						resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: fmt.Sprint("x", i), UID: types.UID(fmt.Sprint("x", i))})
				}
			}
		}
		w, err := Open(ctx, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
			if u, ok := action.(clienttesting.UpdateAction); ok && isStatusOfClaim(action) {
				if c := u.GetObject().(*resourceapi.ResourceClaim); len(c.Status.ReservedFor) > resourceapi.ResourceClaimReservedForMaxSize {
					return nil, apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), c.Name, nil)
				}
			}
			return ask()
		}}, set)
		require.NoError(t, err)
		s := &shared{w, t, ctx}
		require.NoError(t, s.Settle(s.ctx, nil))
		var where []string
		for _, p := range s.Pods() {
			where = append(where, p.Name+"="+p.Spec.NodeName)
		}
		require.Equal(t, want, strings.Join(where, " "), left)
		w.Close()
	}
}

// TestChainOfClaims: members share claims in a chain.
func TestChainOfClaims(t *testing.T) {
	text := []string{
		gpuNode("n0", 1, 8), gpuNode("n1", 2, 8), claimFor("a"), claimFor("b"), gangOf("g", 3), user("g-0", "g", "", "a"),
		user("g-1", "g", "", "a", "b"), user("g-2", "g", "", "b"),
	}
	s := openClaims(t, Options{}, text...)
	s.ends("a:n1/gpu-0 for 2 b:n1/gpu-1 for 2 g-0=n1 g-1=n1 g-2=n1")
	t.Run("the second is not written at first", func(t *testing.T) {
		s.Close()
		times := 0
		s := openClaims(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
			if u, ok := action.(clienttesting.UpdateAction); ok && isStatusOfClaim(action) &&
				u.GetObject().(*resourceapi.ResourceClaim).Name == "b" && times < 3 {
				times++
				return nil, unavailableNow
			}
			return ask()
		}}, text...)
		s.ends("a:n1/gpu-0 for 2 b:n1/gpu-1 for 2 g-0=n1 g-1=n1 g-2=n1")
		require.Equal(t, 3, times)
	})
}

// TestAllocatedMeanwhile: while a plan is made another client allocates the claim, elsewhere.
func TestAllocatedMeanwhile(t *testing.T) {
	var s *shared
	done := false
	s = openShared(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
		if isStatusOfClaim(action) && !done {
			done = true
			s.edit(func(c *resourceapi.ResourceClaim) {
				c.Status.Allocation = &resourceapi.AllocationResult{
					AllocationTimestamp: new(metav1.Now()),
					Devices: resourceapi.DeviceAllocationResult{
						Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "d", Pool: "n1", Device: "gpu"}},
					},
					NodeSelector: &v1.NodeSelector{
						NodeSelectorTerms: []v1.NodeSelectorTerm{
							{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}},
						},
					},
				}
			})
		}
		return ask()
	}})
	s.settled("g-0=n1 g-1=n1 g-2=n1 allocated true for 3")
}

// TestBindingFails: members' own cycles have written their claims, and then their bindings fail. One member,
// or the node, is deleted. The waiting members release everything, and the gang starts on another node.
func TestBindingFails(t *testing.T) {
	for name, lost := range map[string]func(clienttesting.Action) bool{
		"the binding is refused": isBinding, "the answer to the claim is lost": isStatusOfClaim,
	} {
		for then, meanwhile := range map[string]func(*shared){
			"g-0-c0:nothing for 0 g-0=":                                 func(s *shared) { s.deletes("g-1") },
			"g-0-c0:n1/gpu-0 for 1 g-0=n1 g-1-c0:n1/gpu-1 for 1 g-1=n1": func(s *shared) { s.cordon("n0") },
		} {
			t.Run(name, func(t *testing.T) {
				var s *shared
				failed := 0
				s = openClaims(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
					if !lost(action) || failed == 2 {
						return ask()
					}
					if !isBinding(action) {
						_, _ = ask()
					}
					if failed++; failed == 2 {
						meanwhile(s)
					}
					return nil, apierrors.NewTimeoutError("lost", 1)
				}}, gpuNode("n0", 2, 8), gpuNode("n1", 2, 8), gangOf("g", 2), user("g-0", "g", "", "any/"), user("g-1", "g", "", "any/"))
				s.ends(then)
			})
		}
	}
}

// TestNeverBound: a gang of which no member can be bound does not keep a device for ever from one that can.
func TestNeverBound(t *testing.T) {
	for _, kind := range []string{"one", "any/"} {
		for _, p := range []int{0, 5, 9} {
			t.Run(fmt.Sprint(kind, p), func(t *testing.T) {
				s := openClaims(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
					if c, ok := action.(clienttesting.CreateAction); ok && isBinding(action) && strings.HasPrefix(c.GetObject().(*v1.Binding).Name, "g-") {
						return nil, apierrors.NewForbidden(pods.GroupResource(), "g", fmt.Errorf("never"))
					}
					return ask()
				}}, gpuNode("n0", 2, 8), claimFor("one"), claimFor("two"), gangOf("g", 2),
					user("g-0", "g", "priority: 5,", kind), user("g-1", "g", "priority: 5,", kind), gangOf("h", 2))
				require.NoError(t, s.Settle(s.ctx, func() bool { return strings.Contains(s.says(), "n0/gpu") }))
				of := map[string]string{"one": "two", "any/": "any/"}[kind]
				s.comes(user("h-0", "h", fmt.Sprintf("priority: %d,", p), of) + user("h-1", "h", fmt.Sprintf("priority: %d,", p), of))
				until := s.Now().Add(5 * time.Minute)
				require.NoError(t, s.Settle(s.ctx, func() bool { return strings.Contains(s.says(), "h-1=n0") || s.Now().After(until) }))
				require.Contains(t, s.says(), "h-1=n0")
			})
		}
	}
}

// TestGangsShareClaim: two gangs name one claim. The second starts on the node of the first, or waits until
// the first has ended.
func TestGangsShareClaim(t *testing.T) {
	text := []string{gpuNode("n0", 1, 3), gpuNode("n1", 1, 2), claimFor("one"), gangOf("g", 3), gangOf("h", 2)}
	for i := range 3 {
		text = append(text, user(fmt.Sprint("g-", i), "g", "priority: 5,", "one"))
	}
	text = append(text, user("h-0", "h", "", "one"), user("h-1", "h", "", "one"))
	s := openClaims(t, Options{}, text...)
	s.ends("g-0=n0 g-1=n0 g-2=n0 h-0= h-1= one:n0/gpu-0 for 3")
	for i := range 3 {
		s.deletes(fmt.Sprint("g-", i))
	}
	require.NoError(t, s.Settle(s.ctx, nil))
	require.Contains(t, s.says(), "h-1=n", s.says())
}

// TestGangAndPodShareClaim: a pod without a gang names the claim of a gang, and comes first.
func TestGangAndPodShareClaim(t *testing.T) {
	for _, p := range []int{-1, 0, 5} {
		s := openClaims(t, Options{}, gpuNode("n0", 1, 8), gpuNode("n1", 1, 8), claimFor("one"), gangOf("g", 3),
			user("alone", "", fmt.Sprintf("priority: %d,", p), "one"),
			user("g-0", "g", "", "one"), user("g-1", "g", "", "one"), user("g-2", "g", "", "one"))
		require.NoError(t, s.Settle(s.ctx, nil))
		c := s.claim().Status
		at := c.Allocation.Devices.Results[0].Pool
		require.Equal(t, strings.ReplaceAll("alone=N g-0=N g-1=N g-2=N one:N/gpu-0 for 4", "N", at), s.says())
		s.Close()
	}
}

// TestPreemptsForShared: devices that a less important gang shares, or has ahead, are freed with it.
func TestPreemptsForShared(t *testing.T) {
	low := []string{
		gpuNode("n0", 1, 8), claimFor("one"), claimFor("two"), gangOf("g", 2), user("g-0", "g", "", "one"), user("g-1", "g", "", "one"),
		gangOf("h", 2),
	}
	high := user("h-0", "h", "priority: 9,", "two") + user("h-1", "h", "priority: 9,", "two")
	t.Run("running", func(t *testing.T) {
		s := openClaims(t, Options{}, low...)
		s.ends("g-0=n0 g-1=n0 one:n0/gpu-0 for 2 two:nothing for 0")
		s.comes(high)
		s.ends("h-0=n0 h-1=n0 one:nothing for 0 two:n0/gpu-0 for 2")
	})
	t.Run("written ahead", func(t *testing.T) {
		s := openClaims(t, Options{}, low...)
		require.NoError(t, s.Settle(s.ctx, func() bool { return s.claim().Status.Allocation != nil }))
		s.comes(high)
		require.NoError(t, s.Settle(s.ctx, nil))
		require.Contains(t, s.says(), "h-0=n0 h-1=n0 one:nothing for 0 two:n0/gpu-0 for 2")
	})
	t.Run("one runs and one waits", func(t *testing.T) {
		failed := false
		s := openClaims(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
			if c, ok := action.(clienttesting.CreateAction); ok && isBinding(action) && c.GetObject().(*v1.Binding).Name == "g-1" {
				failed = true
				return nil, unavailableNow
			}
			return ask()
		}}, low...)
		require.NoError(t, s.Settle(s.ctx, func() bool { return failed && strings.Contains(s.says(), "g-0=n0") }))
		s.comes(high)
		until := s.Now().Add(5 * time.Minute)
		require.NoError(t, s.Settle(s.ctx, func() bool { return strings.Contains(s.says(), "h-1=n0") || s.Now().After(until) }))
		require.Contains(t, s.says(), "h-0=n0 h-1=n0")
	})
}

// TestElasticShares: members beyond minMember share the gang's claim, and start later.
func TestElasticShares(t *testing.T) {
	s := openClaims(t, Options{}, gpuNode("n0", 1, 3), claimFor("one"), gangOf("g", 2),
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: r}, spec: {nodeName: n0, containers: [{name: c, image: i, resources: {requests: "+
			"{cpu: 1}}}]}, status: {phase: Running}}\n",
		user("g-0", "g", "", "one"), user("g-1", "g", "", "one"), user("g-2", "g", "", "one"))
	s.ends("g-0=n0 g-1=n0 g-2= one:n0/gpu-0 for 2 r=n0")
	s.deletes("r")
	s.ends("g-0=n0 g-1=n0 g-2=n0 one:n0/gpu-0 for 3")
}

// TestLeftoverClaimDoesNotExcludeNode: the API server does not answer while the claim for a member's extended
// resources is written, nor when it is deleted. On the retry DynamicResources rejects the member on every
// node: the plan does not avoid this node.
func TestLeftoverClaimDoesNotExcludeNode(t *testing.T) {
	var updates atomic.Int32
	named := func(name string) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {pod-group.scheduling.sigs.k8s.io: g}}, spec: "+
			"{schedulerName: muster-scheduler, "+
			"containers: [{name: c, image: i, resources: {requests: {cpu: 1, example.com/gpu: 1}, limits: {example.com/gpu: 1}}}]}}\n", name)
	}
	s := openClaims(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
		ofClaim := action.GetVerb() == "update" && action.GetResource().Resource == "resourceclaims" && action.GetSubresource() == ""
		if ofClaim && updates.Add(1) <= 4 { // of each member the finalizer, and its removal
			return nil, unavailableNow
		}
		return ask()
	}}, "---\n{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: named}, spec: {extendedResourceName: example.com/gpu}}\n",
		gpuNode("n0", 2, 4), gangOf("g", 2), named("g-0"), named("g-1"))
	require.NoError(t, s.Settle(s.ctx, nil))
	require.Greater(t, updates.Load(), int32(4), "it was tried again")
	for _, p := range s.Pods() {
		require.Equal(t, "n0", p.Spec.NodeName, p.Name)
	}
}
