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

// claimRehearsal is a what-if copy of a claimPage: with further pods, and without evicted ones. The allocations of a pool are added to
// state when a node that can use the pool is tried.
type claimRehearsal struct {
	*claimPage
	state          structured.AllocatedState
	loadedPools    map[poolID]bool
	evicted        map[types.UID]bool
	freed          map[types.UID]bool         // claims whose devices were removed from state
	held           map[types.UID]*heldDevices // by claim, the devices taken in this rehearsal
	addedUsers     map[types.UID]int          // by allocated claim, the number of pods added to ReservedFor
	furtherMembers map[types.UID]bool         // members that are not in claimPage.members
	log            []claimTake
}

// heldDevices are the devices that a pod has taken for a claim.
type heldDevices struct {
	holder     types.UID
	allocation *resourceapi.AllocationResult
	users      []*v1.Pod // for a joint claim, the members that use it
}

// claimTake is what one pod has taken, to be undone.
type claimTake struct {
	pod        *v1.Pod
	node       string
	claims     []*resourceapi.ResourceClaim
	results    []resourceapi.AllocationResult // by claim
	held       []types.UID                    // claims that it added to claimRehearsal.held
	joined     []types.UID                    // joint claims that it uses
	added      []types.UID                    // claims, allocated before, that it uses
	writeAhead bool                           // the allocation must be written before its cycle, which may choose other devices
	displaced  []displaced                    // the devices of other pods before reallocate changed them
}

// Rehearse implements fit.Page.
func (p *claimPage) Rehearse() fit.Rehearsal {
	return &claimRehearsal{
		claimPage: p, state: emptyState(), loadedPools: map[poolID]bool{}, evicted: map[types.UID]bool{}, freed: map[types.UID]bool{},
		held: map[types.UID]*heldDevices{}, addedUsers: map[types.UID]int{}, furtherMembers: map[types.UID]bool{},
	}
}

// loadPool adds the allocations of a pool to r.state, once.
func (r *claimRehearsal) loadPool(id poolID) {
	if r.loadedPools[id] {
		return
	}
	r.loadedPools[id] = true
	t := r.poolStates[id]
	if t == nil {
		return
	}
	r.state.AllocatedDevices.Insert(t.devices...)
	r.state.AllocatedSharedDeviceIDs.Insert(t.shares...)
	for device, capacity := range t.capacity {
		r.state.AggregatedCapacity[device] = capacity.Clone()
	}
}

// Release implements fit.Rehearsal: it records that a pod is evicted. A claim's devices are free if all its users are evicted.
func (r *claimRehearsal) Release(pod *v1.Pod) {
	r.evicted[pod.UID] = true
	for _, c := range r.usedClaims(pod) {
		unused := !slices.ContainsFunc(c.Status.ReservedFor,
			func(by resourceapi.ResourceClaimConsumerReference) bool { return !r.evicted[by.UID] })
		if unused && !r.freed[c.UID] {
			r.freed[c.UID] = true
			r.free(c.Status.Allocation)
		}
	}
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].ResourceClaimName != nil {
			continue // other pods may use it
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

// isMember returns whether a pod is one of the members for which the page was opened.
func (r *claimRehearsal) isMember(pod *v1.Pod) bool {
	return r.members[pod.UID] || r.furtherMembers[pod.UID]
}

// free removes the devices of an allocation from r.state.
func (r *claimRehearsal) free(a *resourceapi.AllocationResult) {
	eachDevice(a, func(id structured.DeviceID, device *resourceapi.DeviceRequestAllocationResult) {
		r.loadPool(poolID{device.Driver, device.Pool})
		if device.ShareID == nil || !r.features.ConsumableCapacity {
			r.state.AllocatedDevices.Delete(id)
			return
		}
		r.state.AllocatedSharedDeviceIDs.Delete(structured.MakeSharedDeviceID(id, device.ShareID))
		r.state.AggregatedCapacity.Remove(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
	})
}

// take adds the devices of an allocation to r.state.
func (r *claimRehearsal) take(a *resourceapi.AllocationResult) {
	eachDevice(a, func(id structured.DeviceID, device *resourceapi.DeviceRequestAllocationResult) {
		if device.ShareID == nil || !r.features.ConsumableCapacity {
			r.state.AllocatedDevices.Insert(id)
			return
		}
		r.state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, device.ShareID))
		r.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
	})
}

// eachDevice calls do for each device of an allocation, except devices with admin access, which are not allocated.
func eachDevice(a *resourceapi.AllocationResult, do func(structured.DeviceID, *resourceapi.DeviceRequestAllocationResult)) {
	for i := range a.Devices.Results {
		if device := &a.Devices.Results[i]; device.AdminAccess == nil || !*device.AdminAccess {
			do(structured.MakeDeviceID(device.Driver, device.Pool, device.Device), device)
		}
	}
}

// Undo implements fit.Rehearsal: it takes back the last Take.
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
		r.addedUsers[c]--
	}
	r.freeAll(last.displaced)
	r.restore(last.displaced)
}

