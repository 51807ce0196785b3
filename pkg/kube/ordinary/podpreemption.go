// Package ordinary is DefaultPreemption for pods without a gang, with victim bundles as victims.
//
//	podpreemption.go  the rules that differ
//	units.go          which bundles are victims on a node
//	parting.go        what a pod waits for that has others evicted
package ordinary

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/quota"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// PodPreemption is DefaultPreemption of one profile, which evicts for pods without a gang. All
// that it does stays; only what a victim is differs: a member that its gang can spare is
// one like any other pod, and the rest of a gang is one victim, which leaves and counts
// whole, with all of its GangGroup that cannot run without it. Protected pods are none.
type PodPreemption struct {
	preemption.Interface // DefaultPreemption's own rules
	evictor              *departure.Evictor
	stock                *defaultpreemption.DefaultPreemption
	runs                 bool // the profile has it evict
	evict                departure.PreemptPod
	partings             partings

	mu     sync.Mutex // nodes are looked at in parallel
	gangs  map[gang.Ref]*runningGang
	split  map[types.UID]gang.Ref // who is in a part of a gang that may leave by itself
	shared map[string]*leavers    // where nobody but whole gangs leave, by those
	chosen map[string][]*v1.Pod   // victims, by node
	parts  map[string]int         // parts of groups that leave whole, by node, if any do
	barred map[types.UID]bool     // pods that may not be evicted, as the API server has said
	claim  eligible.Claim         // what quotas say; nil if there are none
	below  bool                   // the claim counts more than gangs that borrow
}

// New puts itself between a profile's DefaultPreemption and its rules. It is
// called once, when all plugins of the profile exist and nothing is scheduled yet.
func New(p *departure.Evictor) *PodPreemption {
	o := &PodPreemption{evictor: p}
	for _, e := range p.Profile.EnqueueExtensions() {
		stock, ok := e.(*defaultpreemption.DefaultPreemption)
		if !ok || o.stock != nil {
			continue
		}
		o.Interface, o.stock = stock.Evaluator.Interface, stock
		o.runs = slices.ContainsFunc(p.Profile.ListPlugins().PostFilter.Enabled, func(pl schedulerconfig.Plugin) bool { return pl.Name == stock.Name() })
		stock.Evaluator.Interface = o
		stock.MoreImportantVictim = o.moreImportantVictim
		o.evict = p.InTurn(p.Gently(stock.Executor.PreemptPod))
		stock.Executor.PreemptPod = o.noting(o.evict)
	}
	return o
}

// Runs says whether the profile has DefaultPreemption evict.
func (o *PodPreemption) Runs() bool { return o != nil && o.runs }

// PostFilter has DefaultPreemption's turn and remembers who leaves: until they are seen
// leaving, the next attempt must not count on them. What comes of it is final, or
// DefaultPreemption would have another turn.
func (o *PodPreemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	o.begin()
	result, status := o.stock.PostFilter(ctx, state, pod, m)
	for _, lacks := range []quota.Share{1, math.MaxUint64} { // now with members of gangs that do not borrow as a whole, then below the min of their quotas
		if status.Code() == fwk.Unschedulable && o.claim != nil && o.claim.BelowMin(lacks) {
			o.below = true
			result, status = o.stock.PostFilter(ctx, state, pod, m)
		}
	}
	o.below = false
	switch {
	case status.IsSuccess() && result != nil && result.NominatingInfo != nil:
		now, chosen := o.evictor.Clock.Now(), o.chosen[result.NominatedNodeName]
		o.partings.begin(pod.UID, chosen, now, o.evictor.Victims)
		o.evictor.Cache.Nominate(pod, result.NominatedNodeName)
		o.seeTo(ctx, pod, result.NominatedNodeName, chosen)
	case status.Code() == fwk.Unschedulable:
		status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Reasons()...)
	}
	return result, status
}

// begin forgets what was found out in the attempt before.
func (o *PodPreemption) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gangs, o.split, o.shared = map[gang.Ref]*runningGang{}, map[types.UID]gang.Ref{}, map[string]*leavers{}
	o.chosen, o.parts = map[string][]*v1.Pod{}, map[string]int{}
	o.barred, _ = o.evictor.Victims.Barred(o.evictor.Clock.Now())
}

