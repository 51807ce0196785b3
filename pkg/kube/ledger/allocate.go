package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// claimRehearsal is claimPage when pods come and go. What is allocated of a pool is looked up when a node
// that reaches the pool is asked about.
type claimRehearsal struct {
	*claimPage
	state structured.AllocatedState
	known map[poolID]bool
	gone  map[types.UID]bool
	freed map[types.UID]bool // claims
	held  map[types.UID]*heldDevices
	added map[types.UID]int  // users of claims that somebody has allocated, beside those for whom these are reserved
	comes map[types.UID]bool // members beside those who stand for all of their kind
	log   []claimTurn
}

// heldDevices is what a pod has been given for a claim.
type heldDevices struct {
	by         types.UID
	allocation *resourceapi.AllocationResult
	users      []*v1.Pod // members that have it together
}

// claimTurn is what one pod has taken.
type claimTurn struct {
	pod     *v1.Pod
	node    string
	ask     []*resourceapi.ResourceClaim
	results []resourceapi.AllocationResult // of what it asked for
	held    []types.UID
	joined  []types.UID // claims that it has together with others
	added   []types.UID // claims that it uses and somebody has allocated
	ahead   bool        // it has what its own cycle may not find
	instead []displaced // what others had before, who have something else for its sake
}

// Rehearse implements fit.Page.
func (p *claimPage) Rehearse() fit.Rehearsal {
	return &claimRehearsal{
		claimPage: p, state: emptyState(), known: map[poolID]bool{}, gone: map[types.UID]bool{}, freed: map[types.UID]bool{},
		held: map[types.UID]*heldDevices{}, added: map[types.UID]int{}, comes: map[types.UID]bool{},
	}
}

// know has the rehearsal know what is allocated of a pool.
func (r *claimRehearsal) know(id poolID) {
	if r.known[id] {
		return
	}
	r.known[id] = true
	t := r.taken[id]
	if t == nil {
		return
	}
	r.state.AllocatedDevices.Insert(t.devices...)
	r.state.AllocatedSharedDeviceIDs.Insert(t.shares...)
	for device, capacity := range t.capacity {
		r.state.AggregatedCapacity[device] = capacity.Clone()
	}
}

// Leave implements fit.Rehearsal: a claim's devices are free when all have left who use it.
func (r *claimRehearsal) Leave(pod *v1.Pod) {
	r.gone[pod.UID] = true
	for _, c := range r.used(pod) {
		left := !slices.ContainsFunc(c.Status.ReservedFor, func(by resourceapi.ResourceClaimConsumerReference) bool { return !r.gone[by.UID] })
		if left && !r.freed[c.UID] {
			r.freed[c.UID] = true
			r.free(c.Status.Allocation)
		}
	}
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].ResourceClaimName != nil {
			continue // others may wait for it
		}
		c := r.claimOf(pod, &pod.Spec.ResourceClaims[i])
		if c == nil || c.Status.Allocation != nil || r.freed[c.UID] {
			continue
		}
		if a := r.manager.ResourceClaims().GetPendingAllocation(c.UID); a != nil {
			r.freed[c.UID] = true
			r.free(a)
		}
	}
}

// member says that a pod is one of those for whom the page was opened.
func (r *claimRehearsal) member(pod *v1.Pod) bool { return r.members[pod.UID] || r.comes[pod.UID] }

// free gives devices back.
func (r *claimRehearsal) free(a *resourceapi.AllocationResult) {
	eachDevice(a, func(id structured.DeviceID, of *resourceapi.DeviceRequestAllocationResult) {
		r.know(poolID{of.Driver, of.Pool})
		if of.ShareID == nil || !r.features.ConsumableCapacity {
			r.state.AllocatedDevices.Delete(id)
			return
		}
		r.state.AllocatedSharedDeviceIDs.Delete(structured.MakeSharedDeviceID(id, of.ShareID))
		r.state.AggregatedCapacity.Remove(structured.NewDeviceConsumedCapacity(id, of.ConsumedCapacity))
	})
}

