package departure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// Eviction evicts some victims for one preemptor. A bundle of several pods must be evicted whole, although each request may fail alone and
// the process may end between two requests. So it is evicted in three steps. A step begins after the API server has accepted all requests
// of the step before:
//
//	marked  all pods have condition DisruptionTarget: their status says that they are to be evicted
//	first   the pods on nodes where no capacity is needed are evicted
//	last    the pods that free capacity are evicted; until then the preemptor is nominated for their node,
//	        which records what the bundle is evicted for
//
// Single pods are evicted in the first step. Invariant: once a bundle has lost a pod, all its pods are evicted.
type Eviction struct {
	*Evictor
	By          preemption.ExecutorPreemptor
	Evict       PreemptPod
	Plugin      string
	CandidateOf func(victim *v1.Pod) preemption.Candidate
	NeededNodes map[string]bool   // the nodes on which the preemptor needs capacity
	StillWanted func() bool       // whether the eviction is still wanted
	accepted    func(pod *v1.Pod) // called when the API server has accepted a pod's eviction

	bundles *Bundles
	number  int // identifies the eviction in Victims
}

// pluginName is the plugin named as the one that rejects victims at Permit.
const pluginName = config.PluginName

// NewEviction returns an eviction for a preemptor, with a new number. bundles says which of its victims are evicted together.
func (p *Evictor) NewEviction(by preemption.ExecutorPreemptor, bundles *Bundles) *Eviction {
	return &Eviction{
		Evictor: p, By: by, bundles: bundles, number: p.Victims.nextNumber(), Evict: p.Executor.PreemptPod, Plugin: pluginName,
		CandidateOf: func(victim *v1.Pod) preemption.Candidate { return Site{Node: victim.Spec.NodeName} },
		StillWanted: func() bool { return p.StillWaits(by) },
		accepted:    func(*v1.Pod) {},
	}
}

// Failed requests are repeated, first after firstAgain, then after twice as long each time, at most lastAgain.
const (
	firstAgain = time.Second
	lastAgain  = 10 * time.Second
)

// unseenFor is how long a victim without a reservation counts as terminating before the informer shows that.
const unseenFor = 10 * time.Second

// Bundles are the bundles of several pods among the victims of an eviction, and how far these are evicted.
type Bundles struct {
	// BundleOf is the bundle of a victim, by UID. A pod that is evicted alone has none.
	BundleOf map[types.UID]gang.Ref
	// Additional are further pods of these bundles, which another eviction evicts alone and which do not terminate yet. This eviction evicts
	// them, too: the other one might spare them, and a bundle must be evicted whole.
	Additional []*v1.Pod

	whole    map[gang.Ref]gang.Ref // the gangs and sub-groups that are evicted whole, and the bundle of each
	victims  *Victims              // its lock guards the following fields
	marks    map[types.UID]*v1.Pod // marked pods, with the condition
	unclear  map[types.UID]bool    // pods that may have been deleted although the request failed
	hasLost  map[gang.Ref]bool     // bundles that have lost a pod to this eviction
	finished map[gang.Ref]bool     // bundles in hasLost without further pods to evict
}

// Single returns Bundles without any bundle: every pod is evicted alone.
func (p *Evictor) Single() *Bundles {
	return &Bundles{
		BundleOf: map[types.UID]gang.Ref{}, victims: p.Victims, marks: map[types.UID]*v1.Pod{},
		unclear: map[types.UID]bool{}, hasLost: map[gang.Ref]bool{}, finished: map[gang.Ref]bool{},
	}
}

// BundlesOf returns the bundles of some victims, with Additional set.
func (p *Evictor) BundlesOf(victims []*v1.Pod) *Bundles {
	b := p.Single()
	found := eligible.BundlesOf(p.Cache, victims)
	b.BundleOf, b.whole = found.Of, found.Gangs
	for _, ref := range eligible.SortedRefs(found.Gangs) {
		terminating := p.Cache.Terminating(ref.Whole())
		if ref != ref.Whole() {
			terminating = p.Cache.InPart(ref, terminating)
		}
		for _, pod := range terminating {
			if !b.Has(pod) {
				b.BundleOf[pod.UID] = found.Gangs[ref]
				b.Additional = append(b.Additional, pod)
			}
		}
	}
	return b
}

// Has returns whether a victim is evicted in a bundle of several pods.
func (b *Bundles) Has(victim *v1.Pod) bool {
	_, ok := b.BundleOf[victim.UID]
	return ok
}

// Among returns the victims that are evicted in bundles of several pods.
func (b *Bundles) Among(victims []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return !b.Has(p) })
}

