// Package preempt finds the pods that must leave so that a gang has room, and has them
// leave.
//
//	preempt.go        a Preemptor evicts for the gangs of one profile
//	candidates.go     who may be evicted
//	crews.go          which of a gang leave together
//	choose.go         who is, and the plan that follows
//	byplans.go        who is, where what a node takes does not say enough
//	quotas.go         what quotas say of who may be, and whether that is enough
//	within.go         who is, where quotas decide as well
//	cover.go          who must leave besides, so that quotas have enough
//	parties.go        who of the candidates may leave by himself
//	whatif.go         who is still a candidate when some have left, or are to stay
//	ending.go         for whom it is waited a moment, since others end by themselves
//	vain.go           where nobody was found, and need not be looked for again
//	explain.go        why there
//	leavers.go        who might have been
//	others.go         who is to leave for others, and is asked for this gang, too
//	victims.go        who was asked to leave and is still there
//	leaving.go        for whom a reservation waits
//	execution.go      the eviction itself, in the background
//	departure.go      how its victims leave: groups in steps
//	wholes.go         which groups leave whole, and how far they are
//	needless.go       who need not leave any more before it is asked again
//	resume.go         gangs that a process before this one has had leave in part
//	gently.go         members that wait at Permit go back and are not deleted
//	truly.go          what victims are told, where priorities are not the reason
//	revoke.go         who leaves since its quota has had too much for long
//	podpreemption.go  DefaultPreemption, which evicts for single pods, with gangs as victims
//	units.go          who leaves with whom then
//	parting.go        for whom a pod waits that has others evicted
//	held.go           and as long as a group has left for it in part
//
// Which victims are best is decided by package evict. Who is told what, and in which
// words, is package status's.
package preempt

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Options are what a Preemptor needs.
type Options struct {
	Profile framework.Framework
	Cache   *cache.Cache
	Teller  *status.Teller
	Meter   *status.Meter
	// Victims are those of all profiles.
	Victims *Victims
	Clock   clock.Clock
	// Ended is closed when the process ends; nil means that it does not.
	Ended <-chan struct{}
	// Writers is how many requests an eviction has under way at a time.
	Writers int
	// Limits are those of now: they may change while the scheduler runs.
	Limits func() Limits
	// Quotas say who may be evicted for whom, besides priorities; nil means that nobody has any.
	Quotas Quotas
}

// Limits are what users allow evictions.
type Limits struct {
	// Leave is how long after its grace period a victim is waited for.
	Leave time.Duration
	// MaxGrace is the longest grace period of a victim whose node is not the last choice.
	MaxGrace time.Duration
	// Enabled false makes every answer Off.
	Enabled bool
}

// Preemptor evicts for the gangs of one profile.
type Preemptor struct {
	Options
	Executor *preemption.Executor // evicts, one pod after the other
	budgets  policylisters.PodDisruptionBudgetLister
	pods     corelisters.PodLister
	there    toolscache.Store // what pods lists, by namespace/name
	features feature.Features
	vain     vain
	held     held
	patient  patient
	again    again
	searched atomic.Int64 // nodes on which victims were looked for
	among    int64        // mostAmongNodes
}

// New returns the Preemptor of a profile.
func New(o Options) *Preemptor {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	p := &Preemptor{
		Options:  o,
		Executor: preemption.NewExecutor(o.Profile, features),
		features: features, among: mostAmongNodes,
		budgets: o.Profile.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
		pods:    o.Profile.SharedInformerFactory().Core().V1().Pods().Lister(),
		there:   o.Profile.SharedInformerFactory().Core().V1().Pods().Informer().GetStore(),
	}
	p.Executor.PreemptPod = p.inTurn(p.gently(p.truly(p.Executor.PreemptPod)))
	return p
}

// Verdict is what came of the search for victims.
type Verdict = status.Preemption

// The verdicts, as status words them.
const (
	Evicts = status.PreemptionEvicts
	Off    = status.PreemptionOff
	Never  = status.PreemptionNever
	Nobody = status.PreemptionNobody
	NoHelp = status.PreemptionNoHelp

	Surplus = status.PreemptionSurplus
	LeftOut = status.PreemptionLeftOut
	Untried = status.PreemptionUntried
	Ending  = status.PreemptionEnding
)

