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

// Whoever comes first takes the first device that does, be it the only one that does for somebody else. So where one member
// finds nothing, all members of its node are asked for at once:
//
//	one after the other     any of the card -> whole          a half -> nothing is left
//	all at once             any of the card -> half-0         a half -> half-1
//
// Their cycles do not find that by themselves. It is written ahead, as what members share is (Joint).

// sameForAll is the one request that all members make, if that is all that they ask for; nil if it is not.
func (p *claimPage) sameForAll(members []fit.Demand) (same *resourceapi.ExactDeviceRequest) {
	var says string
	for _, d := range members {
		if len(p.extended(d.Pod)) > 0 {
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
				if err != nil || same != nil && says != string(out) {
					return nil
				}
				same, says = r.Exactly, string(out)
			}
		}
	}
	return same
}

// displaced is what a pod had before all of its node were asked for at once.
type displaced struct {
	turn    int // of the log
	results []resourceapi.AllocationResult
	ahead   bool
}

// anew finds devices for a pod where nothing is left for it, by asking for all members of the node at once. It returns what
// the pod gets, which is not taken yet, and what others had before; nil if that finds nothing either.
func (r *claimRehearsal) anew(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, ask []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, []displaced) {
	if !r.varied || !r.writable(pod, ask) {
		return nil, nil
	}
	var with []displaced
	var all []*resourceapi.ResourceClaim
	for i := range r.log {
		if t := &r.log[i]; t.node == node.Node().Name && len(t.ask) > 0 && r.writable(t.pod, t.ask) {
			with = append(with, displaced{i, t.results, t.ahead})
			all = append(all, t.ask...)
		}
	}
	if len(with) == 0 || !r.matters(node.Node().Name) {
		return nil, nil
	}
	r.giveBack(with)
	results := r.allAtOnce(ctx, node.Node(), append(all, ask...))
	if results == nil {
		r.restore(with)
		return nil, nil
	}
	for _, d := range with {
		n := len(r.log[d.turn].ask)
		r.have(d.turn, results[:n:n], true)
		results = results[n:]
	}
	return results, with
}

// writable says that what a pod gets can be written ahead: it is a member, and all claims that it asks for are there and
// nobody else's.
func (r *claimRehearsal) writable(pod *v1.Pod, ask []*resourceapi.ResourceClaim) bool {
	return r.member(pod) && !r.toCome(pod) && !slices.ContainsFunc(ask, func(c *resourceapi.ResourceClaim) bool {
		return c.UID == "" || r.shared(c) // for extended resources, or of several
	})
}

// giveBack has some have nothing.
func (r *claimRehearsal) giveBack(some []displaced) {
	for _, d := range some {
		for i := range r.log[d.turn].results {
			r.free(&r.log[d.turn].results[i])
		}
	}
}

// restore has some have what they had.
func (r *claimRehearsal) restore(some []displaced) {
	for _, d := range some {
		r.have(d.turn, d.results, d.ahead)
	}
}

// have lets a pod have something else that had something before.
func (r *claimRehearsal) have(turn int, results []resourceapi.AllocationResult, ahead bool) {
	t := &r.log[turn]
	t.results, t.ahead = results, ahead
	for i := range results {
		r.take(&results[i])
		if slices.Contains(t.held, t.ask[i].UID) {
			r.held[t.ask[i].UID].allocation = &results[i]
		}
	}
}

// matters says that it may make a difference which devices members take: they ask for different ones, or some of those that
// do for all are larger parts of a device than others.
func (r *claimRehearsal) matters(node string) bool {
	if r.same == nil {
		return true
	}
	class, err := r.manager.DeviceClasses().Get(r.same.DeviceClassName)
	if err != nil {
		return false
	}
	size := ""
	for _, s := range slices.Concat(r.byNode[node], r.reached) {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if !r.match(s.Spec.Driver, d, class.Spec.Selectors) || !r.match(s.Spec.Driver, d, r.same.Selectors) {
				continue
			}
			is := sizeOf(d)
			if size != "" && is != size {
				return true
			}
			size = is
		}
	}
	return false
}

// sizeOf tells devices apart that are parts of others, by how much they take of these, wherever that is.
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

// stepsAtOnce is how many steps the allocator gets for all members of a node.
const stepsAtOnce = 2_000

// allAtOnce asks for devices for several claims together; nil if there are not enough, or nobody can say in so many steps.
func (r *claimRehearsal) allAtOnce(ctx context.Context, node *v1.Node, ask []*resourceapi.ResourceClaim) []resourceapi.AllocationResult {
	if need(ask) > r.left(node.Name) {
		return nil
	}
	claims := make([]*resourceapi.ResourceClaim, len(ask))
	for i, c := range ask { // members of one kind come with one claim
		claims[i] = c.DeepCopy()
		claims[i].Name, claims[i].UID = fmt.Sprint(c.Name, "-", i), types.UID(fmt.Sprint(c.UID, "-", i))
	}
	results, err := r.allocateOf(ctx, stepsAtOnce, node, claims, r.byNode[node.Name], r.reached)
	if err != nil || len(results) != len(claims) {
		return nil
	}
	return results
}

// need is how many devices claims take at least, each of them for one.
func need(claims []*resourceapi.ResourceClaim) (n int64) {
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

// left is how many devices that a node reaches nobody has; more than anybody asks for where one is for many.
func (r *claimRehearsal) left(node string) (n int64) {
	for _, s := range slices.Concat(r.byNode[node], r.reached) {
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
