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

// Departure evicts the victims of one eviction. Requests fail one by one, and a process may end between any two of
// them; yet a bundle of several pods is one victim. It is evicted in three steps, each of which begins when the API
// server has accepted all of the step before:
//
//	marked  all pods have condition DisruptionTarget: their status says that they are to be evicted
//	first   the pods are evicted that are on nodes where no room is needed
//	last    the pods are evicted that make room: while one of them runs, the preemptor is nominated
//	        for its node, which says what the bundle is evicted for
//
// Single pods are evicted in the first step. When a bundle has lost a pod, its other pods are evicted whatever
// happens: they cannot run without it.
type Departure struct {
	*Evictor
	By     preemption.ExecutorPreemptor
	Evict  PreemptPod
	Plugin string
	To     func(victim *v1.Pod) preemption.Candidate
	Room   map[string]bool   // the nodes on which room is needed
	Stands func() bool       // whether the eviction is still wanted
	took   func(pod *v1.Pod) // the API server has accepted a pod's eviction

	bundles *Bundles
	number  int // of the eviction
}

// pluginName is the plugin that evicts, for pods that wait at Permit.
const pluginName = config.PluginName

// Depart returns the departure of some bundles for a preemptor, with a number of its own.
func (p *Evictor) Depart(by preemption.ExecutorPreemptor, bundles *Bundles) *Departure {
	return &Departure{
		Evictor: p, By: by, bundles: bundles, number: p.Victims.next(), Evict: p.Executor.PreemptPod, Plugin: pluginName,
		To:     func(victim *v1.Pod) preemption.Candidate { return Site{Node: victim.Spec.NodeName} },
		Stands: func() bool { return p.StillWaits(by) },
		took:   func(*v1.Pod) {},
	}
}

// What the API server did not accept is asked again after a while, twice as long each time.
const (
	firstAgain = time.Second
	lastAgain  = 10 * time.Second
)

// unseenFor is how long a victim without a reservation counts as terminating without being seen to.
const unseenFor = 10 * time.Second

// Bundles are the bundles of several pods among some victims, and how far their eviction has come.
type Bundles struct {
	// Of is the bundle of a victim, by UID; a pod that is evicted alone has none.
	Of map[types.UID]gang.Ref
	// Also are the pods of these bundles that another eviction evicts alone, and that were not seen terminating.
	// They might be spared, and would be what is left of a gang: so they are evicted with the rest.
	Also []*v1.Pod

	victims *Victims              // whose lock guards what follows
	marks   map[types.UID]*v1.Pod // pods that were marked, as they are since
	unsure  map[types.UID]bool    // pods that may have been deleted although the answer was an error
	lost    map[gang.Ref]bool     // bundles that have lost a pod to this eviction
	over    map[gang.Ref]bool     // of these, bundles of which no pod is waited for
}

// Single returns no bundles: every pod is evicted alone.
func (p *Evictor) Single() *Bundles {
	return &Bundles{
		Of: map[types.UID]gang.Ref{}, victims: p.Victims, marks: map[types.UID]*v1.Pod{},
		unsure: map[types.UID]bool{}, lost: map[gang.Ref]bool{}, over: map[gang.Ref]bool{},
	}
}

// BundlesOf returns the bundles of some victims.
func (p *Evictor) BundlesOf(victims []*v1.Pod) *Bundles {
	b := p.Single()
	found := eligible.BundlesOf(p.Cache, victims)
	b.Of = found.Of
	for _, ref := range eligible.SortedRefs(found.Gangs) {
		asked := p.Cache.Asked(ref.Whole())
		if ref != ref.Whole() {
			asked = p.Cache.InPart(ref, asked)
		}
		for _, pod := range asked {
			if !b.Has(pod) {
				b.Of[pod.UID] = found.Gangs[ref]
				b.Also = append(b.Also, pod)
			}
		}
	}
	return b
}

// Has returns whether a victim is evicted with others.
func (b *Bundles) Has(victim *v1.Pod) bool {
	_, ok := b.Of[victim.UID]
	return ok
}

