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

// sharedVictims returns pods on the assigned nodes that another gang is to evict and whose eviction was not requested yet. That gang may
// lose its nodes and need them no more. So this gang evicts them, too. Pods that it may not evict, or whose gang would be split, are left
// to the other gang.
func (p *Preemptor) sharedVictims(ctx context.Context, a *place.Attempt, s *solution) []*v1.Pod {
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
		unasked = append(unasked, p.Victims.NotRequested(leaving[i], p.Clock.Now())...)
	}
	bundles := p.evictable(a, s, unasked)
	if len(bundles) == 0 {
		return nil
	}
	for _, pod := range s.gone {
		if i, ok := a.Net.Tree.NodeIndex(pod.Spec.NodeName); ok {
			leaving[i] = append(leaving[i], pod)
		}
	}
	needed := slices.Concat(bundles...)
	if a.Dependent() {
		return needed
	}
	spared := departure.SparedOf(bundles,
		func(remaining [][]*v1.Pod) bool { return holds(ctx, a, loads, leaving, slices.Concat(remaining...)) })
	return slices.DeleteFunc(needed, func(p *v1.Pod) bool { return slices.Contains(spared, p) })
}

// uncertain returns pods of requested evictions that the quotas do not allow for this attempt. The other preemptor may need them no more
// before the API server is asked, and then no gang evicts them. By priority alone this preemptor could evict them itself.
func (p *Preemptor) uncertain(a *place.Attempt) map[types.UID]bool {
	claim := p.claim(a.Group, eligible.NoTimeLimit, allBelow)
	if claim == nil {
		return nil
	}
	pods, ceiling := map[types.UID]bool{}, p.Cache.Priority(a.Lowest())
	for _, pod := range p.Victims.AllNotRequested(p.Clock.Now()) {
		if !claim.May(pod, p.Cache.Priority(pod) < ceiling) {
			pods[pod.UID] = true
		}
	}
	return pods
}

// holds returns whether nodes fit their loads after pods have terminated, except the ones that stay.
func holds(ctx context.Context, a *place.Attempt, loads [][]offer.Slots, leaving [][]*v1.Pod, staying []*v1.Pod) bool {
	stays := map[types.UID]bool{}
	for _, pod := range staying {
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

// evictable returns the victim bundles of pods, without bundles that may not be evicted in addition to the solution's victims.
func (p *Preemptor) evictable(a *place.Attempt, s *solution, pods []*v1.Pod) [][]*v1.Pod {
	if len(pods) == 0 {
		return nil
	}
	groups := p.BundlesOf(pods)
	groupOf := eligible.BundlesOf(p.Cache, pods).Gangs
	remains := map[gang.Ref]bool{} // groups with members that are not evicted
	for ref, key := range groupOf {
		placed, _ := p.Cache.Placed(ref.Whole())
		if ref != ref.Whole() {
			placed = p.Cache.InPart(ref, placed)
		}
		remains[key] = remains[key] || len(placed) > 0
	}
	claim, victims := p.claim(a.Group, eligible.NoTimeLimit, allBelow), slices.Clone(s.gone)
	rule := p.rule(a, claim)
	stays := func(pod *v1.Pod) bool { return !rule.Allows(pod) }
	return slices.DeleteFunc(groups.ByBundle(pods), func(bundle []*v1.Pod) bool {
		key := groups.BundleOf[bundle[0].UID]
		mates := slices.DeleteFunc(slices.Clone(groups.Additional), func(p *v1.Pod) bool { return groups.BundleOf[p.UID] != key })
		all := slices.Concat(victims, bundle, mates)
		if slices.ContainsFunc(all[len(victims):], stays) || remains[key] || claim != nil && claim.Check(all) != quota.Admitted {
			return true
		}
		victims = all
		return false
	})
}

// rule returns which pods may be evicted for the members of an attempt.
func (p *Preemptor) rule(a *place.Attempt, claim VictimSearch) eligible.Rule {
	vetoed, _ := p.Victims.Vetoed(p.Clock.Now())
	return eligible.RuleOf(p.Cache, p.Cache.Priority(a.Lowest()), claim, vetoed)
}
