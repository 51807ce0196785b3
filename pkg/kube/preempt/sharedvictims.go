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

// sharedVictims returns pods on the solution's nodes that another gang is to evict, and whose eviction the API server has not accepted yet.
// The other gang may lose its reservation and no longer evict them, so this gang evicts them, too. Pods that this gang may not evict, or
// whose eviction would break up another gang, are not included.
func (p *Preemptor) sharedVictims(ctx context.Context, a *place.Attempt, s *solution) []*v1.Pod {
	loads, terminating := a.Loads(s.Places), make([][]*v1.Pod, len(a.Nodes))
	var unrequested []*v1.Pod
	for i, load := range loads {
		if load == nil || a.Nodes[i] == nil {
			continue
		}
		for _, info := range a.Nodes[i].GetPods() {
			if pod := info.GetPod(); pod.DeletionTimestamp != nil {
				terminating[i] = append(terminating[i], pod)
			}
		}
		unrequested = append(unrequested, p.Victims.NotRequested(terminating[i], p.Clock.Now())...)
	}
	bundles := p.evictable(a, s, unrequested)
	if len(bundles) == 0 {
		return nil
	}
	for _, pod := range s.gone {
		if i, ok := a.Net.Tree.NodeIndex(pod.Spec.NodeName); ok {
			terminating[i] = append(terminating[i], pod)
		}
	}
	needed := slices.Concat(bundles...)
	if a.Dependent() {
		return needed
	}
	spared := departure.SparedOf(bundles,
		func(rest [][]*v1.Pod) bool { return holds(ctx, a, loads, terminating, slices.Concat(rest...)) })
	return slices.DeleteFunc(needed, func(p *v1.Pod) bool { return slices.Contains(spared, p) })
}

// uncertain returns victims of other preemptors that the quotas do not allow as victims of this attempt. Their eviction is not requested
// from the API server yet and may be cancelled, so the attempt must not count them as gone. It returns nil without quotas: then this
// preemptor could evict the pods itself, by priority.
func (p *Preemptor) uncertain(a *place.Attempt) map[types.UID]bool {
	search := p.search(a.Group, eligible.NoTimeLimit, ignoresMins)
	if search == nil {
		return nil
	}
	pods, ceiling := map[types.UID]bool{}, p.Cache.Priority(a.Lowest())
	for _, pod := range p.Victims.AllNotRequested(p.Clock.Now()) {
		if !search.May(pod, p.Cache.Priority(pod) < ceiling) {
			pods[pod.UID] = true
		}
	}
	return pods
}

// holds returns whether each node fits its load after its terminating pods are gone, except the pods in staying, which run on.
func holds(ctx context.Context, a *place.Attempt, loads [][]offer.Slots, terminating [][]*v1.Pod, staying []*v1.Pod) bool {
	stays := map[types.UID]bool{}
	for _, pod := range staying {
		stays[pod.UID] = true
	}
	for i, load := range loads {
		gone := slices.DeleteFunc(slices.Clone(terminating[i]), func(p *v1.Pod) bool { return stays[p.UID] })
		if load != nil && !a.Holds(ctx, i, load, gone) {
			return false
		}
	}
	return true
}

// evictable groups pods into victim bundles. It returns the bundles that may be evicted in addition to the solution's victims.
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
	search, victims := p.search(a.Group, eligible.NoTimeLimit, ignoresMins), slices.Clone(s.gone)
	rule := p.rule(a, search)
	stays := func(pod *v1.Pod) bool { return !rule.Allows(pod) }
	return slices.DeleteFunc(groups.ByBundle(pods), func(bundle []*v1.Pod) bool {
		key := groups.BundleOf[bundle[0].UID]
		mates := slices.DeleteFunc(slices.Clone(groups.Additional), func(p *v1.Pod) bool { return groups.BundleOf[p.UID] != key })
		all := slices.Concat(victims, bundle, mates)
		if slices.ContainsFunc(all[len(victims):], stays) || remains[key] || search != nil && search.Check(all) != quota.Admitted {
			return true
		}
		victims = all
		return false
	})
}

// rule returns the rule that decides which pods may be evicted for the attempt's members. search may be nil.
func (p *Preemptor) rule(a *place.Attempt, search VictimSearch) eligible.Rule {
	vetoed, _ := p.Victims.Vetoed(p.Clock.Now())
	return eligible.RuleOf(p.Cache, p.Cache.Priority(a.Lowest()), search, vetoed)
}