// Among returns the victims that are evicted with others.
func (b *Bundles) Among(victims []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return !b.Has(p) })
}

// Units sorts victims by their bundles, the dearest first. Bundles that have lost a pod are left out.
func (b *Bundles) Units(victims []*v1.Pod) (units [][]*v1.Pod) {
	at := map[gang.Ref]int{}
	for _, pod := range victims {
		key, whole := b.Of[pod.UID]
		i, known := at[key]
		switch {
		case b.broken(pod):
		case whole && known:
			units[i] = append(units[i], pod)
		default:
			if whole {
				at[key] = len(units)
			}
			units = append(units, []*v1.Pod{pod})
		}
	}
	slices.SortStableFunc(units, func(x, y []*v1.Pod) int {
		return cmp.Or(cmp.Compare(len(y), len(x)), cmp.Compare(convert.Priority(y[0]), convert.Priority(x[0])))
	})
	return units
}

// broken returns whether a victim's bundle has lost a pod.
func (b *Bundles) broken(victim *v1.Pod) bool {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	key, ok := b.Of[victim.UID]
	return ok && b.lost[key]
}

// parted returns whether some bundle has lost a pod while others of it are waited for.
func (b *Bundles) parted() bool {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	return len(b.over) < len(b.lost)
}

// awaits notes which pods are still waited for.
func (b *Bundles) awaits(left []*v1.Pod) {
	there := map[gang.Ref]bool{}
	for _, pod := range left {
		there[b.Of[pod.UID]] = true
	}
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	for key := range b.lost {
		if !there[key] {
			b.over[key] = true
		}
	}
}

// came notes the answer to the request to delete a victim.
func (b *Bundles) came(victim *v1.Pod, inMemory bool, err error) {
	key, ok := b.Of[victim.UID]
	if !ok {
		return
	}
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	if err == nil && !inMemory {
		b.lost[key] = true
	}
	b.unsure[victim.UID] = b.unsure[victim.UID] || err != nil && mayBeDone(err)
}

// terminates notes that a victim terminates, or is gone. If no request was sent for it, it was not this eviction.
func (b *Bundles) terminates(victim *v1.Pod) {
	key, ok := b.Of[victim.UID]
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	if ok && b.unsure[victim.UID] {
		b.lost[key] = true
	}
}

