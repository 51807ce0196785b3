package preempt

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/group"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// swap is an eviction for the replacement of a lost member, and the victims' plan elsewhere. They are a smaller gang, or a pod without one.
type swap struct {
	attempt   *place.Attempt // for the replacement
	found     *solution      // with the pods of the smaller gang as victims
	restarted *cache.Group   // stand-ins for the successors of these pods
	places    []gang.Assignment
}

// mostSwaps bounds the gangs and pods that one search for a swap tries.
const mostSwaps = 16

// findSwap returns a swap for an incomplete gang without a plan, if no pods of lower priority can be evicted for it. It returns nil if none
// is possible, if there are quotas, or if there was one for the same representative.
func (p *Preemptor) findSwap(ctx context.Context, a *place.Attempt, representative *v1.Pod) *swap {
	if a = needed(a); !p.Limits().Swap || a == nil || !p.Incomplete(a.Group) || !a.CapacityKnown() {
		return nil
	}
	if earlier, _ := p.swapped.Get(a.Group.Key); earlier == representative.UID {
		return nil
	}
	if p.search(a.Group, eligible.NoTimeLimit, ignoresMins) != nil {
		return nil // quotas may forbid the eviction, and other pods may take the quota that the successors need
	}
	smaller := p.smallerGangs(a)
	for _, restarted := range smaller[:min(len(smaller), mostSwaps)] {
		pods := restarted.running
		found, _, _ := p.choose(ctx, a, victimLimits{only: eligible.UIDs([][]*v1.Pod{pods})})
		if found == nil || len(found.gone) < len(pods) {
			continue
		}
		needs := map[string]bool{}
		for _, at := range found.Places {
			needs[at.Node] = true
		}
		elsewhere := a.Elsewhere(ctx, restarted.group, pods, func(n fwk.NodeInfo) bool { return needs[n.Node().Name] })
		planned, refusal, err := elsewhere.Plan(ctx)
		if err == nil && refusal == nil && len(planned.Places) == len(pods) {
			return &swap{a, found, restarted.group, planned.Places}
		}
	}
	return nil
}

// findEvictable returns the cheapest Evictable victims, whatever their priority. They use nodes that are held for replacements of an
// incomplete gang, or for a starving gang whose promised start has come. The latter may also evict overdue pods there
// that have no higher priority, if the argument backfill.overdue says so. A bundle with a victim on such a node is evicted whole, if all
// its pods may be evicted. It returns nil if such pods do not suffice.
func (p *Preemptor) findEvictable(ctx context.Context, a *place.Attempt) *solution {
	due := a.Group.Starving && len(a.Group.HeldNodes) > 0 && !a.Group.Promise.At.After(p.Clock.Now())
	promised := a.Group.Promise.Exists() || a.Group.Promise.Cause != ""
	incomplete := p.Incomplete(a.Group)
	if a = needed(a); a == nil || a.Group.Evictable || !due && !incomplete || !a.CapacityKnown() || p.forbidden(a) != Evicts {
		return nil
	}
	held := map[string]bool{}
	for _, name := range a.Group.HeldNodes {
		held[name] = true
	}
	yields, overdue := p.Yielding(a.Group.Key), p.EvictableOverdue(a)
	mayEvict := func(pod *v1.Pod) bool { return yields(pod) || due && promised && overdue(pod) }
	only, also := map[types.UID]bool{}, map[types.UID]bool{}
	listed := map[gang.Ref]bool{{}: true}
	for _, n := range a.JoinableNodes() {
		onHeld := due && held[n.Node().Name]
		if !onHeld && !incomplete {
			continue
		}
		for _, info := range n.GetPods() {
			pod := info.GetPod()
			if onHeld && mayEvict(pod) || incomplete && yields(pod) {
				only[pod.UID] = true
				p.addGroup(also, listed, source.GangOf(pod), mayEvict)
			}
		}
	}
	if len(only) == 0 {
		return nil
	}
	found, _, _ := p.choose(ctx, a, victimLimits{only: only, also: also})
	if found != nil && p.Quotas != nil {
		gone := eligible.UIDs([][]*v1.Pod{found.gone})
		if !p.Quotas.AdmitsWithout(a.Group, func(pod *v1.Pod) bool { return gone[pod.UID] }) {
			return nil
		}
	}
	return found
}

