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

// Evict looks for victims, reserves the places that they leave and has them leave. It
// returns the node of the speaker's place if there are any. Others are attempts for other members of the group, of
// which the one for whom it costs least is taken.
func (p *Preemptor) Evict(ctx context.Context, a *place.Attempt, speaker *v1.Pod, others ...*place.Attempt) (node string, verdict Verdict) {
	a, found, verdict := p.overChoices(ctx, append([]*place.Attempt{a}, others...))
	if found == nil {
		return "", verdict
	}
	switch {
	case a.Group.Alone:
		if found.gone = p.extended(speaker, found.Places[0].Node, found.gone); found.gone == nil {
			return "", NoHelp
		}
	case p.awaitsEnd(ctx, a, found, speaker):
		return "", Ending
	}
	if len(found.gone) > 0 && !a.Group.Alone {
		p.explain(ctx, a, found)
	}
	why := ""
	if found.revokes != nil {
		why = found.revokes.Revoked(found.gone)
	}
	gone := slices.Concat(found.gone, p.others(ctx, a, found))
	own, ahead := a.Split(found.Places)
	p.Meter.Preemption(len(found.gone))
	p.Reserve(ctx, departure.Reservation{
		Group: a.Group, Lowest: a.Lowest(), Speaker: speaker, Domain: a.Domain(found.Places), Evicted: gone, Places: found.Places, Why: why,
		Planned: gang.Planned{
			Group: a.Group.Key, Places: own, Ahead: ahead, Reserved: true, InOrder: found.InOrder || a.Ordered(),
			Until: p.Clock.Now().Add(max(longestGrace(gone), longest(found.awaits, p.Clock.Now())) + p.Limits().Leave),
		},
	})
	for _, at := range own {
		if at.Pod == convert.PodKey(speaker) {
			node = at.Node
		}
	}
	return node, Evicts
}

// extended returns the victims of a pod without a gang after the profile's extenders have been asked, as kube-scheduler asks them: nil if one of them
// keeps the pod off the node. They know only victims on the node itself.
func (p *Preemptor) extended(pod *v1.Pod, node string, gone []*v1.Pod) []*v1.Pod {
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

// overChoices returns the attempt, of several for different members, whose victims cost least. Without victims the verdict is the
// first one's, unless more is known of another one than that nobody helps. Where that would be too many nodes not all are tried, at least two: those of
// which it is remembered that nobody helps cost nothing, so that the others come next time.
func (p *Preemptor) overChoices(ctx context.Context, some []*place.Attempt) (best *place.Attempt, found *solution, came Verdict) {
	seen := map[*place.Attempt]bool{}
	began := p.searched.Load()
	for i, a := range some {
		if seen[a] {
			continue
		}
		nodes, here := p.searched.Load()-began, int64(len(a.Nodes))
		if len(seen) >= 2 && (nodes > 0 && nodes+here > p.among || int64(len(seen)+1)*here > mostLooks*p.among) {
			if came == Nobody || came == NoHelp {
				came = Untried
			}
			break
		}
		seen[a] = true
		of, s, verdict := p.overGangSets(ctx, a)
		if s != nil && (found == nil || s.before(found)) {
			best, found = of, s
		}
		if i == 0 || came == Nobody && verdict == NoHelp || (came == Nobody || came == NoHelp) && (verdict == Untried || verdict == LeftOut) {
			came = verdict
		}
	}
	if found != nil {
		return best, found, Evicts
	}
	return some[0], nil, came
}

// overGangSets looks for victims: for all that a group needs, or where it can do without some gangs, for the
// set of as few as it can do with for whom the fewest must leave.
func (p *Preemptor) overGangSets(ctx context.Context, a *place.Attempt) (best *place.Attempt, found *solution, came Verdict) {
	fewest, err := a.Least(ctx)
	if err != nil {
		return a, nil, NoHelp
	}
	best, came = a, Surplus
	for i, a := range fewest {
		verdict := Surplus // if the group can do without all who wait
		if len(a.Group.Pending) > 0 {
			verdict = p.may(a)
		}
		if verdict == Evicts {
			var of *place.Attempt
			var s *solution
			if of, s, verdict = p.overMemberSets(ctx, needed(a).Modest()); s != nil && (found == nil || s.before(found)) {
				best, found = of, s
			}
		}
		if i == 0 || verdict == LeftOut {
			came = verdict
		}
	}
	if found != nil {
		return best, found, Evicts
	}
	return a, nil, came
}

// overMemberSets is the first of some attempts for which victims are found. If there is none, the verdict is the first
// one's.
func (p *Preemptor) overMemberSets(ctx context.Context, some []*place.Attempt) (a *place.Attempt, found *solution, came Verdict) {
	for i, a := range some {
		p.Victims.Depart(ctx, a, p.Clock.Now(), p.uncertain(a))
		found, verdict := p.unlessKnownVain(ctx, a)
		if found != nil {
			return a, found, verdict
		}
		if i == 0 {
			came = verdict
		}
	}
	return nil, nil, came
}

// may says whether victims are looked for at all.
func (p *Preemptor) may(a *place.Attempt) Verdict {
	if why := p.forbidden(a); why != Evicts && !p.revokes(a.Group) {
		return why
	}
	switch {
	case needed(a) == nil:
		return Surplus
	case !a.Counted() || a.Group.Holding:
		return NoHelp
	}
	return Evicts
}

// forbidden says why no pods may be evicted for their lower priority, or since their quotas have more than their own; Evicts is that they may.
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

// needed is the attempt for those members for whom others may be evicted: nobody's whose
// gang has its minMember, whatever its match policy asks of those who wait. It is nil if
// there are none. Of a gang that has started and lost some, whoever fits may take the place of one.
func needed(a *place.Attempt) *place.Attempt {
	switch needed := a.Group.Needed(); {
	case len(needed) == 0:
		return nil
	case len(needed) == len(a.Group.Pending), a.Group.Need() > 0: // whom that means is known
		return a
	}
	short := map[gang.Ref]bool{}
	for _, g := range a.Group.Gangs {
		short[g.Ref] = !g.Reached()
	}
	return a.For(slices.DeleteFunc(slices.Clone(a.Group.Pending), func(m gang.Member) bool { return !short[m.Gang] }))
}

// longestGrace is the longest time that a victim may take to leave.
func longestGrace(pods []*v1.Pod) (longest time.Duration) {
	for _, p := range pods {
		longest = max(longest, eligible.Grace(p))
	}
	return longest
}

// longest is the longest time that somebody may take to leave who does so already.
func longest(leaving []*v1.Pod, now time.Time) (most time.Duration) {
	for _, p := range leaving {
		most = max(most, eligible.Takes(p, now))
	}
	return most
}
