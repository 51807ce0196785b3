package ordinary

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/kube/departure"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// partings remembers, by the pod that DefaultPreemption evicts for, who leaves for it: until
// they are seen leaving it must not evict others instead.
type partings struct {
	mu    sync.Mutex
	of    map[types.UID]*parting
	asked map[types.UID]chan struct{} // closed by a cycle of the pod that finds no room
}

type parting struct {
	pods   []*v1.Pod
	took   map[types.UID]bool // those whose leaving the API server has taken
	failed bool               // one could not be evicted; the executor asks no more
	again  bool               // those whom it asks no more are asked again
	until  time.Time

	to     preemption.Candidate
	groups *departure.Bundles // of to; nil before the executor comes for the first
	over   chan struct{}      // closed when the executor need not wait for them
}

// at returns the parting for a pod. p.mu is held.
func (p *partings) at(by types.UID, now time.Time) *parting {
	if p.of == nil {
		p.of = map[types.UID]*parting{}
	}
	e := p.of[by]
	if e == nil {
		maps.DeleteFunc(p.of, func(_ types.UID, e *parting) bool { return now.After(e.until) })
		e = &parting{took: map[types.UID]bool{}, until: now.Add(departure.UnseenFor)}
		p.of[by] = e
	}
	return e
}

// begin notes who leaves for a pod. The executor may have come for them before, and even be done:
// so it is a departure that says of groups which leave whole who is expected to leave, and who
// does not after all.
func (p *partings) begin(by types.UID, pods []*v1.Pod, now time.Time, victims *departure.Victims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.at(by, now)
	e.pods = pods
	victims.Expect(e.alone(), now.Add(departure.UnseenFor), departure.Ordinary)
	victims.Back(e.stay(), departure.Ordinary, now)
}

// alone are those who leave without a group, as far as that is known.
func (e *parting) alone() []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(e.pods), func(p *v1.Pod) bool { return e.groups != nil && e.groups.Has(p) })
}

// came notes what came of one request, and returns whom the executor does not ask, or in vain. They stay, but
// for those who are to be asked again since the error may pass: once for all of them.
func (p *partings) came(by types.UID, victim *v1.Pod, err error, now time.Time) (stay, again []*v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.at(by, now)
	if err == nil {
		e.took[victim.UID] = true
	} else {
		e.failed = true
	}
	if err != nil && !status.Final(err) && !e.again {
		e.again, again = true, e.unasked()
	}
	return e.stay(), again
}

// unasked are those who leave without a group and have not been let go, as the executor knows them: it may be
// faster than the cycle that has chosen them.
func (e *parting) unasked() []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(e.to.Victims().Pods), func(p *v1.Pod) bool {
		return p.DeletionTimestamp != nil || e.took[p.UID] || e.groups.Has(p)
	})
}

// stay lists who was never asked to leave, or in vain, once the executor asks no more. It asks
// only those who leave alone.
func (e *parting) stay() (pods []*v1.Pod) {
	if !e.failed {
		return nil
	}
	return slices.DeleteFunc(e.alone(), func(p *v1.Pod) bool { return e.took[p.UID] })
}

// comes notes whom an executor has come for, and says whether this is the first time. Then bundles
// finds theirs.
func (p *partings) comes(by types.UID, to preemption.Candidate, now time.Time, bundles func([]*v1.Pod) *departure.Bundles) (groups *departure.Bundles, over chan struct{}, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.at(by, now)
	if first = e.to != to; first {
		e.to, e.groups, e.over = to, bundles(to.Victims().Pods), make(chan struct{})
	}
	return e.groups, e.over, first
}

// awaited lists who leaves for a pod, and forgets that with done.
func (p *partings) awaited(by types.UID) []*v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.of[by]; e != nil {
		return e.pods
	}
	return nil
}

func (p *partings) done(by types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, by)
}

// noting makes an executor's evictions known to the partings, and has groups leave whole: the
// executor would stop at the first error, and nobody would ask the rest again. It waits for
// them, as long as its pod must not be bound.
func (o *PodPreemption) noting(evict departure.PreemptPod) departure.PreemptPod {
	return func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		var d *departure.Departure
		bundles, over, first := o.partings.comes(by.UID(), to, o.evictor.Clock.Now(), func(victims []*v1.Pod) *departure.Bundles {
			found := o.evictor.BundlesOf(victims)
			d = o.depart(to.Name(), by, found, evict, plugin)
			d.To = func(*v1.Pod) preemption.Candidate { return to }
			d.Needs = func() bool {
				return o.stillNeeds(ctx, by) && o.stillRight(by, slices.Concat(victims, found.Also))
			}
			d.TakeOver(slices.Concat(found.Among(victims), found.Also), departure.Ordinary)
			return found
		})
		if whole := slices.Concat(bundles.Among(to.Victims().Pods), bundles.Also); first && len(whole) > 0 {
			go d.Leave(context.WithoutCancel(ctx), whole, sync.OnceFunc(func() { close(over) }))
		}
		if bundles.Has(victim) {
			o.await(ctx, over)
			return true, nil // its deletion may be seen before the executor is done, or much later
		}
		inMemory, err := evict(ctx, to, by, victim, plugin)
		if errors.Is(err, departure.ErrTaken) {
			err = nil
		} else if err == nil && !inMemory {
			o.evictor.Count(victim, by, true)
		}
		now := o.evictor.Clock.Now()
		stay, again := o.partings.came(by.UID(), victim, err, now)
		if len(again) > 0 {
			o.askAgain(ctx, to.Name(), by, again, evict, plugin)
		}
		o.evictor.Victims.Back(stay, departure.Ordinary, now)
		return inMemory, err
	}
}

