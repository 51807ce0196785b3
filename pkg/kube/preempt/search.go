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

// solution is a victim set and the plan that follows.
type solution struct {
	place.Outcome
	gone   []*v1.Pod
	cost   evict.Cost
	why    func() evict.Choice // compares domains, which takes a while; nil without victims
	awaits []*v1.Pod           // terminating pods whose quota the members need
	// revokes is the claim on overdue quotas whose pods are evicted; nil for other victims.
	revokes VictimSearch
}

// before returns whether a solution costs less than another one.
func (s *solution) before(o *solution) bool { return s.cost.Compare(o.cost) < 0 }

// shortGraceFirst looks for the cheapest victim set that makes the members of an attempt fit. Without one the verdict says why. The
// candidates are returned as well.
//
// Order of preference:
//   - nodes whose victims terminate within maxGrace
//   - borrowing gangs
//   - members of other gangs that leave each quota its min
//   - sets that cost a quota as little of its min as possible
//   - pods of overdue quotas, within their disruption budgets and whatever their priority
func (p *Preemptor) shortGraceFirst(ctx context.Context, a *place.Attempt) (*solution, Verdict, *candidates) {
	for _, n := range a.Nodes {
		if n != nil {
			p.searched.Add(1)
		}
	}
	found, verdict, c := p.byRights(ctx, a)
	if found != nil || verdict == LeftOut || verdict == Untried || !p.revokes(a.Group) {
		return found, verdict, c
	}
	revoked, _, overdue := p.chooseBelow(ctx, a, extent{revokes: true})
	if overdue.claim == nil { // no quota is overdue any more
		return nil, verdict, c
	}
	if revoked == nil || len(revoked.gone) == 0 {
		overdue.claim.NotRevoked(nil)
		return nil, verdict, c
	}
	if barred := overdue.violated(revoked.gone); len(barred) > 0 {
		overdue.claim.NotRevoked(barred)
		return nil, verdict, c
	}
	revoked.revokes = overdue.claim
	return revoked, Evicts, overdue
}

// byRights returns the cheapest set of victims of lower priority, and of pods that quotas may reclaim. It does not consider overdue quotas.
// There are no candidates if the preemptor may evict neither.
func (p *Preemptor) byRights(ctx context.Context, a *place.Attempt) (*solution, Verdict, *candidates) {
	if why := p.forbidden(a); why != Evicts {
		return nil, why, &candidates{Attempt: a, byNode: make([]onNode, len(a.Nodes))}
	}
	if sample := p.sample(a); sample != nil {
		found, verdict, c := p.chooseBelow(ctx, sample, extent{})
		if found != nil && found.cost.Violations == 0 && longestGrace(found.gone) <= p.Limits().MaxGrace {
			return found, verdict, c
		}
	}
	found, verdict, c := p.chooseBelow(ctx, a, extent{})
	for _, limits := range []extent{noneBelow, allBelow} {
		if found == nil && verdict != LeftOut && verdict != Untried && c.claim != nil && c.claim.BelowMin(limits.lacks) {
			found, verdict, c = p.chooseBelow(ctx, a, limits)
		}
	}
	for tries := mostSmaller; tries > 0 && found != nil && c.claim != nil; tries-- {
		lacks := c.claim.Shortfall(found.gone)
		if lacks == 0 {
			break
		}
		smaller, _, fromSmaller := p.chooseBelow(ctx, a, extent{lacks: lacks})
		if smaller == nil {
			break
		}
		found, c = smaller, fromSmaller
	}
	return found, verdict, c
}

// sample returns an attempt for a pod without a gang on evenly spread nodes; nil if all nodes count, or quotas may need victims elsewhere.
func (p *Preemptor) sample(a *place.Attempt) *place.Attempt {
	if !a.Group.Alone || p.claim(a.Group, eligible.NoTimeLimit, extent{}) != nil {
		return nil
	}
	n := len(a.Nodes)
	_, few := p.Compares(int32(n))
	if int(few) >= n {
		return nil
	}
	return a.Without(func(node int) bool { return node*int(few)%n >= int(few) })
}

// mostSmaller bounds the searches for sets that cost quotas less of their mins.
const mostSmaller = 8