// mayBeDone returns whether a request may have been carried out although the answer was an error.
func mayBeDone(err error) bool {
	return !status.Final(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsUnauthorized(err)
}

// marked returns a victim as it was marked; nil if it was not.
func (b *Bundles) marked(victim *v1.Pod) *v1.Pod {
	b.victims.mu.Lock()
	defer b.victims.mu.Unlock()
	return b.marks[victim.UID]
}

// mark gives a victim of a bundle the condition that the executor gives a pod right before it deletes it, and remembers
// the victim with it: the condition is not written twice.
func (d *Departure) mark(ctx context.Context, victim *v1.Pod) error {
	out := victim.DeepCopy()
	if podutil.UpdatePodCondition(&out.Status, disrupted(d.By, victim)) {
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
func (d *Departure) evict(ctx context.Context, victim *v1.Pod) error {
	if d.Terminates(victim) {
		d.bundles.terminates(victim)
		return nil
	}
	inMemory, err := d.Evict(ctx, d.To(victim), d.By, cmp.Or(d.bundles.marked(victim), victim), d.Plugin)
	taken := errors.Is(err, ErrTaken)
	if taken {
		err = nil
	}
	if inMemory { // it is requeued, and may come again
		d.Victims.Expect([]*v1.Pod{victim}, d.Clock.Now().Add(unseenFor), d.number)
	}
	d.bundles.came(victim, inMemory, err)
	if err == nil && !inMemory && !taken {
		d.Count(victim, d.By, d.Room[victim.Spec.NodeName])
	}
	return err
}

// round is the outcome of asking for some victims once.
type round struct {
	took    []*v1.Pod // the API server has accepted their eviction
	left    []*v1.Pod // victims that may be asked for again
	refused []*v1.Pod // victims that must not be evicted
	errs    map[types.UID]error
}

// each carries out a request for some victims, several at a time, until the eviction is not wanted any more or a victim
// must not be evicted. Victims of broken bundles are asked for in any case. It returns the victims that were asked for with
// success, and the others.
func (r *round) each(ctx context.Context, d *Departure, victims []*v1.Pod, request func(context.Context, *v1.Pod) error) (done, left []*v1.Pod) {
	errs := make([]error, len(victims))
	asked := make([]bool, len(victims))
	var stop atomic.Bool
	stop.Store(len(r.refused) > 0)
	workqueue.ParallelizeUntil(ctx, d.Writers, len(victims), func(i int) {
		if asked[i] = d.bundles.broken(victims[i]) || !stop.Load() && d.Stands(); !asked[i] {
			return
		}
		if errs[i] = request(ctx, victims[i]); errs[i] != nil && status.Final(errs[i]) {
			stop.Store(true)
		}
	})
	for i, victim := range victims {
		switch {
		case asked[i] && errs[i] == nil:
			done = append(done, victim)
			continue
		case errs[i] != nil:
			r.errs[victim.UID] = errs[i]
		}
		if errs[i] != nil && status.Final(errs[i]) {
			r.refused = append(r.refused, victim)
		} else {
			left = append(left, victim)
		}
	}
	return done, left
}

// ask asks for some victims once, in the steps of a Departure.
func (d *Departure) ask(ctx context.Context, victims []*v1.Pod) *round {
	r := &round{errs: map[types.UID]error{}}
	unmarked := slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool {
		return !d.bundles.Has(p) || d.bundles.marked(p) != nil || d.bundles.broken(p) || !d.Cache.Bound(p) || d.Terminates(p)
	})
	if r.each(ctx, d, unmarked, d.mark); len(r.errs) > 0 {
		r.left = slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return slices.Contains(r.refused, p) })
		return r
	}
	last := func(p *v1.Pod) bool { return d.bundles.Has(p) && d.Room[p.Spec.NodeName] }
	evict := func(ctx context.Context, victim *v1.Pod) error {
		err := d.evict(ctx, victim)
		if err == nil {
			d.took(victim)
		}
		return err
	}
	for _, step := range [][]*v1.Pod{
		slices.DeleteFunc(slices.Clone(victims), last),
		slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return !last(p) }),
	} {
		if slices.ContainsFunc(r.left, d.bundles.Has) {
			r.left = append(r.left, step...)
			continue
		}
		took, left := r.each(ctx, d, step, evict)
		r.took = append(r.took, took...)
		r.left = append(r.left, left...)
	}
	return r
}

// hooks are what differs between evictions with and without a reservation.
type hooks struct {
	before func(left []*v1.Pod, pause time.Duration)
	// after returns whether to go on when a round is over and so many victims are left.
	after func(r *round, left []*v1.Pod, pause time.Duration) bool
	// still returns the victims that are still to be evicted, after a pause.
	still func(left []*v1.Pod) []*v1.Pod
}

// run evicts victims until all are evicted or spared: what the API server did not accept is asked again. When the
// eviction is not wanted any more, or a victim must not be evicted, only broken bundles are evicted further.
func (d *Departure) run(ctx context.Context, left []*v1.Pod, h hooks) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		h.before(left, pause)
		r := d.ask(ctx, left)
		for uid, err := range r.errs {
			klog.FromContext(ctx).Error(err, "Cannot evict", "victim", uid, "for", klog.KObj(d.By))
		}
		d.Victims.vetoed(r.refused, d.Clock.Now())
		d.spare(r.refused)
		left = r.left
		if len(r.refused) > 0 || !d.Stands() {
			left = d.onlyBroken(left)
		}
		if !h.after(r, left, pause) || len(left) == 0 || !d.wait(pause) {
			return
		}
		if left = h.still(left); len(left) == 0 {
			return
		}
	}
}

