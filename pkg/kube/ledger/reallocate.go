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

// The first member takes the first device that meets its request, even if it is the only one for another member. So if one
// member finds no device, the devices of all members of its node are allocated together:
//
// \tone by one any part of the card -> whole a half -> nothing is free
// \ttogether any part of the card -> half-0 a half -> half-1
//
// The members' own cycles do not find that allocation, so it is written ahead, as joint claims are (Joint).

// findCommonRequest returns the request of all members, if they have no other; nil if they differ.
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

// displaced is what a pod had before its node was reallocated.
type displaced struct {
	turn    int // index in the log
	results []resourceapi.AllocationResult
	ahead   bool
}

// reallocate finds devices for a pod if none are free for it, by allocating all members of the node together. It returns the
// pod's devices, which are not taken yet, and what other pods had before; nil if that fails too.
func (r *claimRehearsal) reallocate(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo,
	ask []*resourceapi.ResourceClaim,
) ([]resourceapi.AllocationResult, []displaced) {
	if !r.choiceVaries || !r.writable(pod, ask) {
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
	results := r.allocateTogether(ctx, node.Node(), append(all, ask...))
	if results == nil {
		r.restore(others)
		return nil, nil
	}
	for _, d := range others {
		n := len(r.log[d.turn].claims)
		r.assign(d.turn, results[:n:n], true)
		results = results[n:]
	}
	return results, others
}

// writable returns whether the devices of a pod can be written ahead: it is a member, and all its claims exist and are not shared.
func (r *claimRehearsal) writable(pod *v1.Pod, ask []*resourceapi.ResourceClaim) bool {
	return r.member(pod) && !r.isFuture(pod) && !slices.ContainsFunc(ask, func(c *resourceapi.ResourceClaim) bool {
		return c.UID == "" || r.shared(c) // for extended resources, or shared
	})
}

// freeAll frees the devices of pods.
func (r *claimRehearsal) freeAll(pods []displaced) {
	for _, d := range pods {
		for i := range r.log[d.turn].results {
			r.free(&r.log[d.turn].results[i])
		}
	}
}

// restore gives pods their former devices.
func (r *claimRehearsal) restore(pods []displaced) {
	for _, d := range pods {
		r.assign(d.turn, d.results, d.ahead)
	}
}

// assign replaces the devices of a pod.
func (r *claimRehearsal) assign(turn int, results []resourceapi.AllocationResult, ahead bool) {
	t := &r.log[turn]
	t.results, t.writeAhead = results, ahead
	for i := range results {
		r.take(&results[i])
		if slices.Contains(t.held, t.claims[i].UID) {
			r.held[t.claims[i].UID].allocation = &results[i]
		}
	}
}

// choiceMatters returns whether it may matter which member takes which device: the requests differ, or the matching devices are
// parts of different size.
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

// sizeOf returns equal texts for parts of devices of equal size.
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
	ask []*resourceapi.ResourceClaim,
) []resourceapi.AllocationResult {
	if devicesNeeded(ask) > r.freeDevices(node.Name) {
		return nil
	}
	claims := make([]*resourceapi.ResourceClaim, len(ask))
	for i, c := range ask { // members of one kind have one claim
		claims[i] = c.DeepCopy()
		claims[i].Name, claims[i].UID = fmt.Sprint(c.Name, "-", i), types.UID(fmt.Sprint(c.UID, "-", i))
	}
	results, err := r.allocateFrom(ctx, maxStepsTogether, node, claims, r.byNode[node.Name], r.multiNode)
	if err != nil || len(results) != len(claims) {
		return nil
	}
	return results
}

// devicesNeeded returns a lower limit of the devices for claims, each for one member.
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

// freeDevices returns how many free devices a node reaches; unlimited if one can be allocated several times.
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
