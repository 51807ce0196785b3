package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// others are the pods whose room some places need, and who are to leave for somebody else: the API server has not
// taken that yet. He may lose his own places before it does, and need them no more. So whoever counts on
// their leaving asks them, too. Those whom the group may not evict, by its priority or by what its quotas say, or whose gang would be left
// in part, are left to him.
func (p *Preemptor) others(ctx context.Context, a *place.Attempt, s *solution) []*v1.Pod {
	loads, leaving := a.Loads(s.Places), make([][]*v1.Pod, len(a.Nodes))
	var unasked []*v1.Pod
	for i, load := range loads {
		if load == nil || a.Nodes[i] == nil {
			continue
		}
		for _, info := range a.Nodes[i].GetPods() {
			if pod := info.GetPod(); pod.DeletionTimestamp != nil {
				leaving[i] = append(leaving[i], pod)
			}
		}
		unasked = append(unasked, p.Victims.Unasked(leaving[i], p.Clock.Now())...)
	}
	units := p.evictable(a, s, unasked)
	if len(units) == 0 {
		return nil
	}
	for _, pod := range s.gone {
		if i, ok := a.Net.Tree.NodeIndex(pod.Spec.NodeName); ok {
			leaving[i] = append(leaving[i], pod)
		}
	}
	needed := slices.Concat(units...)
	if a.Dependent() {
		return needed
	}
	may := departure.Kept(units, func(some [][]*v1.Pod) bool { return holds(ctx, a, loads, leaving, slices.Concat(some...)) })
	return slices.DeleteFunc(needed, func(p *v1.Pod) bool { return slices.Contains(may, p) })
}

// uncertain are those who are to leave for somebody else, whom the API server was not asked for yet, and whom an attempt may not evict by what
// its quotas say: whoever does may need them no more before it is, and then nobody has them leave. Where priorities alone decide whoever may
// take the others' places may evict their victims, too.
func (p *Preemptor) uncertain(a *place.Attempt) map[types.UID]bool {
	claim := p.claim(a.Group, eligible.ForEver, allBelow)
	if claim == nil {
		return nil
	}
	stay, ceiling := map[types.UID]bool{}, p.Cache.Priority(a.Lowest())
	for _, pod := range p.Victims.AllUnasked(p.Clock.Now()) {
		if !claim.May(pod, p.Cache.Priority(pod) < ceiling) {
			stay[pod.UID] = true
		}
	}
	return stay
}

// holds says whether nodes take their loads when those who leave have left, but for some who stay.
func holds(ctx context.Context, a *place.Attempt, loads [][]offer.Slots, leaving [][]*v1.Pod, but []*v1.Pod) bool {
	stays := map[types.UID]bool{}
	for _, pod := range but {
		stays[pod.UID] = true
	}
	for i, load := range loads {
		gone := slices.DeleteFunc(slices.Clone(leaving[i]), func(p *v1.Pod) bool { return stays[p.UID] })
		if load != nil && !a.Holds(ctx, i, load, gone) {
			return false
		}
	}
	return true
}

// evictable sorts pods that are to leave by who leaves with whom, without those whom an attempt may not evict besides those who leave for it.
func (p *Preemptor) evictable(a *place.Attempt, s *solution, pods []*v1.Pod) [][]*v1.Pod {
	if len(pods) == 0 {
		return nil
	}
	groups := p.BundlesOf(pods)
	whole := eligible.BundlesOf(p.Cache, pods).Gangs
	runs := map[gang.Ref]bool{} // groups of which somebody is not to leave
	for of, key := range whole {
		placed, _ := p.Cache.Placed(of.Whole())
		if of != of.Whole() {
			placed = p.Cache.InPart(of, placed)
		}
		runs[key] = runs[key] || len(placed) > 0
	}
	claim, leave := p.claim(a.Group, eligible.ForEver, allBelow), slices.Clone(s.gone)
	rule := p.rule(a, claim)
	stays := func(pod *v1.Pod) bool { return !rule.Allows(pod) }
	return slices.DeleteFunc(groups.Units(pods), func(unit []*v1.Pod) bool {
		key := groups.Of[unit[0].UID]
		mates := slices.DeleteFunc(slices.Clone(groups.Also), func(p *v1.Pod) bool { return groups.Of[p.UID] != key })
		all := slices.Concat(leave, unit, mates)
		if slices.ContainsFunc(all[len(leave):], stays) || runs[key] || claim != nil && claim.Check(all) != quota.Admitted {
			return true
		}
		leave = all
		return false
	})
}

// rule returns which pods may be evicted for the members of an attempt.
func (p *Preemptor) rule(a *place.Attempt, claim Claim) eligible.Rule {
	vetoed, _ := p.Victims.Barred(p.Clock.Now())
	return eligible.RuleOf(p.Cache, p.Cache.Priority(a.Lowest()), claim, vetoed)
}