// PodEligibleToPreemptOthers implements preemption.Interface. It is the first question of
// an attempt. Victims that nobody has seen leaving are waited for like those that are.
func (o *PodPreemption) PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, nominated *fwk.Status) (bool, string) {
	o.begin()
	if quotas := o.evictor.Quotas; quotas != nil && !o.below {
		o.claim = quotas.ClaimPod(pod)
	}
	o.partings.answer(pod.UID)
	if o.waits(pod) {
		return false, "not eligible due to a terminating pod on the nominated node."
	}
	return o.Interface.PodEligibleToPreemptOthers(ctx, pod, nominated)
}

// possible are the victims of one node.
type possible struct {
	single []*preemption.DomainVictim
	gangs  map[gang.Ref][]fwk.PodInfo // members here, the least important last
}

// sort tells victims apart. Pods that are to leave count as leaving, seen or not.
func (o *PodPreemption) sort(all []*preemption.DomainVictim) possible {
	out := possible{gangs: map[gang.Ref][]fwk.PodInfo{}}
	members := map[gang.Ref][]*preemption.DomainVictim{}
	now := o.evictor.Clock.Now()
	for _, v := range all {
		pod := v.Pods()[0].GetPod()
		name := o.gangOf(pod)
		switch {
		case pod.DeletionTimestamp != nil || len(v.Pods()) > 1:
			out.single = append(out.single, v)
		case o.evictor.Victims.Leaves(pod, now):
			if info, err := framework.NewPodInfo(departure.Marked(pod, now)); err == nil {
				out.single = append(out.single, &preemption.DomainVictim{Victim: preemption.NewPodVictim(info, nil, nil)})
			}
		case o.stays(pod):
		case name.IsZero(), o.gang(name).joins[pod.UID]:
			if v.Priority() != o.evictor.Cache.Priority(pod) {
				v = o.victimOf(v.Pods()[0])
			}
			out.single = append(out.single, v)
		default:
			members[name] = append(members[name], v)
		}
	}
	slices.SortStableFunc(out.single, byName)
	for name, here := range members {
		slices.SortStableFunc(here, func(x, y *preemption.DomainVictim) int {
			switch {
			case o.moreImportantVictim(x, y):
				return -1
			case o.moreImportantVictim(y, x):
				return 1
			}
			return byName(x, y)
		})
		for _, v := range here {
			out.gangs[name] = append(out.gangs[name], v.Pods()...)
		}
	}
	return out
}

// moreImportantVictim is DefaultPreemption's order of victims, but for two members of one gang of the same priority: there the one
// on which the other depends, or of the lower rank, is more important.
func (o *PodPreemption) moreImportantVictim(x, y preemption.Victim) bool {
	if len(x.Pods()) == 1 && len(y.Pods()) == 1 {
		a, b := x.Pods()[0].GetPod(), y.Pods()[0].GetPod()
		if name := o.gangOf(a); !name.IsZero() && name == o.gangOf(b) && o.moreImportant(a, b) == 0 {
			if order := o.gang(name).stand.CompareMembers(b, a); order != 0 {
				return order < 0
			}
		}
	}
	return preemption.MoreImportantVictim(x, y)
}

// stays says whether a pod is nobody's victim.
func (o *PodPreemption) stays(pod *v1.Pod) bool {
	return !eligible.RuleOf(o.evictor.Cache, math.MaxInt32, o.claim, o.barred).Allows(pod)
}

// byName is the order of victims that are equal otherwise.
func byName(x, y *preemption.DomainVictim) int {
	return topology.CompareNames(convert.PodKey(x.Pods()[0].GetPod()), convert.PodKey(y.Pods()[0].GetPod()))
}