// ByBundle returns victims grouped by bundle; a victim without a bundle is a group alone. The largest groups come first, then the highest
// priorities of the first pod. Bundles that have lost a pod are left out.
func (b *Bundles) ByBundle(victims []*v1.Pod) (bundles [][]*v1.Pod) {
	at := map[gang.Ref]int{}
	for _, pod := range victims {
		key, bundled := b.BundleOf[pod.UID]
		i, known := at[key]
		switch {
		case b.broken(pod):
		case bundled && known:
			bundles[i] = append(bundles[i], pod)
		default:
			if bundled {
				at[key] = len(bundles)
			}
			bundles = append(bundles, []*v1.Pod{pod})
		}
	}
	slices.SortStableFunc(bundles, func(x, y []*v1.Pod) int {
		return cmp.Or(cmp.Compare(len(y), len(x)), cmp.Compare(convert.Priority(y[0]), convert.Priority(x[0])))
	})
	return bundles
}

// broken returns whether a victim's bundle has lost a pod.
func (b *Bundles) broken(victim *v1.Pod) bool {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	key, ok := b.BundleOf[victim.UID]
	return ok && b.hasLost[key]
}

// anyPartlyEvicted returns whether any bundle has lost a pod and still has pods to evict.
func (b *Bundles) anyPartlyEvicted() bool {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	return len(b.finished) < len(b.hasLost)
}

// recordRemaining records which pods are not evicted yet: bundles that have lost a pod and have no remaining pod are finished.
func (b *Bundles) recordRemaining(remaining []*v1.Pod) {
	unfinished := map[gang.Ref]bool{}
	for _, pod := range remaining {
		unfinished[b.BundleOf[pod.UID]] = true
	}
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	for key := range b.hasLost {
		if !unfinished[key] {
			b.finished[key] = true
		}
	}
}

// recordAnswer records the result of an eviction request. inMemory says that the victim was only requeued.
func (b *Bundles) recordAnswer(victim *v1.Pod, inMemory bool, err error) {
	key, ok := b.BundleOf[victim.UID]
	if !ok {
		return
	}
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	if err == nil && !inMemory {
		b.hasLost[key] = true
	}
	b.unclear[victim.UID] = b.unclear[victim.UID] || err != nil && mayBeDone(err)
}

// terminates records that a victim terminates or is gone. It counts as lost to this eviction if a request for it had an unclear result.
func (b *Bundles) terminates(victim *v1.Pod) {
	key, ok := b.BundleOf[victim.UID]
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	if ok && b.unclear[victim.UID] {
		b.hasLost[key] = true
	}
}

// mayBeDone returns whether a request may have taken effect although it returned this error.
func mayBeDone(err error) bool {
	return !status.Permanent(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsUnauthorized(err)
}

// marked returns a victim as mark has written it; nil if it is not marked.
func (b *Bundles) marked(victim *v1.Pod) *v1.Pod {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	return b.marks[victim.UID]
}

// mark writes the condition DisruptionTarget into a victim of a bundle, and remembers the result, so that the condition is not written
// again.
func (d *Eviction) mark(ctx context.Context, victim *v1.Pod) error {
	out := victim.DeepCopy()
	if podutil.UpdatePodCondition(&out.Status, disrupted(d.asPreemptor(d.By), victim)) {
		err := schedutil.PatchPodStatus(ctx, d.Profile.ClientSet(), victim.Name, victim.Namespace, &victim.Status, &out.Status)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking %s: %w", convert.PodKey(victim), err)
		}
	}
	d.Victims.mu.Lock()
	defer d.Victims.mu.Unlock()
	d.bundles.marks[victim.UID] = out
	return nil
}

// evict requests the eviction of one victim. It does nothing for a victim that terminates already.
func (d *Eviction) evict(ctx context.Context, victim *v1.Pod) error {
	if d.Terminates(victim) {
		d.bundles.terminates(victim)
		return nil
	}
	inMemory, err := d.Evict(ctx, d.CandidateOf(victim), d.By, cmp.Or(d.bundles.marked(victim), victim), d.Plugin)
	accepted := errors.Is(err, ErrTaken)
	if accepted {
		err = nil
	}
	if inMemory { // the victim is requeued, and may be placed again
		d.Victims.Expect([]*v1.Pod{victim}, d.Clock.Now().Add(unseenFor), d.number)
	}
	d.bundles.recordAnswer(victim, inMemory, err)
	if err == nil && !inMemory && !accepted {
		d.Count(victim, d.By, d.NeededNodes[victim.Spec.NodeName])
	}
	return err
}

// round has the results of sending one request for each victim.
type round struct {
	accepted  []*v1.Pod // the API server has accepted their eviction
	remaining []*v1.Pod // to be requested again
	rejected  []*v1.Pod // must not be evicted
	errs      map[types.UID]error
}

