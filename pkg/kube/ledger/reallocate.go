package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// The first member takes the first device that meets its request, even if no other device meets another member's request. So if a member
// finds no device, the devices of all members of its node are allocated again, together:
//
//	one by one    member 1: any part of the card -> whole;   member 2: a half -> nothing is free
//	together      member 1: any part of the card -> half-0;  member 2: a half -> half-1
//
// The members' own cycles would not find that allocation. So it is written before these cycles, like the claims that members share (Joint).

// findCommonRequest returns the request for devices if all requests of all members are equal except for the number of devices; else nil.
func (p *claimPage) findCommonRequest(members []fit.Demand) (same *resourceapi.ExactDeviceRequest) {
	var text string
	for _, d := range members {
		if len(p.extendedClasses(d.Pod)) > 0 {
			return nil
		}
		for _, c := range p.claimsOf(d.Pod) {
			if len(c.Spec.Devices.Constraints) > 0 {
				return nil
			}
			for _, r := range c.Spec.Devices.Requests {
				if r.Exactly == nil || r.Exactly.AllocationMode != resourceapi.DeviceAllocationModeExactCount {
					return nil
				}
				one := *r.Exactly
				one.Count = 0
				out, err := json.Marshal(one)
				if err != nil || same != nil && text != string(out) {
					return nil
				}
				same, text = r.Exactly, string(out)
			}
		}
	}
	return same
}

// displaced has the devices of a pod before reallocate changed them.
type displaced struct {
	logIndex int // index in claimRehearsal.log
	results  []resourceapi.AllocationResult
	ahead    bool
}

// reallocate allocates the devices of all members on a node again, together with pod, for which no devices were free. It returns pod's
// allocations, not taken yet, and the former devices of the others; nil, without a change, if there are too few devices.
func (r *claimRehearsal) reallocate(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo,
	need []*resourceapi.ResourceClaim,
) ([]resourceapi.AllocationResult, []displaced) {
	if !r.choiceVaries || !r.writable(pod, need) {
		return nil, nil
	}
	var others []displaced
	var all []*resourceapi.ResourceClaim
	for i := range r.log {
		if t := &r.log[i]; t.node == node.Node().Name && len(t.claims) > 0 && r.writable(t.pod, t.claims) {
			others = append(others, displaced{i, t.results, t.writeAhead})
			all = append(all, t.claims...)
		}
	}
	if len(others) == 0 || !r.choiceMatters(node.Node().Name) {
		return nil, nil
	}
	r.freeAll(others)
	results := r.allocateTogether(ctx, node.Node(), append(all, need...))
	if results == nil {
		r.restore(others)
		return nil, nil
	}
	for _, d := range others {
		n := len(r.log[d.logIndex].claims)
		r.assign(d.logIndex, results[:n:n], true)
		results = results[n:]
	}
	return results, others
}

// writable returns whether a pod's allocations can be written before its cycle: it is a member, and its claims exist and are not shared.
func (r *claimRehearsal) writable(pod *v1.Pod, need []*resourceapi.ResourceClaim) bool {
	return r.isMember(pod) && !r.isFuture(pod) && !slices.ContainsFunc(need, func(c *resourceapi.ResourceClaim) bool {
		return c.UID == "" || r.shared(c) // for extended resources, or shared
	})
}

// freeAll removes the present devices of these pods from r.state.
func (r *claimRehearsal) freeAll(pods []displaced) {
	for _, d := range pods {
		for i := range r.log[d.logIndex].results {
			r.free(&r.log[d.logIndex].results[i])
		}
	}
}

// restore gives these pods their former devices.
func (r *claimRehearsal) restore(pods []displaced) {
	for _, d := range pods {
		r.assign(d.logIndex, d.results, d.ahead)
	}
}

// assign sets the allocations of the pod at an index of r.log, and takes the devices. ahead is its writeAhead.
func (r *claimRehearsal) assign(logIndex int, results []resourceapi.AllocationResult, ahead bool) {
	t := &r.log[logIndex]
	t.results, t.writeAhead = results, ahead
	for i := range results {
		r.take(&results[i])
		if slices.Contains(t.held, t.claims[i].UID) {
			r.held[t.claims[i].UID].allocation = &results[i]
		}
	}
}

// choiceMatters returns whether it may matter on a node which member takes which device: the requests differ, or the matching devices are
// parts of different sizes.
func (r *claimRehearsal) choiceMatters(node string) bool {
	if r.commonRequest == nil {
		return true
	}
	class, err := r.manager.DeviceClasses().Get(r.commonRequest.DeviceClassName)
	if err != nil {
		return false
	}
	size := ""
	for _, s := range slices.Concat(r.byNode[node], r.multiNode) {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if !r.match(s.Spec.Driver, d, class.Spec.Selectors) || !r.match(s.Spec.Driver, d, r.commonRequest.Selectors) {
				continue
			}
			current := sizeOf(d)
			if size != "" && current != size {
				return true
			}
			size = current
		}
	}
	return false
}

// sizeOf returns a text that is equal for parts of devices of equal size.
func sizeOf(d *resourceapi.Device) string {
	all := []string{"|"}
	for _, c := range d.ConsumesCounters {
		for _, counter := range c.Counters {
			all = append(all, counter.Value.String())
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// maxStepsTogether bounds the allocator's steps for all members of a node.
const maxStepsTogether = 2_000

// allocateTogether allocates several claims; nil if there are too few devices, or the step limit is reached.
func (r *claimRehearsal) allocateTogether(ctx context.Context, node *v1.Node,
	need []*resourceapi.ResourceClaim,
) []resourceapi.AllocationResult {
	if devicesNeeded(need) > r.freeDevices(node.Name) {
		return nil
	}
	claims := make([]*resourceapi.ResourceClaim, len(need))
	for i, c := range need { // members of one kind have one claim
		claims[i] = c.DeepCopy()
		claims[i].Name, claims[i].UID = fmt.Sprint(c.Name, "-", i), types.UID(fmt.Sprint(c.UID, "-", i))
	}
	results, err := r.allocateFrom(ctx, maxStepsTogether, node, claims, r.byNode[node.Name], r.multiNode)
	if err != nil || len(results) != len(claims) {
		return nil
	}
	return results
}

// devicesNeeded returns a lower bound of the number of devices for the claims.
func devicesNeeded(claims []*resourceapi.ResourceClaim) (n int64) {
	for _, c := range claims {
		for i := range c.Spec.Devices.Requests {
			r := &c.Spec.Devices.Requests[i]
			switch {
			case r.Exactly == nil:
				n++
			case r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess, r.Exactly.AllocationMode != resourceapi.DeviceAllocationModeExactCount:
			default:
				n += max(1, r.Exactly.Count)
			}
		}
	}
	return n
}

// freeDevices returns how many free devices a node can use; a very large number if a device can be allocated several times.
func (r *claimRehearsal) freeDevices(node string) (n int64) {
	for _, s := range slices.Concat(r.byNode[node], r.multiNode) {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
				return 1 << 32
			}
			if !r.state.AllocatedDevices.Has(structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)) {
				n++
			}
		}
	}
	return n
}