// Evict looks for victims, reserves the places that they leave and has them leave. It
// returns the node of the speaker's place if there are any. Others are attempts for other members of the group, of
// which the one for whom it costs least is taken.
func (p *Preemptor) Evict(ctx context.Context, a *place.Attempt, speaker *v1.Pod, others ...*place.Attempt) (node string, verdict Verdict) {
	a, found, verdict := p.findAmong(ctx, append([]*place.Attempt{a}, others...))
	if found == nil {
		return "", verdict
	}
	if p.awaitsEnd(ctx, a, found, speaker) {
		return "", Ending
	}
	if len(found.gone) > 0 {
		p.explain(ctx, a, found)
	}
	gone := slices.Concat(found.gone, p.others(ctx, a, found))
	e := &execution{
		Preemptor: p, group: a.Group, lowest: a.Lowest(), number: p.Victims.set(a.Group.Key, gone), speaker: speaker, domain: a.Domain(found.Places),
	}
	leave := e.depart(gone, found.Places)
	own, ahead := a.Split(found.Places)
	p.Cache.Handle(gang.Planned{
		Group: a.Group.Key, Places: own, Ahead: ahead, Reserved: true, InOrder: found.InOrder || a.Ordered(),
		Until: p.Clock.Now().Add(max(longestGrace(gone), longest(found.awaits, p.Clock.Now())) + p.Limits().Leave),
	})
	p.Victims.begin(a.Group.Key, e.number)
	if g, refusal := p.Cache.GroupOf(a.Group.Key); refusal.Is() || len(g.Pending) == 0 {
		p.Victims.Forget(a.Group.Key) // it has gone meanwhile
	}
	p.nominate(ctx, a, own, speaker)
	p.Meter.Preemption(len(found.gone))
	go e.evict(context.WithoutCancel(ctx), leave)

	for _, at := range own {
		if at.Pod == convert.PodKey(speaker) {
			node = at.Node
		}
	}
	return node, Evicts
}

// mostAmongNodes bounds the nodes on which victims are looked for, in all, for several attempts; mostLooks times as many are looked at to see whether anything
// has changed there.
const mostAmongNodes, mostLooks = 16_000, 10

// findAmong is find for the first of some attempts for whose members it costs least. Without one the verdict is the
// first one's, unless more is known of another one than that nobody helps. Where that would be too many nodes not all are tried, at least two: those of
// which it is remembered that nobody helps cost nothing, so that the others come next time.
func (p *Preemptor) findAmong(ctx context.Context, some []*place.Attempt) (best *place.Attempt, found *solution, came Verdict) {
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
		of, s, verdict := p.find(ctx, a)
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

// find looks for victims: for all that a group needs, or where it can do without some gangs, for the
// set of as few as it can do with for whom the fewest must leave.
func (p *Preemptor) find(ctx context.Context, a *place.Attempt) (best *place.Attempt, found *solution, came Verdict) {
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
			if of, s, verdict = p.modestly(ctx, needed(a).Modest()); s != nil && (found == nil || s.before(found)) {
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

// modestly is the first of some attempts for which victims are found. If there is none, the verdict is the first
// one's.
func (p *Preemptor) modestly(ctx context.Context, some []*place.Attempt) (a *place.Attempt, found *solution, came Verdict) {
	for i, a := range some {
		p.Victims.Depart(ctx, a, p.Clock.Now(), p.uncertain(a))
		found, verdict := p.search(ctx, a)
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
	if !p.Limits().Enabled {
		return Off
	}
	for _, m := range a.Group.Pending {
		if convert.NeverPreempts(a.Group.Pods[m.Pod]) {
			return Never
		}
	}
	switch {
	case needed(a) == nil:
		return Surplus
	case !a.Counted() || a.Group.Holding:
		return NoHelp
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
		longest = max(longest, grace(p))
	}
	return longest
}

// longest is the longest time that somebody may take to leave who does so already.
func longest(leaving []*v1.Pod, now time.Time) (most time.Duration) {
	for _, p := range leaving {
		most = max(most, takes(p, now))
	}
	return most
}

// nominate has every member's nominated node known to the scheduler; the speaker's is
// written by the scheduler itself when its cycle ends.
func (p *Preemptor) nominate(ctx context.Context, a *place.Attempt, places []gang.Place, speaker *v1.Pod) {
	logger := klog.FromContext(ctx)
	for _, at := range places {
		pod := a.Group.Pods[at.Pod]
		if pod.UID == speaker.UID {
			continue
		}
		if info, err := framework.NewPodInfo(pod); err == nil {
			p.Profile.AddNominatedPod(logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: at.Node})
		}
	}
}