// each calls request for the victims in parallel. After a permanent error, or if the eviction is not wanted any more, it continues only
// with victims of broken bundles. It returns the victims without an error (done), and victims not requested or with a temporary error
// (remaining).
func (r *round) each(
	ctx context.Context, d *Eviction, victims []*v1.Pod, request func(context.Context, *v1.Pod) error,
) (done, remaining []*v1.Pod) {
	errs := make([]error, len(victims))
	requested := make([]bool, len(victims))
	var stop atomic.Bool
	stop.Store(len(r.rejected) > 0)
	workqueue.ParallelizeUntil(ctx, d.Writers, len(victims), func(i int) {
		if requested[i] = d.bundles.broken(victims[i]) || !stop.Load() && d.StillWanted(); !requested[i] {
			return
		}
		if errs[i] = request(ctx, victims[i]); errs[i] != nil && status.Permanent(errs[i]) {
			stop.Store(true)
		}
	})
	for i, victim := range victims {
		switch {
		case requested[i] && errs[i] == nil:
			done = append(done, victim)
			continue
		case errs[i] != nil:
			r.errs[victim.UID] = errs[i]
		}
		if errs[i] != nil && status.Permanent(errs[i]) {
			r.rejected = append(r.rejected, victim)
		} else {
			remaining = append(remaining, victim)
		}
	}
	return done, remaining
}

// sendRequests sends one request for each victim, in the steps of an Eviction, and returns the results.
func (d *Eviction) sendRequests(ctx context.Context, victims []*v1.Pod) *round {
	r := &round{errs: map[types.UID]error{}}
	unmarked := slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool {
		return !d.bundles.Has(p) || d.bundles.marked(p) != nil || d.bundles.broken(p) || !d.Cache.Bound(p) || d.Terminates(p)
	})
	if r.each(ctx, d, unmarked, d.mark); len(r.errs) > 0 {
		r.remaining = slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return slices.Contains(r.rejected, p) })
		return r
	}
	last := func(p *v1.Pod) bool { return d.bundles.Has(p) && d.NeededNodes[p.Spec.NodeName] }
	evict := func(ctx context.Context, victim *v1.Pod) error {
		err := d.evict(ctx, victim)
		if err == nil {
			d.accepted(victim)
		}
		return err
	}
	for _, step := range [][]*v1.Pod{
		slices.DeleteFunc(slices.Clone(victims), last),
		slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return !last(p) }),
	} {
		if slices.ContainsFunc(r.remaining, d.bundles.Has) {
			r.remaining = append(r.remaining, step...)
			continue
		}
		accepted, remaining := r.each(ctx, d, step, evict)
		r.accepted = append(r.accepted, accepted...)
		r.remaining = append(r.remaining, remaining...)
	}
	return r
}

// hooks are the differences between evictions with and without a reservation.
type hooks struct {
	beforeRound func(remaining []*v1.Pod, pause time.Duration)
	// afterRound returns whether to continue after a round. remaining are the victims not evicted yet.
	afterRound func(r *round, remaining []*v1.Pod, pause time.Duration) bool
	// stillNeeded returns the victims of remaining that must still be evicted. It is called after each pause.
	stillNeeded func(remaining []*v1.Pod) []*v1.Pod
}

// run evicts victims until all are evicted or spared. It repeats failed requests. If the eviction is not wanted any more, or a request had
// a permanent error, it evicts only the rest of broken bundles.
func (d *Eviction) run(ctx context.Context, remaining []*v1.Pod, h hooks) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		h.beforeRound(remaining, pause)
		r := d.sendRequests(ctx, remaining)
		for uid, err := range r.errs {
			klog.FromContext(ctx).Error(err, "Cannot evict", "victim", uid, "for", klog.KObj(d.By))
		}
		d.Victims.vetoed(r.rejected, d.Clock.Now())
		d.spare(r.rejected)
		remaining = r.remaining
		if len(r.rejected) > 0 || !d.StillWanted() {
			remaining = d.onlyBroken(remaining)
		}
		if !h.afterRound(r, remaining, pause) || len(remaining) == 0 || !d.wait(pause) {
			return
		}
		remaining = h.stillNeeded(remaining)
		if d.outgrown(remaining) {
			remaining = d.onlyBroken(remaining)
		}
		if len(remaining) == 0 {
			return
		}
	}
}

// outgrown returns whether the eviction of the victims now requires that more gangs are evicted whole than when they were chosen: other
// members have terminated meanwhile.
func (d *Eviction) outgrown(victims []*v1.Pod) bool {
	for ref := range eligible.BundlesOf(d.Cache, victims).Gangs {
		if _, known := d.bundles.whole[ref]; !known {
			return true
		}
	}
	return false
}

