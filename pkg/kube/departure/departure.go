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

// Eviction evicts the victims of one eviction. Requests fail one by one, and a process may end between any two of them; yet a bundle of
// several pods is one victim. It is evicted in three steps, each of which begins when the API server has accepted all of the step before:
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
	NeededNodes map[string]bool   // the nodes on which capacity is needed
	StillWanted func() bool       // whether the eviction is still wanted
	accepted    func(pod *v1.Pod) // the API server has accepted a pod's eviction

	bundles *Bundles
	number  int // of the eviction
}

// pluginName is the plugin that evicts, for pods that wait at Permit.
const pluginName = config.PluginName

// NewEviction returns the eviction of some bundles for a preemptor, with a number of its own.
func (p *Evictor) NewEviction(by preemption.ExecutorPreemptor, bundles *Bundles) *Eviction {
	return &Eviction{
		Evictor: p, By: by, bundles: bundles, number: p.Victims.next(), Evict: p.Executor.PreemptPod, Plugin: pluginName,
		CandidateOf: func(victim *v1.Pod) preemption.Candidate { return Site{Node: victim.Spec.NodeName} },
		StillWanted: func() bool { return p.StillWaits(by) },
		accepted:    func(*v1.Pod) {},
	}
}

// Rejected requests are repeated after a while, twice as long each time.
const (
	firstAgain = time.Second
	lastAgain  = 10 * time.Second
)

// unseenFor is how long a victim without a reservation counts as terminating before the informer shows that.
const unseenFor = 10 * time.Second

// Bundles are the bundles of several pods among some victims, and the progress of their eviction.
type Bundles struct {
	// BundleOf is the bundle of a victim, by UID; a pod that is evicted alone has none.
	BundleOf map[types.UID]gang.Ref
	// Additional are the pods of these bundles that another eviction evicts alone, and that do not terminate yet. That eviction might spare
	// them, and a bundle must not be left in part: so they are evicted, too.
	Additional []*v1.Pod

	victims  *Victims              // its lock guards the following fields
	marks    map[types.UID]*v1.Pod // marked pods, with the condition
	unclear  map[types.UID]bool    // pods that may have been deleted although the request failed
	hasLost  map[gang.Ref]bool     // bundles that have lost a pod to this eviction
	finished map[gang.Ref]bool     // lost bundles without a pod to evict
}

// Single returns Bundles without any bundle: every pod is evicted alone.
func (p *Evictor) Single() *Bundles {
	return &Bundles{
		BundleOf: map[types.UID]gang.Ref{}, victims: p.Victims, marks: map[types.UID]*v1.Pod{},
		unclear: map[types.UID]bool{}, hasLost: map[gang.Ref]bool{}, finished: map[gang.Ref]bool{},
	}
}

