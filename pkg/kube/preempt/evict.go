package preempt

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Evict looks for victims, reserves nodes for the members and evicts the victims. It returns the representative's node if it finds
// victims; else "", and the verdict says why. alternatives are attempts for other members of the group; the cheapest attempt is taken.
func (p *Preemptor) Evict(
	ctx context.Context, a *place.Attempt, representative *v1.Pod, alternatives ...*place.Attempt,
) (node string, verdict Verdict) {
	choices := append([]*place.Attempt{a}, alternatives...)
	for i, choice := range choices {
		choices[i] = choice.Existing()
	}
	found := p.findEvictable(ctx, choices[0])
	backfill := found != nil
	if a = choices[0]; found == nil {
		a, found, verdict = p.overChoices(ctx, choices, p.searchChanged)
	}
	var exchanged *swap
	var successors gang.Ref
	if found == nil && (verdict == NoVictims || verdict == NoHelp) {
		if exchanged = p.findSwap(ctx, a, representative); exchanged != nil {
			a, found, successors = exchanged.attempt, exchanged.found, exchanged.restarted.Key
		}
	}
	var forceFit departure.ForceFit
	if found == nil && (verdict == NoVictims || verdict == NoHelp) {
		a, found, forceFit = p.findForceFit(ctx, choices)
	}
	if found == nil {
		return "", verdict
	}
	switch {
	case a.Group.Alone:
		if found.gone = p.askExtenders(representative, found.Places[0].Node, found.gone); found.gone == nil {
			return "", NoHelp
		}
	case p.awaitsEnd(ctx, a, found, representative):
		return "", Ending
	case p.breaksConstraint(a, found): // the next cycle would drop the reservation
		return "", NoHelp
	case exchanged != nil && !p.reserveSwap(exchanged, representative):
		return "", NoHelp
	}
	if len(found.gone) > 0 && !a.Group.Alone {
		p.explain(ctx, a, found)
	}
	why := ""
	if found.revokes != nil {
		why = found.revokes.Revoked(found.gone)
	}
	gone := slices.Concat(found.gone, p.sharedVictims(ctx, a, found))
	own, earlier := a.Split(found.Places)
	p.Meter.Preemption(len(found.gone))
	p.Reserve(ctx, departure.Reservation{
		Group: a.Group, Lowest: a.Lowest(), Representative: representative, Domain: a.Domain(found.Places), Evicted: gone,
		Places: found.Places, Why: why, Successors: successors, Backfill: backfill, ForceFit: forceFit,
		Planned: gang.Planned{
			Group: a.Group.Key, Places: own, Future: earlier, Reserved: true, InOrder: found.InOrder || a.Ordered(),
			Until: p.Clock.Now().Add(max(longestGrace(gone), longest(found.awaits, p.Clock.Now())) + p.Limits().Leave),
		},
	})
	for _, at := range own {
		if at.Pod == convert.PodKey(representative) {
			node = at.Node
		}
	}
	return node, Evicts
}

// breaksConstraint returns whether the node assignments break a topology constraint of the whole group, of which a may have only a part.
func (p *Preemptor) breaksConstraint(a *place.Attempt, found *solution) bool {
	group, refusal := p.Cache.GroupOf(a.Group.Key)
	if refusal.Exists() {
		return false
	}
	planned := *group
	planned.Waiting, planned.Places = true, map[string]string{}
	for _, at := range found.Places {
		planned.Places[at.Pod] = at.Node
	}
	return place.BrokenConstraint(&planned, a.Net.Tree) != ""
}

// askExtenders returns the victims for a pod without a gang after the profile's extenders have changed them, as in kube-scheduler. It
// returns nil if an extender rejects the node, or if an interested extender would get victims on other nodes.
func (p *Preemptor) askExtenders(pod *v1.Pod, node string, gone []*v1.Pod) []*v1.Pod {
	gone = append([]*v1.Pod{}, gone...)
	for _, e := range p.Profile.Extenders() {
		if len(gone) == 0 || !e.SupportsPreemption() || !e.IsInterested(pod) {
			continue
		}
		if slices.ContainsFunc(gone, func(p *v1.Pod) bool { return p.Spec.NodeName != node }) {
			return nil
		}
		now, err := e.ProcessPreemption(pod, map[string]*extenderv1.Victims{node: {Pods: gone}}, p.Profile.SnapshotSharedLister().NodeInfos())
		if err != nil && e.IsIgnorable() {
			continue
		}
		if err != nil || now[node] == nil || len(now[node].Pods) == 0 {
			return nil
		}
		gone = now[node].Pods
	}
	return gone
}

// searchFunc searches victims for one attempt. If it finds none, the verdict says why.
type searchFunc func(context.Context, *place.Attempt) (*solution, Verdict)