// chooseBelow returns the cheapest victims within limits. For a pod without a gang, the victims' highest priority is as low as possible.
func (p *Preemptor) chooseBelow(ctx context.Context, a *place.Attempt, limits extent) (*solution, Verdict, *candidates) {
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

// priorities returns the victims' priorities below a given one, rising.
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

// choose looks for victims with short grace periods first, and then for all.
func (p *Preemptor) choose(ctx context.Context, a *place.Attempt, limits extent) (*solution, Verdict, *candidates) {
	c := p.candidates(ctx, a, p.Limits().MaxGrace, limits, nil)
	found, verdict := p.cheapest(ctx, c)
	if found == nil && c.late && verdict != LeftOut {
		lacking := c.lacking
		c = p.candidates(ctx, a, eligible.NoTimeLimit, limits, nil)
		found, verdict = p.cheapest(ctx, c)
		c.lacking = c.lacking || lacking
	}
	return found, verdict, c
}

// cheapest asks package evict for the cheapest victim set among the candidates.
func (p *Preemptor) cheapest(ctx context.Context, c *candidates) (*solution, Verdict) {
	if c.own(ctx) != nil {
		return nil, Untried
	}
	if !c.exist {
		return nil, c.noHelp() // the cluster as it is was tried already
	}
	problem := c.problem(ctx)
	found := evict.Cheapest(problem)
	// a blocker of other nodes means that not all sets were tried
	sure := found.Conclusive && (!c.blocksOthers || c.claim != nil && found.Freeable)
	c.lacking = found.Freeable
	if found.Plan == nil && found.Placed == nil {
		if !sure {
			return nil, Untried
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
			comparing.More = p.patience()
			return evict.Consider(problem, found, comparing)
		}
	}
	if c.claim != nil {
		s.awaits = c.claim.CountedAsGone()
	}
	return s, Evicts
}

// problem returns the question to package evict.
func (c *candidates) problem(ctx context.Context) evict.Problem {
	problem := evict.Problem{World: c.World, Request: c.Request(), Nodes: c.raw(ctx), Gangs: c.gangs, GathersSeparately: len(c.Sets) > 0}
	if c.Group.Alone {
		problem.World.Tree, problem.Request = flat(len(c.Nodes)), plan.Request{Want: 1, Min: 1}
	}
	if c.claim != nil {
		problem.Quota = quotaCheck{c}
	}
	if !c.isAlike() {
		problem.Placement = placementCheck{ctx, c, c.Sharing(mixed.NewWork(mixed.SingleSearchEffort / 4))}
	}
	if c.Dependent() {
		problem.SeeksVictim = func(p evict.Pick) bool { return c.SeeksPod(c.pod(p)) }
	}
	return problem
}

// flat returns a tree of nodes without domains, in the order of their indexes. A pod without a gang gathers with no other pod. Among equal
// victims the younger ones are evicted, as in kube-scheduler.
func flat(nodes int) *topology.Tree {
	all := make([]topology.Node, nodes)
	for i := range all {
		all[i].Name = strconv.Itoa(i)
	}
	return topology.Build(nil, all)
}

// isAlike returns whether all members need the same, wherever other members are.
func (c *candidates) isAlike() bool { return !c.Dependent() && c.EqualMembers() }

// outcome sets the node assignments of a solution. It returns false if interdependent members of several quotas may not use them.
func (c *candidates) outcome(s *solution, found evict.Found) bool {
	if found.Plan != nil {
		s.Outcome = place.Outcome{Places: c.Assign(found.Plan)}
		return true
	}
	s.Outcome = found.Placed.(placed).Outcome
	return !c.Dependent() || c.VictimsUsable(s.Places, s.gone) // one plan has no owners: members of several quotas share it
}

// placementCheck plans heterogeneous or interdependent members.
type placementCheck struct {
	ctx context.Context
	*candidates
	members *place.Attempt // bounds the work of all its plans together
}

// Fits implements evict.Placement: it plans the members without the victims in gone.
func (p placementCheck) Fits(gone []evict.Pick) (evict.Placed, bool) {
	found, refusal, err := p.members.Choose(p.ctx, p.goneWith(gone))
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

// Uses implements evict.Placed.
func (p placed) Uses(node int) bool { return p.loads[node] != nil }

// Holds returns whether the plan's node assignments fit if only the victims in gone terminate, fewer than the plan was made for. It checks
// the nodes in changed, on which victims stay; interdependent members are checked on all nodes.
func (p placed) Holds(gone []evict.Pick, changed []int) bool {
	if p.members.Dependent() {
		return p.members.Fits(p.ctx, p.Outcome.Places, p.goneWith(gone))
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

// Places implements evict.Placed.
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

// All implements evict.Placed.
func (p placed) All() bool { return len(p.Outcome.Places) == len(p.Group.Pending) }

// quotaCheck asks the quotas about victim sets.
type quotaCheck struct{ *candidates }

// Check implements evict.Quota.
func (q quotaCheck) Check(gone []evict.Pick) evict.Verdict {
	switch q.claim.Check(q.victims(gone)) {
	case quota.Admitted:
		return evict.Admitted
	case quota.Short:
		return evict.Short
	default:
		return evict.Exceeds
	}
}

// Short implements evict.Quota.
func (q quotaCheck) Short() bool { return q.claim.Short() }

// Frees implements evict.Quota.
func (q quotaCheck) Frees(p evict.Pick) bool { return !q.claim.Short() || q.claim.Frees(q.pod(p)) }

// Own implements evict.Quota.
func (q quotaCheck) Own(p evict.Pick) bool { return q.claim.SameQuota(q.pod(p)) }

// Turns implements evict.Quota.
func (q quotaCheck) Turns() evict.Turns {
	may, evicted := q.claim.Turns()
	return turns{q.candidates, may, evicted}
}

// turns are victims that are evicted one after another.
type turns struct {
	*candidates
	may     func([]*v1.Pod) bool
	evicted func([]*v1.Pod)
}

// May implements evict.Turns.
func (t turns) May(picks []evict.Pick) bool { return t.may(t.pods(picks)) }

// Evict implements evict.Turns.
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
