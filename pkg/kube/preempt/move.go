package preempt

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Relocation is a domain that takes all members of a gang that cannot be repaired in its own domain.
type Relocation struct {
	Domain    string // its path
	from      string // the path of the domain in which the group runs
	running   []*v1.Pod
	restarted *cache.Group // stand-ins for the successors of all members
	places    []gang.Assignment
}

// FindRelocation returns the domain that takes the whole group of an attempt without a plan; nil if there is none, or the group is not
// incomplete. The plan avoids nodes for which avoid (or nil) is true.
func (p *Preemptor) FindRelocation(ctx context.Context, a *place.Attempt, avoid place.Avoid) *Relocation {
	group, refusal := p.Cache.GroupOf(a.Group.Key)
	if refusal.Exists() || !p.Incomplete(group) || !a.CapacityKnown() {
		return nil
	}
	r := &Relocation{restarted: group.Restarted(p.Cache.Priority)}
	if r.restarted == nil {
		return nil
	}
	for _, m := range group.Bound {
		r.running = append(r.running, group.Pods[m.Pod])
	}
	elsewhere := a.Elsewhere(ctx, r.restarted, r.running, avoid)
	found, unplanned, err := elsewhere.Plan(ctx)
	if err != nil || unplanned != nil || len(found.Places) < len(r.restarted.Pending) {
		return nil
	}
	planned := map[string]bool{}
	for _, at := range found.Places {
		planned[at.Node] = true
	}
	if slices.ContainsFunc(a.JoinableNodes(), func(n fwk.NodeInfo) bool { return planned[n.Node().Name] }) {
		return nil // it is the domain in which the gang runs
	}
	r.Domain, r.from, r.places = elsewhere.Domain(found.Places), a.Domain(nil), found.Places
	return r
}

// Move reserves nodes in the domain of a relocation for all members of the group, and then evicts the running ones. It returns false if
// these may not be evicted, or if the nodes cannot be reserved.
func (p *Preemptor) Move(ctx context.Context, r *Relocation, representative *v1.Pod) bool {
	if !p.Limits().Enabled || !p.mayRestart(r.running, p.listBudgets()) || !p.Cache.ReserveSuccessors(r.restarted, r.places) {
		return false
	}
	cost := &status.EvictionCost{Pods: len(r.running), HighestPriority: math.MinInt32}
	for _, pod := range r.running {
		priority := p.Cache.Priority(pod)
		cost.HighestPriority, cost.Sum = max(cost.HighestPriority, priority), cost.Sum+int64(priority)
	}
	p.record(r.restarted.Whole(), status.Explanation{
		Won: r.Domain, Rule: evict.Alone,
		Considered: []status.ConsideredDomain{{Domain: r.Domain, Possible: true, EvictionCost: cost}, {Domain: r.from}},
	})
	p.EvictToMove(ctx, representative, r.restarted.Key, r.running)
	return true
}
