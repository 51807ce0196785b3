package ledger

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// An unallocated claim that several members name (a joint claim) is allocated once for all of them. DynamicResources writes the allocation
// when the first member binds, which waits for all members, and it rejects the others until then. So the allocation is written before the
// members' cycles. So are allocations that were found only for all members of a node together (reallocate).

// Joint implements an optional method of fit.Page: it returns the claims that must be written before the members' cycles, with their
// allocations and users. members have their nodes, in the order of the plan; beside are other pods with reserved nodes.
func (p *claimPage) Joint(ctx context.Context, beside, members []fit.Put) ([]*resourceapi.ResourceClaim, *fwk.Status) {
	if len(p.jointClaims) == 0 && !p.choiceVaries {
		return nil, nil
	}
	r, _ := p.Rehearse().(*claimRehearsal)
	for _, at := range beside {
		r.Take(ctx, at.Pod, at.Node) // a pod that does not fit takes nothing
	}
	for _, at := range members {
		r.furtherMembers[at.Pod.UID] = true
	}
	var all []*resourceapi.ResourceClaim
	for _, at := range members {
		if s := r.Take(ctx, at.Pod, at.Node); !s.IsSuccess() {
			return nil, s
		}
		for _, c := range p.claimsOf(at.Pod) {
			if !slices.Contains(all, c) && p.isJoint(c) {
				all = append(all, c)
			}
		}
	}
	ownClaims := r.writtenAhead()
	all = slices.DeleteFunc(all, func(c *resourceapi.ResourceClaim) bool { return len(r.held[c.UID].users) < 2 })
	for i, c := range all {
		all[i] = c.DeepCopy()
		all[i].Status.Allocation = r.held[c.UID].allocation.DeepCopy()
		all[i].Status.ReservedFor = append(all[i].Status.ReservedFor, p.reservationsFor(r.held[c.UID].users)...)
	}
	return append(all, ownClaims...), nil
}

// Ordered implements an optional method of fit.Page: it returns whether members must bind in the order of the plan, because each one takes
// the first device that meets its request.
func (p *claimPage) Ordered() bool { return p.choiceVaries }

// writtenAhead returns the claims, with allocations, of members whose own cycles may choose other devices.
func (r *claimRehearsal) writtenAhead() (all []*resourceapi.ResourceClaim) {
	for i := range r.log {
		if t := &r.log[i]; t.writeAhead {
			for j, c := range t.claims {
				c = c.DeepCopy()
				c.Status.Allocation = t.results[j].DeepCopy()
				c.Status.ReservedFor = append(c.Status.ReservedFor, r.reservationsFor([]*v1.Pod{t.pod})...)
				all = append(all, c)
			}
		}
	}
	return all
}

// reservationsFor returns the entries of ReservedFor for those of the pods that exist.
func (p *claimPage) reservationsFor(users []*v1.Pod) (all []resourceapi.ResourceClaimConsumerReference) {
	for _, pod := range users {
		if !p.isFuture(pod) {
			all = append(all, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		}
	}
	return all
}