// addGroup adds the running members of a gang's group that may be evicted, unless the gang is listed already. It lists all gangs of the
// group.
func (p *Preemptor) addGroup(pods map[types.UID]bool, listed map[gang.Ref]bool, ref gang.Ref, mayEvict func(*v1.Pod) bool) {
	if listed[ref] {
		return
	}
	for _, one := range p.Cache.Together(ref) {
		listed[one] = true
		members, _ := p.Cache.Placed(one)
		for _, pod := range members {
			if mayEvict(pod) {
				pods[pod.UID] = true
			}
		}
	}
}

// Yielding returns a function that says whether a pod may be evicted for a gang group because it is Evictable: Cache.Yields, except for
// pods whose eviction the API server has rejected.
func (p *Preemptor) Yielding(to gang.Ref) func(*v1.Pod) bool {
	vetoed, _ := p.Victims.Vetoed(p.Clock.Now())
	yields := byGang(func(pod *v1.Pod) bool { return p.Cache.Yields(pod, to) })
	return func(pod *v1.Pod) bool { return yields(pod) && !vetoed[pod.UID] }
}

// byGang returns the function may, which is called once for all pods of a gang.
func byGang(may func(*v1.Pod) bool) func(*v1.Pod) bool {
	known := map[gang.Ref]bool{}
	return func(pod *v1.Pod) bool {
		ref := source.GangOf(pod).Whole()
		if ref.IsZero() {
			return may(pod)
		}
		answer, ok := known[ref]
		if !ok {
			answer = may(pod)
			known[ref] = answer
		}
		return answer
	}
}

// LowerVictims returns a function that says whether the attempt's group may evict a running pod, with its gang group, because their
// priorities are lower. With quotas it returns false for all pods: what a quota may evict later is not known now.
func (p *Preemptor) LowerVictims(a *place.Attempt) func(*v1.Pod) bool {
	if p.forbidden(a) != Evicts || p.search(a.Group, eligible.NoTimeLimit, victimLimits{}) != nil {
		return func(*v1.Pod) bool { return false }
	}
	vetoed, _ := p.Victims.Vetoed(p.Clock.Now())
	rule := eligible.RuleOf(p.Cache, p.Cache.Priority(a.Lowest()), nil, vetoed)
	allows := func(pod *v1.Pod) bool { return rule.Allows(pod) && eligible.Grace(pod) <= p.Limits().MaxGrace }
	return byGang(func(pod *v1.Pod) bool {
		ref := source.GangOf(pod).Whole()
		if ref.IsZero() {
			return allows(pod)
		}
		return !slices.ContainsFunc(p.Cache.Together(ref), func(one gang.Ref) bool {
			running, _ := p.Cache.Placed(one)
			return slices.ContainsFunc(running, func(member *v1.Pod) bool { return !allows(member) })
		})
	})
}

// EvictableOverdue returns a function that says whether a running pod is overdue, and whether the attempt's group may evict it for its
// promised start (argument backfill.overdue).
func (p *Preemptor) EvictableOverdue(a *place.Attempt) func(*v1.Pod) bool {
	if !p.Limits().EvictOverdue || a.Group.Evictable || p.forbidden(a) != Evicts {
		return func(*v1.Pod) bool { return false }
	}
	now, priority := p.Clock.Now(), p.Cache.Priority(a.Lowest())
	vetoed, _ := p.Victims.Vetoed(now)
	return func(pod *v1.Pod) bool {
		_, overdue := p.Cache.Overdue(pod, now)
		return overdue && p.Cache.Priority(pod) <= priority && !convert.Protected(pod) && !vetoed[pod.UID]
	}
}

// reserveSwap reserves the nodes for the successors of a swap's victims. It returns false if that is not possible. Then, as after every
// swap, no other one is tried for the representative.
func (p *Preemptor) reserveSwap(s *swap, representative *v1.Pod) bool {
	p.swapped.AddAtMost(s.attempt.Group.Key, representative.UID, mostSwapped)
	return p.Cache.ReserveSuccessors(s.restarted, s.places)
}

// mostSwapped bounds the groups of which the latest swap is remembered.
const mostSwapped = 10_000