// take notes that devices are somebody's.
func (r *claimRehearsal) take(a *resourceapi.AllocationResult) {
	eachDevice(a, func(id structured.DeviceID, of *resourceapi.DeviceRequestAllocationResult) {
		if of.ShareID == nil || !r.features.ConsumableCapacity {
			r.state.AllocatedDevices.Insert(id)
			return
		}
		r.state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, of.ShareID))
		r.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, of.ConsumedCapacity))
	})
}

// eachDevice calls do for the devices of an allocation that count: who only looks at one does not have it.
func eachDevice(a *resourceapi.AllocationResult, do func(structured.DeviceID, *resourceapi.DeviceRequestAllocationResult)) {
	for i := range a.Devices.Results {
		if of := &a.Devices.Results[i]; of.AdminAccess == nil || !*of.AdminAccess {
			do(structured.MakeDeviceID(of.Driver, of.Pool, of.Device), of)
		}
	}
}

// Undo implements fit.Rehearsal.
func (r *claimRehearsal) Undo() {
	last := r.log[len(r.log)-1]
	r.log = r.log[:len(r.log)-1]
	for i := range last.results {
		r.free(&last.results[i])
	}
	for _, c := range last.joined {
		r.held[c].users = r.held[c].users[:len(r.held[c].users)-1]
	}
	for _, c := range last.held {
		delete(r.held, c)
	}
	for _, c := range last.added {
		r.added[c]--
	}
	r.giveBack(last.instead)
	r.restore(last.instead)
}

func refused(why string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, why).WithPlugin(names.DynamicResources)
}

// Take implements fit.Rehearsal.
func (r *claimRehearsal) Take(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	ask, turn, why := r.asks(pod, node)
	if why != "" {
		return refused(why)
	}
	turn.pod, turn.node, turn.ask = pod, node.Node().Name, ask
	if len(ask) > 0 {
		results, err := r.allocate(ctx, node.Node(), ask)
		switch {
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			return refused(err.Error())
		case err != nil:
			return fwk.AsStatus(err).WithPlugin(names.DynamicResources)
		case len(results) != len(ask):
			if results, turn.instead = r.anew(ctx, pod, node, ask); results == nil {
				return refused("cannot allocate all claims")
			}
			turn.ahead = true
		}
		turn.results = results
	}
	for i := range turn.results {
		r.take(&turn.results[i])
		c := ask[i]
		if c.UID == "" || r.held[c.UID] != nil {
			continue
		}
		r.held[c.UID] = &heldDevices{by: pod.UID, allocation: &turn.results[i]}
		turn.held = append(turn.held, c.UID)
		if r.together(c) && r.member(pod) {
			turn.joined = append(turn.joined, c.UID)
		}
	}
	for _, c := range turn.joined {
		r.held[c].users = append(r.held[c].users, pod)
	}
	for _, c := range turn.added {
		r.added[c]++
	}
	r.log = append(r.log, turn)
	return nil
}