// overChoices searches victims for several attempts, which are for different members. It returns the attempt with the cheapest victims, and
// these. If no attempt has victims, the verdict is the first attempt's, or that of a later attempt if it is more specific. The first two
// attempts are always searched; later ones until the searched nodes exceed p.among. Nodes with remembered failures cost almost nothing.
func (p *Preemptor) overChoices(
	ctx context.Context, attempts []*place.Attempt, search searchFunc,
) (best *place.Attempt, found *solution, result Verdict) {
	tried := map[*place.Attempt]bool{}
	began := p.searched.Load()
	for i, a := range attempts {
		if tried[a] {
			continue
		}
		nodes, onAttempt := p.searched.Load()-began, int64(len(a.Nodes))
		if len(tried) >= 2 && (nodes > 0 && nodes+onAttempt > p.among || int64(len(tried)+1)*onAttempt > changeChecksFactor*p.among) {
			if result == NoVictims || result == NoHelp {
				result = Untried
			}
			break
		}
		tried[a] = true
		attempt, s, verdict := p.overGangSets(ctx, a, search)
		if s != nil && (found == nil || s.before(found)) {
			best, found = attempt, s
		}
		if i == 0 || result == NoVictims && verdict == NoHelp ||
			(result == NoVictims || result == NoHelp) && (verdict.Inconclusive() || verdict == LeftOut) {
			result = verdict
		}
	}
	if found != nil {
		return best, found, Evicts
	}
	return attempts[0], nil, result
}

// overGangSets searches victims for each minimal set of gangs that the group can start with. It returns the attempt with the cheapest
// victims, and these. If no set has victims, the verdict is LeftOut if any set has that verdict, else the first set's.
func (p *Preemptor) overGangSets(
	ctx context.Context, a *place.Attempt, search searchFunc,
) (best *place.Attempt, found *solution, result Verdict) {
	fewest, err := a.MinimalAttempts(ctx)
	if err != nil {
		return a, nil, NoHelp
	}
	best, result = a, Surplus
	for i, a := range fewest {
		verdict := Surplus // if the group needs none of the waiting members
		if len(a.Group.Pending) > 0 {
			verdict = p.may(a)
		}
		if verdict == Evicts {
			var attempt *place.Attempt
			var s *solution
			attempt, s, verdict = p.overMemberSets(ctx, needed(a).ReservationAttempts(), search)
			if s != nil && (found == nil || s.before(found)) {
				best, found = attempt, s
			}
		}
		if i == 0 || verdict == LeftOut {
			result = verdict
		}
	}
	if found != nil {
		return best, found, Evicts
	}
	return a, nil, result
}

// overMemberSets returns the first attempt for which victims are found, and these. If there is none, the verdict is the first attempt's.
func (p *Preemptor) overMemberSets(
	ctx context.Context, attempts []*place.Attempt, search searchFunc,
) (a *place.Attempt, found *solution, result Verdict) {
	for i, a := range attempts {
		p.Victims.Depart(ctx, a, p.Clock.Now(), p.uncertain(a))
		found, verdict := search(ctx, a)
		if found != nil {
			return a, found, verdict
		}
		if i == 0 {
			result = verdict
		}
	}
	return nil, nil, result
}

// may returns Evicts if victims may be searched for the attempt; else the verdict says why not.
func (p *Preemptor) may(a *place.Attempt) Verdict {
	if why := p.forbidden(a); why != Evicts && !p.mayRevoke(a.Group) {
		return why
	}
	switch {
	case needed(a) == nil:
		return Surplus
	case !a.CapacityKnown() || a.Group.Holding:
		return NoHelp
	}
	return Evicts
}

// forbidden returns Off without preemption, Never if a pending member never preempts, or else Evicts. It does not consider overdue quotas.
func (p *Preemptor) forbidden(a *place.Attempt) Verdict {
	if a.Group.Alone && p.Compares == nil || !a.Group.Alone && !p.Limits().Enabled {
		return Off
	}
	for _, m := range a.Group.Pending {
		if a.Group.NeverPreempts(m) {
			return Never
		}
	}
	return Evicts
}

// needed returns the attempt restricted to the members that the gangs need to reach minMember; nil if they need none. No pod is evicted for
// surplus members, whatever the match policy.
func needed(a *place.Attempt) *place.Attempt {
	switch needed := a.Group.Needed(); {
	case len(needed) == 0:
		return nil
	case len(needed) == len(a.Group.Pending), a.Group.Need() > 0: // the needed members are known
		return a
	}
	short := map[gang.Ref]bool{}
	for _, g := range a.Group.Gangs {
		short[g.Ref] = !g.Reached()
	}
	return a.For(slices.DeleteFunc(slices.Clone(a.Group.Pending), func(m gang.Member) bool { return !short[m.Gang] }))
}

// longestGrace returns the longest grace period of the pods; 0 without pods.
func longestGrace(pods []*v1.Pod) (longest time.Duration) {
	for _, p := range pods {
		longest = max(longest, eligible.Grace(p))
	}
	return longest
}

// longest returns the longest time from now until one of the terminating pods is gone; 0 without pods.
func longest(terminating []*v1.Pod, now time.Time) (most time.Duration) {
	for _, p := range terminating {
		most = max(most, eligible.TimeToTerminate(p, now))
	}
	return most
}
