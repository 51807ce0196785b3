package place

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Owners restricts which members may use the capacity of a victim: quotas may allow a victim for some members of a group only.
// For the other members the victim still occupies its node:
//
//	n0 has 8 CPU, victim v uses 4; quotas allow v for b, not for c      b-0 of 8 CPU fits without v, c-0 does not
//	                                                                    b-0 and c-0 of 4 CPU fit
type Owners struct {
	Of   func(member *v1.Pod) string           // the owner of a member, such as its quota
	Uses func(owner string, gone *v1.Pod) bool // whether members of owner may use the capacity of the victim gone
}

// WithOwners returns the attempt with Owners, counted again.
func (a *Attempt) WithOwners(ctx context.Context, owners *Owners) (*Attempt, error) {
	owned := *a
	owned.owners = owners
	owned.kinds = nil
	owned.kindOf = nil
	owned.limited = activeLimits{}
	_, err := owned.count(ctx)
	return &owned, err
}

// capacityByOwner is Capacity under Owners. Two conditions must be met. Members that may use no other victims than q.Kind must fit without
// the victims that q.Kind may use. All members together must fit without the victims that any of them may use.
func (a *Attempt) capacityByOwner(ctx context.Context, q Question) offer.Slots {
	usable := func(kinds ...int) []*v1.Pod {
		return slices.DeleteFunc(slices.Clone(q.Gone), func(gone *v1.Pod) bool {
			return !slices.ContainsFunc(kinds, func(k int) bool { return a.owners.Uses(a.kinds[k].owner, gone) })
		})
	}
	own := usable(q.Kind)
	alone, all := make([]offer.Slots, len(a.kinds)), []int{q.Kind}
	for k, many := range q.Load {
		if many == 0 {
			continue
		}
		if all = append(all, k); len(usable(q.Kind, k)) == len(own) {
			alone[k] = many
		}
	}
	usableByAll := usable(all...)
	slots := a.capacityForAll(ctx, Question{Node: q.Node, Kind: q.Kind, Load: q.Load, Gone: usableByAll})
	if len(usableByAll) > len(own) {
		slots = min(slots, a.capacityForAll(ctx, Question{Node: q.Node, Kind: q.Kind, Load: alone, Gone: own}))
	}
	return slots
}

// VictimsUsable returns whether each victim in gone is on a node where an assigned member may use its capacity, or on one without members.
func (a *Attempt) VictimsUsable(places []gang.Assignment, gone []*v1.Pod) bool {
	if a.owners == nil {
		return true
	}
	loads := a.Loads(places)
	return !slices.ContainsFunc(gone, func(pod *v1.Pod) bool {
		i, ok := a.Net.Tree.NodeIndex(pod.Spec.NodeName)
		if !ok || loads[i] == nil {
			return false
		}
		for k, many := range loads[i] {
			if many > 0 && a.owners.Uses(a.kinds[k].owner, pod) {
				return false
			}
		}
		return true
	})
}