// asks are the claims of a pod that are to be allocated, and those that others have with it, or why that need
// not be tried.
func (r *claimRehearsal) asks(pod *v1.Pod, node fwk.NodeInfo) (ask []*resourceapi.ResourceClaim, turn claimTurn, why string) {
	const elsewhere = "resourceclaim not available on the node"
	for _, c := range r.claimsOf(pod) {
		if why := otherDomain(c, node.Node()); why != "" {
			return nil, turn, why
		}
		switch held := r.held[c.UID]; {
		case c.Status.Allocation != nil:
			if !permits(c.Status.Allocation, node.Node()) {
				return nil, turn, elsewhere
			}
			if r.isFull(c) {
				return nil, turn, tooMany(c)
			}
			turn.added = append(turn.added, c.UID)
		case held == nil, held.by == pod.UID && !r.shared(c):
			ask = append(ask, c)
		case len(held.users) == 0 || !r.member(pod):
			// It is the same claim. Whoever comes second is refused until the allocation is written.
			return nil, turn, fmt.Sprintf("resource claim %s/%s is in the process of being allocated", c.Namespace, c.Name)
		case len(held.users)+len(c.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize:
			return nil, turn, tooMany(c)
		case !permits(held.allocation, node.Node()):
			return nil, turn, elsewhere
		default: // what the first has taken is written before any of them comes
			turn.joined = append(turn.joined, c.UID)
		}
	}
	ask, why = r.withExtended(ask, pod, node)
	return ask, turn, why
}

func tooMany(c *resourceapi.ResourceClaim) string {
	return fmt.Sprintf("resource claim %s/%s is for %d pods at the most", c.Namespace, c.Name, resourceapi.ResourceClaimReservedForMaxSize)
}

// isFull says that no pod more can use an allocated claim.
func (r *claimRehearsal) isFull(c *resourceapi.ResourceClaim) bool {
	return len(c.Status.ReservedFor)+r.added[c.UID] >= resourceapi.ResourceClaimReservedForMaxSize &&
		r.reserved(c, r.gone)+r.added[c.UID] >= resourceapi.ResourceClaimReservedForMaxSize
}

// reserved is for how many a claim is reserved beside pods that wait, who take their place when they come, and some that are gone.
func (p *claimPage) reserved(c *resourceapi.ResourceClaim, gone map[types.UID]bool) (n int) {
	for _, by := range c.Status.ReservedFor {
		pod, err := p.pods.Pods(c.Namespace).Get(by.Name)
		if waits := err == nil && pod.UID == by.UID && pod.Spec.NodeName == ""; !waits && !gone[by.UID] {
			n++
		}
	}
	return n
}

// withExtended adds the claim for a pod's extended resources.
func (r *claimRehearsal) withExtended(ask []*resourceapi.ResourceClaim, pod *v1.Pod, node fwk.NodeInfo) (all []*resourceapi.ResourceClaim, why string) {
	classes := r.extended(pod)
	if len(classes) == 0 {
		return ask, ""
	}
	have := node.GetAllocatable().GetScalarResources()
	for name, q := range scalars(pod) {
		_, some := have[name]
		switch class := classes[name]; {
		case q.IsZero():
		case class != nil && have[name] > 0, class == nil && some:
			delete(classes, name) // the node has it without claims, and NodeResourcesFit counts it
		case class == nil:
			return nil, "cannot fit resource"
		}
	}
	if requests := requestsFor(pod, classes); len(requests) > 0 {
		ask = append(ask, extendedClaim(pod, requests))
	}
	return ask, ""
}

// mostSteps is how many steps the allocator gets for one member: it searches all ways, of which there are
// more than anybody can try where the last device does not fit.
const mostSteps = 20_000

// allocate asks for devices that are left. What members have together is looked for first among the devices that
// several nodes reach: with one of those not all of them need go to the same node.
func (r *claimRehearsal) allocate(ctx context.Context, node *v1.Node, ask []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if len(r.reached) > 0 && slices.ContainsFunc(ask, r.together) {
		if results, err := r.allocateFar(ctx, node, ask); err == nil && results != nil {
			return results, nil
		}
	}
	return r.allocateOf(ctx, mostSteps, node, ask, r.byNode[node.Name], r.reached)
}

// allocateFar is allocate with nothing of the node's own for claims that members have together; nil if that is not
// enough.
func (r *claimRehearsal) allocateFar(ctx context.Context, node *v1.Node, ask []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	var joint, own []*resourceapi.ResourceClaim
	for _, c := range ask {
		if r.together(c) {
			joint = append(joint, c)
		} else {
			own = append(own, c)
		}
	}
	far, err := r.allocateOf(ctx, mostSteps, node, joint, r.reached)
	if err != nil || len(far) != len(joint) || len(own) == 0 {
		return far, err
	}
	for i := range far {
		r.take(&far[i])
	}
	near, err := r.allocateOf(ctx, mostSteps, node, own, r.byNode[node.Name], r.reached)
	for i := range far {
		r.free(&far[i])
	}
	if err != nil || len(near) != len(own) {
		return nil, err
	}
	all := make([]resourceapi.AllocationResult, 0, len(ask))
	for _, c := range ask {
		from := &near
		if r.together(c) {
			from = &far
		}
		all, *from = append(all, (*from)[0]), (*from)[1:]
	}
	return all, nil
}

// allocateOf asks the allocator, for so many steps, for devices that are left of the pools of some slices.
func (r *claimRehearsal) allocateOf(ctx context.Context, most int, node *v1.Node, ask []*resourceapi.ResourceClaim, of ...[]*resourceapi.ResourceSlice) ([]resourceapi.AllocationResult, error) {
	var slicesOf []*resourceapi.ResourceSlice
	pools := map[poolID]bool{}
	for _, some := range of {
		for _, s := range some {
			if id := poolOf(s); !pools[id] {
				pools[id] = true
				r.know(id)
				slicesOf = append(slicesOf, r.pools[id]...)
			}
		}
	}
	if !r.anyLeft(slicesOf) && !looksOnly(ask) {
		return nil, nil
	}
	allocator, err := structured.NewAllocator(ctx, r.features, r.state, r.manager.DeviceClasses(), slicesOf, r.cel)
	if err != nil {
		return nil, err
	}
	steps := &stepsLeft{Context: ctx, left: most}
	results, err := allocator.Allocate(steps, node, ask)
	if steps.left < 0 {
		return nil, nil
	}
	return results, err
}

// anyLeft says whether some device is not allocated as a whole.
func (r *claimRehearsal) anyLeft(some []*resourceapi.ResourceSlice) bool {
	for _, s := range some {
		for i := range s.Spec.Devices {
			if !r.state.AllocatedDevices.Has(structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)) {
				return true
			}
		}
	}
	return false
}