// onlyBroken spares the victims whose bundles have lost no pod, and returns the others.
func (d *Departure) onlyBroken(left []*v1.Pod) (evicted []*v1.Pod) {
	var spared []*v1.Pod
	for _, pod := range left {
		if d.bundles.broken(pod) {
			evicted = append(evicted, pod)
		} else {
			spared = append(spared, pod)
		}
	}
	d.spare(spared)
	return evicted
}

// heldBack is how long at the most a pod without a gang is held while bundles are evicted for it in part: since the
// first of them has lost a pod.
const heldBack = time.Minute

// noteAwaited notes which victims are still waited for. A pod without a gang is released when it has waited for the rest of a bundle for heldBack.
func (d *Departure) noteAwaited(left []*v1.Pod, began time.Time) {
	if d.bundles.awaits(left); d.Clock.Since(began) >= heldBack {
		d.bundles.awaits(nil)
	}
}

// Leave evicts what is left of bundles that a process before this one has evicted in part.
//
// The preemptor would go wherever the first pod terminates, and a process that begins then would not know what the others
// were to be evicted for. So the preemptor is released when all pods of a bundle are evicted.
func (d *Departure) Leave(ctx context.Context, left []*v1.Pod) {
	defer d.Victims.release(d)
	d.begin(left)
	began := d.Clock.Now()
	d.run(ctx, left, hooks{
		before: func(left []*v1.Pod, pause time.Duration) {
			d.Victims.Expect(left, d.Clock.Now().Add(pause+unseenFor), d.number)
		},
		after: func(_ *round, left []*v1.Pod, _ time.Duration) bool {
			d.noteAwaited(left, began)
			d.activate(ctx, d.By)
			return true
		},
		still: func(left []*v1.Pod) []*v1.Pod { return left },
	})
}

// Expect notes that the victims are to be evicted, until they have been asked for once.
func (d *Departure) Expect(victims []*v1.Pod) {
	d.Victims.Expect(victims, d.Clock.Now().Add(firstAgain+unseenFor), d.number)
}

// begin keeps members from joining the bundles until these are gone, or spared.
func (d *Departure) begin(victims []*v1.Pod) {
	if whole := d.bundles.Among(victims); len(whole) > 0 {
		d.Cache.Handle(gang.Evicted{Pods: named(whole)})
	}
}

// named returns pods as the gang book knows them.
func named(pods []*v1.Pod) (out []gang.Victim) {
	for _, p := range pods {
		out = append(out, gang.Victim{Pod: convert.PodKey(p), UID: string(p.UID)})
	}
	return out
}

// Outdated returns whether one of some victims cannot be evicted alone any more: its gang has lost others since.
func (p *Evictor) Outdated(bundles *Bundles, left []*v1.Pod) bool {
	return slices.ContainsFunc(left, func(victim *v1.Pod) bool {
		ref := source.Of(victim)
		if ref.IsZero() || bundles.Has(victim) {
			return false
		}
		stay, least := p.Cache.Placed(ref)
		return len(stay) < least && slices.ContainsFunc(p.Cache.Asked(ref), func(p *v1.Pod) bool { return p.UID == victim.UID })
	})
}

// spare takes back what was written about victims that are not evicted after all, unless another eviction needs them.
// Their gangs go on.
func (d *Departure) spare(pods []*v1.Pod) {
	pods = d.Victims.Back(pods, d.number, d.Clock.Now())
	if len(pods) > 0 {
		d.Cache.Handle(gang.Spared{Pods: named(pods)})
	}
	for _, pod := range pods {
		d.Teller.Writer.Do("spared "+convert.PodKey(pod), func(ctx context.Context) error {
			if d.Victims.Leaves(pod, d.Clock.Now()) {
				return nil // another eviction needs it now
			}
			return d.Teller.Writer.Spare(ctx, pod, d.By.SchedulerName()+": ")
		})
	}
}
