package ledger

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// A claim that several members name, and that nobody has, is allocated once for all of them. DynamicResources writes that
// down when the first of them is bound, for which it waits until the others have come; and it lets none of these pass
// before it is written. So it must be written before any of them comes. So must what members of one node get only if all
// are asked for at once (anew).

// Joint implements what package fit asks of a page whose members have something together: the claims, with what
// they get and who will use them.
func (p *claimPage) Joint(ctx context.Context, beside, members []fit.Put) ([]*resourceapi.ResourceClaim, *fwk.Status) {
	if len(p.joint) == 0 && !p.varied {
		return nil, nil
	}
	r, _ := p.Rehearse().(*claimRehearsal)
	for _, at := range beside {
		r.Take(ctx, at.Pod, at.Node) // who has not enough has nothing, and its place is not ours to judge
	}
	for _, at := range members {
		r.comes[at.Pod.UID] = true
	}
	var all []*resourceapi.ResourceClaim
	for _, at := range members {
		if s := r.Take(ctx, at.Pod, at.Node); !s.IsSuccess() {
			return nil, s
		}
		for _, c := range p.claimsOf(at.Pod) {
			if !slices.Contains(all, c) && p.together(c) {
				all = append(all, c)
			}
		}
	}
	own := r.aheadOfCycles()
	all = slices.DeleteFunc(all, func(c *resourceapi.ResourceClaim) bool { return len(r.held[c.UID].users) < 2 })
	for i, c := range all {
		all[i] = c.DeepCopy()
		all[i].Status.Allocation = r.held[c.UID].allocation.DeepCopy()
		all[i].Status.ReservedFor = append(all[i].Status.ReservedFor, p.reservations(r.held[c.UID].users)...)
	}
	return append(all, own...), nil
}

// Ordered implements what package fit asks of a page to which the order of members makes a difference: whoever comes first takes
// the first device that does.
func (p *claimPage) Ordered() bool { return p.varied }

// aheadOfCycles are the claims of single members that get what their own cycles may not find.
func (r *claimRehearsal) aheadOfCycles() (all []*resourceapi.ResourceClaim) {
	for i := range r.log {
		if t := &r.log[i]; t.ahead {
			for j, c := range t.ask {
				c = c.DeepCopy()
				c.Status.Allocation = t.results[j].DeepCopy()
				c.Status.ReservedFor = append(c.Status.ReservedFor, r.reservations([]*v1.Pod{t.pod})...)
				all = append(all, c)
			}
		}
	}
	return all
}

// reservations are those of pods that exist.
func (p *claimPage) reservations(users []*v1.Pod) (all []resourceapi.ResourceClaimConsumerReference) {
	for _, pod := range users {
		if !p.toCome(pod) {
			all = append(all, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		}
	}
	return all
}
