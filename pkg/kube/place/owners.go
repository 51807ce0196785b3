package place

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Owners restricts which members may use the capacity that pods free. Quotas may allow a victim for some members of a group only.
// For any other member the victim still counts:
//
//	n0 has 8 CPU, victim v uses 4; quotas allow v for b, not for c      b-0 of 8 CPU fits without v, c-0 does not
//	                                                                    b-0 and c-0 of 4 CPU fit
type Owners struct {
	Of   func(member *v1.Pod) string           // identifies members with equal rights
	Uses func(owner string, gone *v1.Pod) bool // for members of one owner
}

// WithOwners returns the attempt counted again under Owners.
func (a *Attempt) WithOwners(ctx context.Context, owners *Owners) (*Attempt, error) {
	owned := *a
	owned.owners = owners
	owned.kinds = nil
	owned.kindOf = nil
	owned.limited = activeLimits{}
	_, err := owned.count(ctx)
	return &owned, err
}

// takeOwned is Take under Owners. Members with no more rights than the kind must fit into what is left for the kind.
// All members together must fit into what is left for any of them.
func (a *Attempt) takeOwned(ctx context.Context, q Question) offer.Slots {
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
	slots := a.take(ctx, Question{Node: q.Node, Kind: q.Kind, Load: q.Load, Gone: usableByAll})
	if len(usableByAll) > len(own) {
		slots = min(slots, a.take(ctx, Question{Node: q.Node, Kind: q.Kind, Load: alone, Gone: own}))
	}
	return slots
}

// VictimsUsable returns whether each victim in gone is on a node where a member may use its capacity, or on a node without members.
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