// BundlesOf returns the bundles of some victims. Additional has the other pods of these bundles that terminate already.
func (p *Evictor) BundlesOf(victims []*v1.Pod) *Bundles {
	b := p.Single()
	found := eligible.BundlesOf(p.Cache, victims)
	b.BundleOf = found.Of
	for _, ref := range eligible.SortedRefs(found.Gangs) {
		asked := p.Cache.Terminating(ref.Whole())
		if ref != ref.Whole() {
			asked = p.Cache.InPart(ref, asked)
		}
		for _, pod := range asked {
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

// ByBundle returns victims by bundle, the largest first, then by the priority of the first pod. A victim without a bundle stands alone.
// Bundles that have lost a pod are left out.
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

// parted returns whether some bundle has lost a pod and still has pods to evict.
func (b *Bundles) parted() bool {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	return len(b.finished) < len(b.hasLost)
}

// awaits records the pods that are not evicted yet. A bundle that has lost a pod and has none of them is finished.
func (b *Bundles) awaits(remaining []*v1.Pod) {
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

// recordAnswer records the answer to the request to delete a victim.
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

// terminates records that a victim terminates or is gone. Without an unclear request the cause was not this eviction.
func (b *Bundles) terminates(victim *v1.Pod) {
	key, ok := b.BundleOf[victim.UID]
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	if ok && b.unclear[victim.UID] {
		b.hasLost[key] = true
	}
}

// mayBeDone returns whether a request may have been carried out although the answer was an error.
func mayBeDone(err error) bool {
	return !status.Permanent(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsUnauthorized(err)
}

// marked returns a victim with its mark; nil without one.
func (b *Bundles) marked(victim *v1.Pod) *v1.Pod {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	return b.marks[victim.UID]
}

// mark writes the condition of a preempted pod into a victim of a bundle, and remembers the pod, so that the executor does not write the
// condition again.
func (d *Eviction) mark(ctx context.Context, victim *v1.Pod) error {
	out := victim.DeepCopy()
	if podutil.UpdatePodCondition(&out.Status, disrupted(d.known(d.By), victim)) {
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

// evict evicts one victim.
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
	if inMemory { // it is requeued, and may come again
		d.Victims.Expect([]*v1.Pod{victim}, d.Clock.Now().Add(unseenFor), d.number)
	}
	d.bundles.recordAnswer(victim, inMemory, err)
	if err == nil && !inMemory && !accepted {
		d.Count(victim, d.By, d.NeededNodes[victim.Spec.NodeName])
	}
	return err
}

// round is the result of one request for each of some victims.
type round struct {
	accepted  []*v1.Pod // the API server has accepted their eviction
	remaining []*v1.Pod // to be requested again
	rejected  []*v1.Pod // must not be evicted
	errs      map[types.UID]error
}

// each runs a request for some victims in parallel, until the eviction is not wanted any more or a victim must not be evicted. Victims of
// broken bundles are requested in any case. It returns the victims with success, and those without an answer or with a temporary error.
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

// ask sends one request for each victim, in the steps of an Eviction, and returns the answers.
func (d *Eviction) ask(ctx context.Context, victims []*v1.Pod) *round {
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
	beforeRound func(left []*v1.Pod, pause time.Duration)
	// after returns whether to go on after a round, given the remaining victims.
	afterRound func(r *round, left []*v1.Pod, pause time.Duration) bool
	// still returns the victims that are needed after a pause.
	stillNeeded func(left []*v1.Pod) []*v1.Pod
}

// run evicts victims until all are evicted or spared, and repeats failed requests. If the eviction is not wanted any more, or a victim must
// not be evicted, only broken bundles are evicted further.
func (d *Eviction) run(ctx context.Context, remaining []*v1.Pod, h hooks) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		h.beforeRound(remaining, pause)
		r := d.ask(ctx, remaining)
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
		if remaining = h.stillNeeded(remaining); len(remaining) == 0 {
			return
		}
	}
}

// onlyBroken spares victims of complete bundles, and returns the remaining ones.
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

// heldBack bounds how long a pod without a gang is held while its bundles are partly evicted.
const heldBack = time.Minute

// noteAwaited records the victims that are not evicted yet. After heldBack a pod without a gang waits for them no longer.
func (d *Eviction) noteAwaited(remaining []*v1.Pod, began time.Time) {
	if d.bundles.awaits(remaining); d.Clock.Since(began) >= heldBack {
		d.bundles.awaits(nil)
	}
}

// EvictRest evicts the rest of bundles that a previous process has evicted in part. The preemptor is released when all pods of a bundle are
// evicted: a bound preemptor would hide from the next process what the bundle is evicted for.
func (d *Eviction) EvictRest(ctx context.Context, remaining []*v1.Pod) {
	defer d.Victims.release(d)
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

// Expect records that the victims are to be evicted, until they are requested once.
func (d *Eviction) Expect(victims []*v1.Pod) {
	d.Victims.Expect(victims, d.Clock.Now().Add(firstAgain+unseenFor), d.number)
}

// begin keeps members from joining the bundles until the eviction ends.
func (d *Eviction) begin(victims []*v1.Pod) {
	if bundled := d.bundles.Among(victims); len(bundled) > 0 {
		d.Cache.Handle(gang.Evicted{Pods: gangVictims(bundled)})
	}
}

// gangVictims returns pods as the gang book knows them.
func gangVictims(pods []*v1.Pod) (out []gang.Victim) {
	for _, p := range pods {
		out = append(out, gang.Victim{Pod: convert.PodKey(p), UID: string(p.UID)})
	}
	return out
}

// Outdated returns whether a victim cannot be evicted alone any more, because its gang has lost members since.
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

// spare removes what was written about victims that are not evicted after all, unless another eviction needs them. Their gangs go on.
func (d *Eviction) spare(pods []*v1.Pod) {
	pods = d.Victims.Spare(pods, d.number, d.Clock.Now())
	if len(pods) > 0 {
		d.Cache.Handle(gang.Spared{Pods: gangVictims(pods)})
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