// Incomplete returns whether a gang of the group has lost members, and fewer than minMember have a node.
func (*Preemptor) Incomplete(g *cache.Group) bool {
	return !g.Alone && len(g.Bound) > 0 && slices.ContainsFunc(g.Gangs, func(one gang.Gang) bool {
		return one.Incomplete && one.Started > 0 && !one.Reached()
	})
}

// restartable is a running group, or a pod without a gang, that may be evicted if it has a plan elsewhere.
type restartable struct {
	running []*v1.Pod
	group   *cache.Group // with stand-ins for the successors of the running pods
	started int64        // when the latest of its pods started
}

// smallerGangs returns the groups, and the pods without a gang, that may be evicted so that the attempt's members take their nodes: with a
// pod where members may join the running ones, fewer pods than the attempt's group, and the priority of its lowest member. The group with
// the fewest pods is first, among equal ones the one that started last.
func (p *Preemptor) smallerGangs(a *place.Attempt) (all []restartable) {
	priority, size := p.Cache.Priority(a.Lowest()), len(a.Group.Bound)+len(a.Group.Pending)
	budgets := p.listBudgets()
	visited := map[gang.Ref]bool{a.Group.Key: true}
	for _, n := range a.JoinableNodes() {
		for _, info := range n.GetPods() {
			pod := info.GetPod()
			key := group.AloneKey(pod)
			if ref := source.GangOf(pod); !ref.IsZero() {
				key = p.Cache.Together(ref)[0]
			}
			if p.Cache.Priority(pod) != priority || visited[key] {
				continue
			}
			visited[key] = true
			r := p.restart(key, pod)
			other := func(pod *v1.Pod) bool { return p.Cache.Priority(pod) != priority }
			if r == nil || len(r.running) >= size || slices.ContainsFunc(r.running, other) || !p.mayRestart(r.running, budgets) {
				continue
			}
			all = append(all, *r)
		}
	}
	slices.SortStableFunc(all, func(x, y restartable) int {
		return cmp.Or(cmp.Compare(len(x.running), len(y.running)), cmp.Compare(y.started, x.started))
	})
	return all
}

// restart returns a pod without a gang, or the group with that key, as restartable; nil if it is not running as a whole.
func (p *Preemptor) restart(key gang.Ref, pod *v1.Pod) *restartable {
	r := &restartable{running: []*v1.Pod{pod}}
	if source.GangOf(pod).IsZero() {
		r.group = group.Alone(group.Successor(pod), "")
		r.started = convert.Started(pod)
		return r
	}
	g, refusal := p.Cache.GroupOf(key)
	if refusal.Exists() || len(g.Pending)+len(g.Future) > 0 || p.Cache.ReservesSuccessors(key) ||
		slices.ContainsFunc(g.Gangs, func(one gang.Gang) bool { return !one.Reached() }) {
		return nil
	}
	if r.group = g.Restarted(p.Cache.Priority); r.group == nil {
		return nil
	}
	r.running = nil
	for _, m := range g.Bound {
		running := g.Pods[m.Pod]
		r.running, r.started = append(r.running, running), max(r.started, convert.Started(running))
	}
	return r
}

// mayRestart returns whether all pods may be evicted together, are then recreated, and scheduled by this profile. They have a controller,
// and no label or budget protects them. The API server has not rejected their eviction, and no named ResourceClaim ties them to their node.
func (p *Preemptor) mayRestart(pods []*v1.Pod, budgets map[string][]budget) bool {
	vetoed, _ := p.Victims.Vetoed(p.Clock.Now())
	allowed := map[string]int{} // by budget, the disruptions that are left
	c := &candidates{budgets: budgets}
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind == "Node" || pod.Spec.SchedulerName != p.Profile.ProfileName() ||
			pod.DeletionTimestamp != nil || convert.Protected(pod) || vetoed[pod.UID] ||
			slices.ContainsFunc(pod.Spec.ResourceClaims, func(claim v1.PodResourceClaim) bool { return claim.ResourceClaimName != nil }) {
			return false
		}
		for _, b := range c.budgetsOf(pod) {
			if _, known := allowed[b.Name]; !known {
				allowed[b.Name] = b.Allowed
			}
			if allowed[b.Name]--; allowed[b.Name] < 0 {
				return false
			}
		}
	}
	return true
}