// depart returns a departure for a pod that needs room on a node.
func (o *PodPreemption) depart(
	node string, by preemption.ExecutorPreemptor, bundles *departure.Bundles, evict departure.PreemptPod, plugin string,
) *departure.Departure {
	d := o.evictor.Depart(by, bundles)
	d.Evict = evict
	d.Plugin = plugin
	d.Room = map[string]bool{node: true}
	d.To = func(*v1.Pod) preemption.Candidate { return departure.Site{Node: node} }
	return d
}

// askAgain evicts the pods that the executor asked for in vain, or not at all, when a request has failed: it stops
// there. The preemptor is nominated for their node, which keeps other pods off it.
func (o *PodPreemption) askAgain(
	ctx context.Context, node string, by preemption.ExecutorPreemptor, pods []*v1.Pod, evict departure.PreemptPod, plugin string,
) {
	single := o.evictor.Single()
	d := o.depart(node, by, single, evict, plugin)
	d.Stands = func() bool { return o.evictor.StillWaits(by) && o.nominated(by, node) }
	d.Needs = func() bool {
		return d.Stands() && !o.evictor.Outdated(single, pods) && o.stillNeeds(ctx, by) && o.stillRight(by, pods)
	}
	d.Expect(pods)
	go d.LeaveLater(context.WithoutCancel(ctx), pods)
}

// seeTo evicts the pods, too, that a pod counts on since another eviction is to evict them, and that the API server has not
// accepted yet: the other preemptor may lose its node assignments before that, and need them no more. The executor takes them for
// terminating. Members of gangs are left to the other eviction.
func (o *PodPreemption) seeTo(ctx context.Context, pod *v1.Pod, node string, chosen []*v1.Pod) {
	going := slices.DeleteFunc(slices.Clone(chosen), func(p *v1.Pod) bool {
		return p.DeletionTimestamp == nil || !source.Of(p).IsZero() || o.stays(p) || o.evictor.Cache.Priority(p) >= o.evictor.Cache.Priority(pod)
	})
	if unasked := o.evictor.Victims.Unasked(going, o.evictor.Clock.Now()); len(unasked) > 0 {
		o.askAgain(ctx, node, o.evictor.For(pod, ""), unasked, o.evict, o.stock.Name())
	}
}

// nominated says whether a pod without a gang is nominated for a node, as the scheduler knows or the API server has said: the
// scheduler forgets it when a cycle ends that has begun before that was seen, and was seen in the middle.
func (o *PodPreemption) nominated(by preemption.ExecutorPreemptor, node string) bool {
	if pod, err := o.evictor.Pods.Pods(by.GetNamespace()).Get(by.GetName()); err == nil && pod.UID == by.UID() && pod.Status.NominatedNodeName == node {
		return true
	}
	return slices.ContainsFunc(o.evictor.Profile.NominatedPodsForNode(node), func(i fwk.PodInfo) bool { return i.GetPod().UID == by.UID() })
}

// stillNeeds has a pod tried between two requests, since room may have come: it is for its Filters to
// say, in a cycle of its own. It says false if the pod has a node then.
func (o *PodPreemption) stillNeeds(ctx context.Context, by preemption.ExecutorPreemptor) bool {
	answer := o.partings.ask(by.UID())
	o.evictor.Profile.Activate(klog.FromContext(ctx), by.Pods())
	select {
	case <-answer:
		return true
	case <-o.evictor.Clock.After(departure.AnswerWithin):
	case <-o.evictor.Ended:
	}
	o.partings.answer(by.UID())
	return o.evictor.StillWaits(by)
}

// stillRight says whether quotas would have those leave for a pod who are left. Others may have got what it was to have: a pod that is
// nominated holds nothing of its quota.
func (o *PodPreemption) stillRight(by preemption.ExecutorPreemptor, left []*v1.Pod) bool {
	pod, err := o.evictor.Pods.Pods(by.GetNamespace()).Get(by.GetName())
	if err != nil || o.evictor.Quotas == nil {
		return true
	}
	claim := o.evictor.Quotas.ClaimPod(pod)
	return claim == nil || claim.Check(slices.DeleteFunc(slices.Clone(left), o.evictor.Terminates)) == quota.Admitted
}

// ask asks the next cycle of a pod whether it finds room.
func (p *partings) ask(by types.UID) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[types.UID]chan struct{}{}
	}
	if p.asked[by] == nil {
		p.asked[by] = make(chan struct{})
	}
	return p.asked[by]
}

// answer says that a pod finds none.
func (p *partings) answer(by types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer := p.asked[by]; answer != nil {
		close(answer)
		delete(p.asked, by)
	}
}

// await waits until groups have left, unless that is in a scheduling cycle.
func (o *PodPreemption) await(ctx context.Context, over <-chan struct{}) {
	if !o.evictor.Features.EnableAsyncPreemption {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// waits says whether somebody leaves for a pod whom the scheduler still counts, and has not
// seen leaving.
func (o *PodPreemption) waits(pod *v1.Pod) bool {
	now := o.evictor.Clock.Now()
	for _, victim := range o.partings.awaited(pod.UID) {
		node, err := o.evictor.Profile.SnapshotSharedLister().NodeInfos().Get(victim.Spec.NodeName)
		if err != nil || !o.evictor.Victims.Leaves(victim, now) {
			continue
		}
		if slices.ContainsFunc(node.GetPods(), func(i fwk.PodInfo) bool { return i.GetPod().UID == victim.UID && i.GetPod().DeletionTimestamp == nil }) {
			return true
		}
	}
	o.partings.done(pod.UID)
	return false
}