func unschedulable(why string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, why).WithPlugin(names.DynamicResources)
}

// Take implements fit.Rehearsal: it allocates the devices of a pod's claims on a node.
func (r *claimRehearsal) Take(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	need, taken, why := r.claimsToAllocate(pod, node)
	if why != "" {
		return unschedulable(why)
	}
	taken.pod = pod
	taken.node = node.Node().Name
	taken.claims = need
	if len(need) > 0 {
		results, err := r.allocate(ctx, node.Node(), need)
		switch {
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			return unschedulable(err.Error())
		case err != nil:
			return fwk.AsStatus(err).WithPlugin(names.DynamicResources)
		case len(results) != len(need):
			if results, taken.displaced = r.reallocate(ctx, pod, node, need); results == nil {
				return unschedulable("cannot allocate all claims")
			}
			taken.writeAhead = true
		}
		taken.results = results
	}
	for i := range taken.results {
		r.take(&taken.results[i])
		c := need[i]
		if c.UID == "" || r.held[c.UID] != nil {
			continue
		}
		r.held[c.UID] = &heldDevices{holder: pod.UID, allocation: &taken.results[i]}
		taken.held = append(taken.held, c.UID)
		if r.isJoint(c) && r.isMember(pod) {
			taken.joined = append(taken.joined, c.UID)
		}
	}
	for _, c := range taken.joined {
		r.held[c].users = append(r.held[c].users, pod)
	}
	for _, c := range taken.added {
		r.addedUsers[c]++
	}
	r.log = append(r.log, taken)
	return nil
}