// SelectVictimsOnNode implements preemption.Interface.
func (o *PodPreemption) SelectVictimsOnNode(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, all []*preemption.DomainVictim, budgets []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	name := node.Node().Name
	here := o.sort(all)
	choose := func(among []*preemption.DomainVictim) ([]*v1.Pod, int, *fwk.Status) {
		return o.Interface.SelectVictimsOnNode(ctx, state.Clone(), pod, node.Snapshot(), among, budgets)
	}
	victims, violations, status := choose(o.spared(here))
	parts := 0
	c := &choice{node: name, pod: pod, broken: map[gang.Ref]bool{}, kept: map[gang.Ref]bool{}}
	if len(here.gangs) > 0 && (!status.IsSuccess() || len(o.lost(victims)) > 0) {
		for {
			if victims, violations, status = choose(o.units(here, c)); !status.IsSuccess() {
				return nil, 0, status
			}
			if !o.breaks(victims, c) {
				break
			}
			// Once more: with those who leave anyway, others need not.
		}
		if len(o.lost(victims)) > 0 {
			all := o.whole(victims, budgets)
			victims, violations, parts = all.pods, all.violations, all.parts
		}
	}
	if !status.IsSuccess() {
		return nil, 0, status
	}
	if len(victims) == 0 {
		return nil, 0, fwk.NewStatus(fwk.Unschedulable, "it waits for those who leave already")
	}
	if o.claim != nil && o.claim.Check(victims) != quota.Admitted {
		return nil, 0, fwk.NewStatus(fwk.Unschedulable, "the quotas of those who would leave do not allow it")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chosen != nil {
		o.chosen[name] = victims
	}
	if o.parts != nil && parts > 0 {
		o.parts[name] = parts
	}
	return victims, violations, nil
}

// once returns a function of the victims on a node that is called once for those that nodes
// share.
func once(victims map[string]*extenderv1.Victims, of func(*extenderv1.Victims) int64) func(node string) int64 {
	type list struct {
		first **v1.Pod
		n     int
	}
	known := map[list]int64{}
	return func(node string) int64 {
		v := victims[node]
		l := list{&v.Pods[0], len(v.Pods)}
		score, ok := known[l]
		if !ok {
			score = of(v)
			known[l] = score
		}
		return score
	}
}

// earliestStart is when the first of the most important victims began to run, in Unix nanoseconds. Whoever has not begun yet
// is later than all who have. By the clock, as upstream asks, two of those differed by when they were looked at.
func earliestStart(v *extenderv1.Victims) int64 {
	first, highest := int64(math.MaxInt64), int32(math.MinInt32)
	for _, p := range v.Pods {
		start := int64(math.MaxInt64)
		if t := p.Status.StartTime; t != nil {
			start = t.UnixNano()
		}
		switch priority := convert.Priority(p); {
		case priority > highest:
			first, highest = start, priority
		case priority == highest:
			first = min(first, start)
		}
	}
	return first
}

// OrderedScoreFuncs implements preemption.Interface. Nodes are compared as ever, but for two
// things: among victims of equal priority those come first that are no gang, which would
// leave whole, and names decide at last.
func (o *PodPreemption) OrderedScoreFuncs(_ context.Context, victims map[string]*extenderv1.Victims) []func(string) int64 {
	o.mu.Lock()
	parts := maps.Clone(o.parts)
	o.mu.Unlock()
	rank := map[string]int{}
	for i, node := range slices.SortedFunc(maps.Keys(victims), topology.CompareNames) {
		rank[node] = i
	}
	short := func(node string) int64 {
		if !o.below {
			return 0
		}
		return -int64(min(o.claim.Shortfall(victims[node].Pods), math.MaxInt64))
	}
	return []func(string) int64{
		short,
		func(node string) int64 { return -victims[node].NumPDBViolations },
		func(node string) int64 { return -int64(o.evictor.Cache.Priority(victims[node].Pods[0])) },
		func(node string) int64 { return -int64(parts[node]) },
		once(victims, func(v *extenderv1.Victims) (sum int64) {
			for _, p := range v.Pods {
				sum -= int64(o.evictor.Cache.Priority(p)) + math.MaxInt32 + 1 // so that each one counts
			}
			return sum
		}),
		func(node string) int64 { return -int64(len(victims[node].Pods)) },
		once(victims, earliestStart),
		func(node string) int64 { return -int64(rank[node]) },
	}
}