// looksOnly says that some request takes no device.
func looksOnly(ask []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(ask, func(c *resourceapi.ResourceClaim) bool {
		return len(c.Spec.Devices.Requests) == 0 || slices.ContainsFunc(c.Spec.Devices.Requests, func(q resourceapi.DeviceRequest) bool {
			return q.Exactly != nil && (q.Exactly.AdminAccess != nil && *q.Exactly.AdminAccess || q.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll)
		})
	})
}

// stepsLeft is a context that ends after so many questions whether it has.
type stepsLeft struct {
	context.Context
	left int
}

func (s *stepsLeft) Err() error {
	if s.left--; s.left < 0 {
		return context.DeadlineExceeded
	}
	return s.Context.Err()
}

// requestsFor are the requests of the claim that DynamicResources makes for extended resources: one for each container,
// and for init containers, which end before others begin, the most that one of them needs beyond what those have
// that come after it.
func requestsFor(pod *v1.Pod, classes map[v1.ResourceName]*resourceapi.DeviceClass) (requests []resourceapi.DeviceRequest) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		ask := func(count int64) {
			requests = append(requests, resourceapi.DeviceRequest{
				Name: fmt.Sprint("request-", len(requests)),
				Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: classes[name].Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
				},
			})
		}
		need := make([]int64, len(containers))
		for i := range containers {
			if q, ok := containers[i].Resources.Requests[name]; ok {
				need[i] = q.Value()
			}
		}
		ends := func(i int) bool {
			policy := containers[i].RestartPolicy
			return i < len(pod.Spec.InitContainers) && (policy == nil || *policy != v1.ContainerRestartPolicyAlways)
		}
		most, later := int64(0), int64(0)
		for i := len(containers) - 1; i >= 0; i-- {
			if ends(i) {
				most = max(most, need[i]-later)
			} else {
				later += need[i]
			}
		}
		if most > 0 {
			ask(most)
		}
		for i := range containers {
			if !ends(i) && need[i] > 0 {
				ask(need[i])
			}
		}
	}
	return requests
}