// claimsToAllocate returns the claims of a pod that need an allocation. taken has the other claims: allocated ones, and joint ones that
// another member has taken. If the pod cannot use a claim on the node, why says so; else it is "".
func (r *claimRehearsal) claimsToAllocate(pod *v1.Pod, node fwk.NodeInfo) (need []*resourceapi.ResourceClaim, taken claimTake, why string) {
	const elsewhere = "resourceclaim not available on the node"
	for _, c := range r.claimsOf(pod) {
		if why := otherDomain(c, node.Node()); why != "" {
			return nil, taken, why
		}
		switch held := r.held[c.UID]; {
		case c.Status.Allocation != nil:
			if !permits(c.Status.Allocation, node.Node()) {
				return nil, taken, elsewhere
			}
			if r.isFull(c) {
				return nil, taken, tooMany(c)
			}
			taken.added = append(taken.added, c.UID)
		case held == nil, held.holder == pod.UID && !r.shared(c):
			need = append(need, c)
		case len(held.users) == 0 || !r.isMember(pod):
			// A second pod is unschedulable until the allocation of the claim is written.
			return nil, taken, fmt.Sprintf("resource claim %s/%s is in the process of being allocated", c.Namespace, c.Name)
		case len(held.users)+len(c.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize:
			return nil, taken, tooMany(c)
		case !permits(held.allocation, node.Node()):
			return nil, taken, elsewhere
		default: // the allocation is written before any member's cycle
			taken.joined = append(taken.joined, c.UID)
		}
	}
	need, why = r.withExtended(need, pod, node)
	return need, taken, why
}

func tooMany(c *resourceapi.ResourceClaim) string {
	return fmt.Sprintf("resource claim %s/%s is for %d pods at the most", c.Namespace, c.Name, resourceapi.ResourceClaimReservedForMaxSize)
}

// isFull returns whether an allocated claim has the maximal number of users.
func (r *claimRehearsal) isFull(c *resourceapi.ResourceClaim) bool {
	return len(c.Status.ReservedFor)+r.addedUsers[c.UID] >= resourceapi.ResourceClaimReservedForMaxSize &&
		r.reservations(c, r.evicted)+r.addedUsers[c.UID] >= resourceapi.ResourceClaimReservedForMaxSize
}

// reservations returns the number of pods in a claim's ReservedFor, without evicted pods and pending pods. Pending pods are counted when
// they are added to the rehearsal.
func (p *claimPage) reservations(c *resourceapi.ResourceClaim, evicted map[types.UID]bool) (n int) {
	for _, by := range c.Status.ReservedFor {
		pod, err := p.pods.Pods(c.Namespace).Get(by.Name)
		if waits := err == nil && pod.UID == by.UID && pod.Spec.NodeName == ""; !waits && !evicted[by.UID] {
			n++
		}
	}
	return n
}

// withExtended returns need with the claim for extended resources that the node does not offer without a claim; or why it cannot have them.
func (r *claimRehearsal) withExtended(need []*resourceapi.ResourceClaim, pod *v1.Pod, node fwk.NodeInfo) (all []*resourceapi.ResourceClaim,
	why string,
) {
	classes := r.extendedClasses(pod)
	if len(classes) == 0 {
		return need, ""
	}
	have := node.GetAllocatable().GetScalarResources()
	for name, q := range scalars(pod) {
		_, offered := have[name]
		switch class := classes[name]; {
		case q.IsZero():
		case class != nil && have[name] > 0, class == nil && offered:
			delete(classes, name) // the node has it without claims, and NodeResourcesFit counts it
		case class == nil:
			return nil, "cannot fit resource"
		}
	}
	if requests := requestsFor(pod, classes); len(requests) > 0 {
		need = append(need, extendedClaim(pod, requests))
	}
	return need, ""
}

// maxSteps bounds the allocator's steps for one member: its search takes exponential time if the last device does not fit.
const maxSteps = 20_000

// allocate returns allocations of free devices on a node, one for each claim; fewer if there are too few devices. It prefers, for joint
// claims, devices that several nodes can use: then the members need not all run on one node.
func (r *claimRehearsal) allocate(ctx context.Context, node *v1.Node, need []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult,
	error,
) {
	if len(r.multiNode) > 0 && slices.ContainsFunc(need, r.isJoint) {
		if results, err := r.allocateFar(ctx, node, need); err == nil && results != nil {
			return results, nil
		}
	}
	return r.allocateFrom(ctx, maxSteps, node, need, r.byNode[node.Name], r.multiNode)
}

// allocateFar is allocate with only devices for joint claims that several nodes can use. It returns nil if that does not suffice.
func (r *claimRehearsal) allocateFar(ctx context.Context, node *v1.Node, need []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult,
	error,
) {
	var joint, own []*resourceapi.ResourceClaim
	for _, c := range need {
		if r.isJoint(c) {
			joint = append(joint, c)
		} else {
			own = append(own, c)
		}
	}
	far, err := r.allocateFrom(ctx, maxSteps, node, joint, r.multiNode)
	if err != nil || len(far) != len(joint) || len(own) == 0 {
		return far, err
	}
	for i := range far {
		r.take(&far[i])
	}
	near, err := r.allocateFrom(ctx, maxSteps, node, own, r.byNode[node.Name], r.multiNode)
	for i := range far {
		r.free(&far[i])
	}
	if err != nil || len(near) != len(own) {
		return nil, err
	}
	all := make([]resourceapi.AllocationResult, 0, len(need))
	for _, c := range need {
		from := &near
		if r.isJoint(c) {
			from = &far
		}
		all, *from = append(all, (*from)[0]), (*from)[1:]
	}
	return all, nil
}

// allocateFrom runs the allocator on the pools of the slices in sources. It returns nil after limit steps, or if no device can be free.
func (r *claimRehearsal) allocateFrom(ctx context.Context, limit int, node *v1.Node, need []*resourceapi.ResourceClaim,
	sources ...[]*resourceapi.ResourceSlice,
) ([]resourceapi.AllocationResult, error) {
	var offered []*resourceapi.ResourceSlice
	pools := map[poolID]bool{}
	for _, source := range sources {
		for _, s := range source {
			if id := poolOf(s); !pools[id] {
				pools[id] = true
				r.loadPool(id)
				offered = append(offered, r.pools[id]...)
			}
		}
	}
	if !r.anyFree(offered) && !needsNoFree(need) {
		return nil, nil
	}
	allocator, err := structured.NewAllocator(ctx, r.features, r.state, r.manager.DeviceClasses(), offered, r.cel)
	if err != nil {
		return nil, err
	}
	steps := &stepLimit{Context: ctx, remaining: limit}
	results, err := allocator.Allocate(steps, node, need)
	if steps.remaining < 0 {
		return nil, nil
	}
	return results, err
}

// anyFree returns whether any device of the slices is not allocated as a whole.
func (r *claimRehearsal) anyFree(offered []*resourceapi.ResourceSlice) bool {
	for _, s := range offered {
		for i := range s.Spec.Devices {
			if !r.state.AllocatedDevices.Has(structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)) {
				return true
			}
		}
	}
	return false
}

// needsNoFree returns whether any request may be met without a free device.
func needsNoFree(need []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(need, func(c *resourceapi.ResourceClaim) bool {
		return len(c.Spec.Devices.Requests) == 0 || slices.ContainsFunc(c.Spec.Devices.Requests, func(q resourceapi.DeviceRequest) bool {
			return q.Exactly != nil &&
				(q.Exactly.AdminAccess != nil && *q.Exactly.AdminAccess || q.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll)
		})
	})
}

// stepLimit is a context that ends after a number of calls to Err.
type stepLimit struct {
	context.Context
	remaining int
}

func (s *stepLimit) Err() error {
	if s.remaining--; s.remaining < 0 {
		return context.DeadlineExceeded
	}
	return s.Context.Err()
}

// requestsFor returns the requests of the claim that DynamicResources makes for a pod's extended resources: one for each container and
// resource. Init containers that end before later containers start share one request: the most that one of them needs beyond what the
// containers after it request.
func requestsFor(pod *v1.Pod, classes map[v1.ResourceName]*resourceapi.DeviceClass) (requests []resourceapi.DeviceRequest) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		addRequest := func(count int64) {
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
			addRequest(most)
		}
		for i := range containers {
			if !ends(i) && need[i] > 0 {
				addRequest(need[i])
			}
		}
	}
	return requests
}
