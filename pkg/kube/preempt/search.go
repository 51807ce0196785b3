package preempt

import (
	"context"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/mixed"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/quota"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// solution is a victim set and the plan that it makes possible.
type solution struct {
	place.Outcome
	gone   []*v1.Pod // the victims
	cost   evict.Cost
	why    func() evict.Choice // compares domains, which takes a while; nil without victims
	awaits []*v1.Pod           // terminating pods whose quota the members need
	// revokes is the quota check of a search for pods of overdue quotas; nil for other victims.
	revokes VictimSearch
}

// before returns whether the victims of s cost less than the victims of o.
func (s *solution) before(o *solution) bool { return s.cost.Compare(o.cost) < 0 }

// shortGraceFirst returns the cheapest victim set that makes the members of an attempt fit, and the candidates of the last search. If there
// is no such set, the solution is nil and the verdict says why.
//
// Order of preference:
//   - nodes whose victims terminate within maxGrace.
//   - borrowing gangs.
//   - members of other gangs whose quotas keep their min.
//   - sets that cost a quota as little of its min as possible.
//   - pods of overdue quotas, within their disruption budgets and whatever their priority: borrowing gangs, then members of other gangs
//     whose quotas keep their min.
func (p *Preemptor) shortGraceFirst(ctx context.Context, a *place.Attempt) (*solution, Verdict, *candidates) {
	p.countSearched(a)
	found, verdict, c := p.withoutOverdueQuotas(ctx, a)
	if found != nil || verdict == LeftOut || verdict.Inconclusive() || !p.mayRevoke(a.Group) {
		return found, verdict, c
	}
	revoked, _, overdue := p.chooseBelow(ctx, a, victimLimits{onlyOverdue: true})
	if revoked == nil && overdue.search != nil {
		revoked, _, overdue = p.chooseBelow(ctx, a, victimLimits{onlyOverdue: true, maxLack: keepsEveryMin.maxLack})
	}
	if overdue.search == nil { // no quota is overdue any more
		return nil, verdict, c
	}
	if revoked == nil || len(revoked.gone) == 0 {
		overdue.search.NotRevoked(nil)
		return nil, verdict, c
	}
	if barred := overdue.violated(revoked.gone); len(barred) > 0 {
		overdue.search.NotRevoked(barred)
		return nil, verdict, c
	}
	revoked.revokes = overdue.search
	return revoked, Evicts, overdue
}

// countSearched adds the attempt's nodes to the searched ones.
func (p *Preemptor) countSearched(a *place.Attempt) {
	for _, n := range a.Nodes {
		if n != nil {
			p.searched.Add(1)
		}
	}
}

// withoutOverdueQuotas returns the cheapest set of victims of lower priority, or that the members' quotas may reclaim. Pods are not victims
// only because their quota is overdue. If the preemptor may not evict at all, the verdict says so and the candidates are empty.
func (p *Preemptor) withoutOverdueQuotas(ctx context.Context, a *place.Attempt) (*solution, Verdict, *candidates) {
	if why := p.forbidden(a); why != Evicts {
		return nil, why, &candidates{Attempt: a, byNode: make([]onNode, len(a.Nodes))}
	}
	if sample := p.sample(a); sample != nil {
		found, verdict, c := p.chooseBelow(ctx, sample, victimLimits{})
		if found != nil && found.cost.Violations == 0 && longestGrace(found.gone) <= p.Limits().MaxGrace {
			return found, verdict, c
		}
	}
	found, verdict, c := p.chooseBelow(ctx, a, victimLimits{})
	for _, limits := range []victimLimits{keepsEveryMin, ignoresMins} {
		if found == nil && verdict != LeftOut && !verdict.Inconclusive() && c.search != nil && c.search.BelowMin(limits.maxLack) {
			found, verdict, c = p.chooseBelow(ctx, a, limits)
		}
	}
	for tries := mostSmaller; tries > 0 && found != nil && c.search != nil; tries-- {
		maxLack := c.search.Shortfall(found.gone)
		if maxLack == 0 {
			break
		}
		smaller, _, fromSmaller := p.chooseBelow(ctx, a, victimLimits{maxLack: maxLack})
		if smaller == nil {
			break
		}
		found, c = smaller, fromSmaller
	}
	return found, verdict, c
}

// sample returns the attempt of a pod without a gang, restricted to as many evenly spread nodes as p.Compares says. It returns nil for a
// gang, with quotas (which may need victims on any node), and if all nodes are to be compared.
func (p *Preemptor) sample(a *place.Attempt) *place.Attempt {
	if !a.Group.Alone || p.search(a.Group, eligible.NoTimeLimit, victimLimits{}) != nil {
		return nil
	}
	n := len(a.Nodes)
	_, few := p.Compares(int32(n))
	if int(few) >= n {
		return nil
	}
	return a.Without(func(node int) bool { return node*int(few)%n >= int(few) })
}

// mostSmaller bounds the searches for victim sets that leave the quotas more of their min.
const mostSmaller = 8

// chooseBelow returns the cheapest victims within limits. For a pod without a gang it first minimizes the highest priority of the victims.
func (p *Preemptor) chooseBelow(ctx context.Context, a *place.Attempt, limits victimLimits) (*solution, Verdict, *candidates) {
	found, verdict, c := p.choose(ctx, a, limits)
	if found == nil || len(found.gone) == 0 || !a.Group.Alone {
		return found, verdict, c
	}
	// As in kube-scheduler, a pod without a gang prefers victims of lower priority to fewer victims.
	lower := c.priorities(found.cost.Highest)
	for start := 0; start < len(lower); {
		limits.highest = &lower[(start+len(lower))/2]
		if smaller, _, fromSmaller := p.choose(ctx, a, limits); smaller == nil || smaller.cost.Violations > found.cost.Violations {
			start = (start+len(lower))/2 + 1
		} else {
			found = smaller
			c = fromSmaller
			lower = lower[:(start+len(lower))/2]
		}
	}
	return found, verdict, c
}

// priorities returns the distinct priorities of the candidates that are lower than below, in ascending order.
func (c *candidates) priorities(below int32) (all []int32) {
	for _, entry := range c.byNode {
		for _, v := range entry.victims {
			if v.Priority < below {
				all = append(all, v.Priority)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// choose returns the cheapest victims that terminate within MaxGrace. If there are none, it searches again with any grace period.
func (p *Preemptor) choose(ctx context.Context, a *place.Attempt, limits victimLimits) (*solution, Verdict, *candidates) {
	c := p.candidates(ctx, a, p.Limits().MaxGrace, limits, nil)
	found, verdict := p.cheapest(ctx, c)
	if found == nil && c.slowPodsExcluded && verdict != LeftOut {
		quotaShort := c.quotaShort
		c = p.candidates(ctx, a, eligible.NoTimeLimit, limits, nil)
		found, verdict = p.cheapest(ctx, c)
		c.quotaShort = c.quotaShort || quotaShort
	}
	return found, verdict, c
}

// cheapest returns the cheapest set of candidates that makes the members fit, with their plan, or nil and why not. It sets c.quotaShort.
func (p *Preemptor) cheapest(ctx context.Context, c *candidates) (*solution, Verdict) {
	if c.recordQuotaOwners(ctx) != nil {
		return nil, Untried
	}
	if !c.anyCandidate {
		return nil, c.noHelp() // the caller has already tried without victims
	}
	problem := c.problem(ctx)
	found := evict.Cheapest(problem)
	c.quotaShort = found.Freeable
	if found.Plan == nil && found.Placed == nil {
		switch {
		case !found.Conclusive:
			return nil, Untried
		case c.blocksOthers && (c.search == nil || !found.Freeable): // the search counts each node without the victims of that node only
			return nil, Repelled
		}
		return nil, c.noHelp()
	}
	s := &solution{gone: c.victims(found.Victims), cost: found.Cost}
	if !c.outcome(s, found) {
		return nil, Untried
	}
	if len(s.gone) > 0 {
		if c.OnlyLimitsPreventPlan(ctx) {
			return nil, LeftOut // the gang waits for the nodes that it avoids
		}
		var comparing evict.Comparing
		if problem.Placement == nil { // plans for other members use all nodes, so that only one may run at a time
			comparing.Each = func(domains int, look func(i int)) { c.InParallel(ctx, domains, look) }
		}
		s.why = func() evict.Choice {
			comparing.More = p.timeToCompare()
			return evict.Consider(problem, found, comparing)
		}
	}
	if c.search != nil {
		s.awaits = c.search.CountedAsGone()
	}
	return s, Evicts
}

// problem returns the input of package evict: nodes, candidates, gangs, the quota check and the placement check.
func (c *candidates) problem(ctx context.Context) evict.Problem {
	problem := evict.Problem{
		World: c.World, Request: c.Request(), Nodes: c.evictNodes(ctx), Gangs: c.gangs, GathersSeparately: len(c.Sets) > 0,
	}
	if c.Group.Alone {
		problem.World.Tree, problem.Request = flat(len(c.Nodes)), plan.Request{Want: 1, Min: 1}
	}
	if c.search != nil {
		problem.Quota = quotaCheck{c}
	}
	if c.Dependent() || !c.EqualMembers() {
		problem.Placement = placementCheck{ctx, c, c.Sharing(mixed.NewWork(mixed.SingleSearchEffort / 4))}
	}
	if c.Dependent() {
		problem.SeeksVictim = func(p evict.Pick) bool { return c.SeeksPod(c.pod(p)) }
	}
	return problem
}

// flat returns a tree of so many nodes without domains, in the order of their indexes. It is for a pod without a gang, for which domains do
// not matter: among equal victims the younger ones are evicted, as in kube-scheduler.
func flat(nodes int) *topology.Tree {
	all := make([]topology.Node, nodes)
	for i := range all {
		all[i].Name = strconv.Itoa(i)
	}
	return topology.Build(nil, all)
}

// outcome sets the node assignments of a solution from result. It returns false if the quotas do not allow interdependent members this.
func (c *candidates) outcome(s *solution, found evict.Found) bool {
	if found.Plan != nil {
		s.Outcome = place.Outcome{Places: c.Assign(found.Plan)}
		return true
	}
	s.Outcome = found.Placed.(placed).Outcome
	return !c.Dependent() || c.VictimsUsable(s.Places, s.gone) // one plan has no owners: members of several quotas share it
}

// placementCheck plans heterogeneous or interdependent members for package evict, which itself plans only equal members.
type placementCheck struct {
	ctx context.Context
	*candidates
	members *place.Attempt // bounds the work of all its plans together
}

// Fits implements evict.Placement: it returns a plan for the members after the eviction of gone. Without a plan it returns nil, and whether
// the search was complete, so that no plan exists.
func (p placementCheck) Fits(gone []evict.Pick) (evict.Placed, bool) {
	found, refusal, err := p.members.Choose(p.ctx, p.goneAfter(gone))
	if refusal != nil || err != nil {
		return nil, err == nil && !refusal.Incomplete
	}
	return placed{p, found, p.members.Loads(found.Places)}, true
}

// placed is a plan of a placementCheck.
type placed struct {
	placementCheck
	place.Outcome
	loads [][]offer.Slots // by node index and kind of member
}

// Uses implements evict.Placed: it returns whether the plan assigns a member to the node.
func (p placed) Uses(node int) bool { return p.loads[node] != nil }

// Holds returns whether the plan's node assignments still fit if only the victims in gone are evicted, fewer than the plan was made with.
// It checks only the nodes in changed, where victims were spared; interdependent members are checked on all nodes.
func (p placed) Holds(gone []evict.Pick, changed []int) bool {
	if p.members.Dependent() {
		return p.members.Fits(p.ctx, p.Outcome.Places, p.goneAfter(gone))
	}
	for _, node := range changed {
		if p.loads[node] == nil {
			continue
		}
		var victims []int
		for _, v := range gone {
			if v.Node == node {
				victims = append(victims, v.Victim)
			}
		}
		if !p.members.Holds(p.ctx, node, p.loads[node], p.byNode[node].gone(victims)) {
			return false
		}
	}
	return true
}

// Places implements evict.Placed: it returns the number of members on each node that the plan uses.
func (p placed) Places() (out []plan.Place) {
	for node, load := range p.loads {
		n := offer.Slots(0)
		for _, members := range load {
			n += members
		}
		if n > 0 {
			out = append(out, plan.Place{Node: node, Count: n})
		}
	}
	return out
}

// All implements evict.Placed: it returns whether the plan assigns all pending members.
func (p placed) All() bool { return len(p.Outcome.Places) == len(p.Group.Pending) }

// quotaCheck is the quota check of victim sets for package evict.
type quotaCheck struct{ *candidates }

// Check implements evict.Quota: it returns the verdict of the quotas for a whole victim set.
func (q quotaCheck) Check(gone []evict.Pick) evict.Verdict {
	switch q.search.Check(q.victims(gone)) {
	case quota.Admitted:
		return evict.Admitted
	case quota.Short:
		return evict.Short
	default:
		return evict.Exceeds
	}
}

// Short implements evict.Quota: it returns whether a quota lacks capacity, even if the nodes have enough.
func (q quotaCheck) Short() bool { return q.search.Short() }

// Frees implements evict.Quota: it returns whether a victim frees capacity of a quota that lacks some; true if none does.
func (q quotaCheck) Frees(p evict.Pick) bool { return !q.search.Short() || q.search.Frees(q.pod(p)) }

// Own implements evict.Quota: it returns whether a victim is of the first member's quota.
func (q quotaCheck) Own(p evict.Pick) bool { return q.search.SameQuota(q.pod(p)) }

// Turns implements evict.Quota: it returns a check of victims that are evicted one after another.
func (q quotaCheck) Turns() evict.Turns {
	may, evicted := q.search.Turns()
	return turns{q.candidates, may, evicted}
}

// turns checks victims that are evicted one after another: each check takes the earlier evictions into account.
type turns struct {
	*candidates
	may     func([]*v1.Pod) bool
	evicted func([]*v1.Pod)
}

// May implements evict.Turns: it returns whether the picks may be evicted after all earlier calls of Evict.
func (t turns) May(picks []evict.Pick) bool { return t.may(t.pods(picks)) }

// Evict implements evict.Turns: it records the picks as evicted.
func (t turns) Evict(picks []evict.Pick) { t.evicted(t.pods(picks)) }

// pods returns the pods of picks.
func (c *candidates) pods(picks []evict.Pick) (out []*v1.Pod) {
	for _, p := range picks {
		out = append(out, c.pod(p))
	}
	return out
}

// pod returns the pod of a pick.
func (c *candidates) pod(p evict.Pick) *v1.Pod { return c.byNode[p.Node].pods[p.Victim] }
