package place

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Owners say which members may use what pods leave: where teams have quotas, not all members of a group may have the same pods leave. To a
// member those are still there who leave for others only:
//
//	n0, 8 CPU, of which v has 4, who may leave for b, and not for c     b-0 of 8 CPU fits when v has left, c-0 does not
//	                                                                    b-0 and c-0 of 4 CPU fit
type Owners struct {
	Of   func(member *v1.Pod) string           // tells members apart
	Uses func(owner string, gone *v1.Pod) bool // for members of one of them
}

// Owned is a counted attempt as owners have it.
func (a *Attempt) Owned(ctx context.Context, by *Owners) (*Attempt, error) {
	some := *a
	some.owners, some.kinds, some.kindOf, some.limited = by, nil, nil, limited{}
	_, err := some.count(ctx)
	return &some, err
}

// takeOwned is Take where owners say who may use what pods leave. Those of no more rights than the kind must have room by what is left to it,
// and all together by what is left to any of them.
func (a *Attempt) takeOwned(ctx context.Context, q Question) offer.Slots {
	left := func(of ...int) []*v1.Pod {
		return slices.DeleteFunc(slices.Clone(q.Gone), func(gone *v1.Pod) bool {
			return !slices.ContainsFunc(of, func(k int) bool { return a.owners.Uses(a.kinds[k].owner, gone) })
		})
	}
	own := left(q.Kind)
	alone, all := make([]offer.Slots, len(a.kinds)), []int{q.Kind}
	for k, many := range q.Load {
		if many == 0 {
			continue
		}
		if all = append(all, k); len(left(q.Kind, k)) == len(own) {
			alone[k] = many
		}
	}
	any := left(all...)
	is := a.take(ctx, Question{Node: q.Node, Kind: q.Kind, Load: q.Load, Gone: any})
	if len(any) > len(own) {
		is = min(is, a.take(ctx, Question{Node: q.Node, Kind: q.Kind, Load: alone, Gone: own}))
	}
	return is
}

// AreOwned says whether each of some pods that have left was on a node of which a member uses what it leaves, or on none of theirs.
func (a *Attempt) AreOwned(places []gang.Place, gone []*v1.Pod) bool {
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