// onlyBroken returns the victims of broken bundles, and spares the others.
func (d *Eviction) onlyBroken(remaining []*v1.Pod) (evicted []*v1.Pod) {
	var spared []*v1.Pod
	for _, pod := range remaining {
		if d.bundles.broken(pod) {
			evicted = append(evicted, pod)
		} else {
			spared = append(spared, pod)
		}
	}
	d.spare(spared)
	return evicted
}

// maxHeldBack bounds how long a pod without a gang must not be bound because bundles that are evicted for it are partly evicted.
const maxHeldBack = time.Minute

// noteAwaited records the victims that are not evicted yet. After maxHeldBack all bundles count as finished.
func (d *Eviction) noteAwaited(remaining []*v1.Pod, began time.Time) {
	if d.bundles.recordRemaining(remaining); d.Clock.Since(began) >= maxHeldBack {
		d.bundles.recordRemaining(nil)
	}
}

// EvictRest evicts the rest of bundles that a previous process has evicted in part. Until a bundle is evicted whole, its preemptor is not
// bound, so that another process could find out for which preemptor the bundle is evicted.
func (d *Eviction) EvictRest(ctx context.Context, remaining []*v1.Pod) {
	defer d.Victims.removeUnreserved(d)
	d.begin(remaining)
	began := d.Clock.Now()
	d.run(ctx, remaining, hooks{
		beforeRound: func(remaining []*v1.Pod, pause time.Duration) {
			d.Victims.Expect(remaining, d.Clock.Now().Add(pause+unseenFor), d.number)
		},
		afterRound: func(_ *round, remaining []*v1.Pod, _ time.Duration) bool {
			d.noteAwaited(remaining, began)
			d.activate(ctx, d.By)
			return true
		},
		stillNeeded: func(remaining []*v1.Pod) []*v1.Pod { return remaining },
	})
}

// EvictToMove evicts the running members of a group, for all members of which nodes are reserved elsewhere. If the reservation ends before
// the API server has accepted an eviction, no member is evicted.
func (p *Evictor) EvictToMove(ctx context.Context, representative *v1.Pod, group gang.Ref, running []*v1.Pod) {
	by := p.asPreemptor(p.For(representative, ""))
	by.moves = true
	d := p.NewEviction(by, p.BundlesOf(running))
	d.StillWanted = func() bool { return p.Cache.ReservesSuccessors(group) }
	d.begin(running)
	d.Expect(running)
	go d.EvictRest(context.WithoutCancel(ctx), running)
}

// Expect records that the victims are to be evicted. The record ends some time after their first requests.
func (d *Eviction) Expect(victims []*v1.Pod) {
	d.Victims.Expect(victims, d.Clock.Now().Add(firstAgain+unseenFor), d.number)
}

// begin records in the gang book that bundles are evicted, so that no further members are bound in them.
func (d *Eviction) begin(victims []*v1.Pod) {
	if bundled := d.bundles.Among(victims); len(bundled) > 0 {
		d.Cache.Handle(gang.Evicted{Pods: gangVictims(bundled)})
	}
}

// gangVictims translates pods for the gang book.
func gangVictims(pods []*v1.Pod) (out []gang.Victim) {
	for _, p := range pods {
		out = append(out, gang.Victim{Pod: convert.PodKey(p), UID: string(p.UID)})
	}
	return out
}

// Outdated returns whether any remaining victim must not be evicted alone any more: its gang has fewer than minMember members since the
// decision.
func (p *Evictor) Outdated(bundles *Bundles, remaining []*v1.Pod) bool {
	return slices.ContainsFunc(remaining, func(victim *v1.Pod) bool {
		ref := source.GangOf(victim)
		if ref.IsZero() || bundles.Has(victim) {
			return false
		}
		placed, needed := p.Cache.Placed(ref)
		return len(placed) < needed && slices.ContainsFunc(p.Cache.Terminating(ref), func(p *v1.Pod) bool { return p.UID == victim.UID })
	})
}

// spare cancels the eviction of pods: it records this, and removes their condition DisruptionTarget. Pods that another eviction needs are
// not changed.
func (d *Eviction) spare(pods []*v1.Pod) {
	pods = d.Victims.Spare(pods, d.number, d.Clock.Now())
	if len(pods) > 0 {
		d.Cache.Handle(gang.Spared{Pods: gangVictims(pods)})
		d.Cache.ReleaseSuccessors(pods)
	}
	for _, pod := range pods {
		d.Teller.Writer.Do("spared "+convert.PodKey(pod), func(ctx context.Context) error {
			if d.Victims.Terminates(pod, d.Clock.Now()) {
				return nil // another eviction needs it now
			}
			return d.Teller.Writer.Spare(ctx, pod, d.By.SchedulerName()+": ")
		})
	}
}
