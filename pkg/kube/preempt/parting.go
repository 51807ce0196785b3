package preempt

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

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// unseenFor is how long DefaultPreemption's victims count as leaving without being seen to.
const unseenFor = 10 * time.Second

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
	groups *wholes       // of to; nil before the executor comes for the first
	over   chan struct{} // closed when the executor need not wait for them
}

// at returns the parting for a pod. p.mu is held.
func (p *partings) at(by types.UID, now time.Time) *parting {
	if p.of == nil {
		p.of = map[types.UID]*parting{}
	}
	e := p.of[by]
	if e == nil {
		maps.DeleteFunc(p.of, func(_ types.UID, e *parting) bool { return now.After(e.until) })
		e = &parting{took: map[types.UID]bool{}, until: now.Add(unseenFor)}
		p.of[by] = e
	}
	return e
}

// begin notes who leaves for a pod. The executor may have come for them before, and even be done:
// so it is a departure that says of groups which leave whole who is expected to leave, and who
// does not after all.
func (p *partings) begin(by types.UID, pods []*v1.Pod, now time.Time, victims *Victims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.at(by, now)
	e.pods = pods
	victims.expect(e.alone(), now.Add(unseenFor), ordinary)
	victims.back(e.stay(), ordinary, now)
}

// alone are those who leave without a group, as far as that is known.
func (e *parting) alone() []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(e.pods), func(p *v1.Pod) bool { return e.groups != nil && e.groups.has(p) })
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
		return p.DeletionTimestamp != nil || e.took[p.UID] || e.groups.has(p)
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

// comes notes whom an executor has come for, and says whether this is the first time. Then wholes
// finds their groups.
func (p *partings) comes(by types.UID, to preemption.Candidate, now time.Time, wholes func([]*v1.Pod) *wholes) (groups *wholes, over chan struct{}, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.at(by, now)
	if first = e.to != to; first {
		e.to, e.groups, e.over = to, wholes(to.Victims().Pods), make(chan struct{})
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
func (o *PodPreemption) noting(evict PreemptPod) PreemptPod {
	return func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		now, number, whole := o.preemptor.Clock.Now(), 0, []*v1.Pod(nil)
		groups, over, first := o.partings.comes(by.UID(), to, now, func(victims []*v1.Pod) *wholes {
			groups := o.preemptor.wholes(victims)
			number, whole = o.preemptor.Victims.next(), append(groups.among(victims), groups.also...)
			o.preemptor.Victims.takeOver(whole, now.Add(unseenFor), number, ordinary)
			return groups
		})
		d := &departure{
			Preemptor: o.preemptor, number: number, evict: evict, by: by, plugin: plugin, groups: groups,
			to:     func(*v1.Pod) preemption.Candidate { return to },
			room:   map[string]bool{to.Name(): true},
			stands: func() bool { return o.preemptor.stillWaits(by) },
			took:   func(*v1.Pod) {},
			needs: func() bool {
				return o.stillNeeds(ctx, by) && o.stillRight(by, slices.Concat(to.Victims().Pods, groups.also))
			},
		}
		if first && len(whole) > 0 {
			go d.leave(context.WithoutCancel(ctx), whole, sync.OnceFunc(func() { close(over) }))
		}
		if groups.has(victim) {
			o.await(ctx, over)
			return true, nil // its deletion may be seen before the executor is done, or much later
		}
		inMemory, err := evict(ctx, to, by, victim, plugin)
		if errors.Is(err, errTaken) {
			err = nil
		} else if err == nil && !inMemory {
			o.preemptor.count(victim, by, true)
		}
		now = o.preemptor.Clock.Now()
		stay, again := o.partings.came(by.UID(), victim, err, now)
		if len(again) > 0 {
			alone := *d
			o.askAgain(context.WithoutCancel(ctx), &alone, again)
		}
		o.preemptor.Victims.back(stay, ordinary, now)
		return inMemory, err
	}
}

// askAgain has those leave whom the executor asked in vain, or not at all, when a request has failed: it
// stops there. The pod is nominated for their node, and keeps others off it.
func (o *PodPreemption) askAgain(ctx context.Context, d *departure, pods []*v1.Pod) {
	node := d.to(nil).Name()
	d.number, d.groups = d.Victims.next(), newWholes()
	d.stands = func() bool { return d.stillWaits(d.by) && d.nominated(d.by, node) }
	d.needs = func() bool {
		return d.stands() && !d.outdated(pods) && o.stillNeeds(ctx, d.by) && o.stillRight(d.by, pods)
	}
	d.Victims.expect(pods, d.Clock.Now().Add(firstAgain+unseenFor), d.number)
	go d.leaveLater(ctx, pods)
}

// seeTo has those asked, too, whom a pod counts on since they are to leave for somebody else, and the API server has not
// taken that yet: he may lose his places before it does, and need them no more. The executor takes them for leaving. Who
// leaves with a gang is left to him.
func (o *PodPreemption) seeTo(ctx context.Context, pod *v1.Pod, node string, chosen []*v1.Pod) {
	going := slices.DeleteFunc(slices.Clone(chosen), func(p *v1.Pod) bool {
		return p.DeletionTimestamp == nil || !source.Of(p).IsZero() || o.stays(p) || convert.Priority(p) >= convert.Priority(pod)
	})
	unasked := o.preemptor.Victims.unasked(going, o.preemptor.Clock.Now())
	if len(unasked) == 0 {
		return
	}
	o.askAgain(context.WithoutCancel(ctx), &departure{
		Preemptor: o.preemptor, evict: o.evict, plugin: o.stock.Name(),
		by:   preemptor{pod: pod, members: map[string]*v1.Pod{convert.PodKey(pod): pod}},
		to:   func(*v1.Pod) preemption.Candidate { return site{node: node} },
		room: map[string]bool{node: true}, took: func(*v1.Pod) {},
	}, unasked)
}

// nominated says whether a pod without a gang is nominated for a node, as the scheduler knows or the API server has said: the
// scheduler forgets it when a cycle ends that has begun before that was seen, and was seen in the middle.
func (p *Preemptor) nominated(by preemption.ExecutorPreemptor, node string) bool {
	if pod, err := p.pods.Pods(by.GetNamespace()).Get(by.GetName()); err == nil && pod.UID == by.UID() && pod.Status.NominatedNodeName == node {
		return true
	}
	return slices.ContainsFunc(p.Profile.NominatedPodsForNode(node), func(i fwk.PodInfo) bool { return i.GetPod().UID == by.UID() })
}

// stillNeeds has a pod tried between two requests, since room may have come: it is for its Filters to
// say, in a cycle of its own. It says false if the pod has a node then.
func (o *PodPreemption) stillNeeds(ctx context.Context, by preemption.ExecutorPreemptor) bool {
	answer := o.partings.ask(by.UID())
	o.preemptor.Profile.Activate(klog.FromContext(ctx), by.Pods())
	select {
	case <-answer:
		return true
	case <-o.preemptor.Clock.After(answerWithin):
	case <-o.preemptor.Ended:
	}
	o.partings.answer(by.UID())
	return o.preemptor.stillWaits(by)
}

// stillRight says whether quotas would have those leave for a pod who are left. Others may have got what it was to have: a pod that is
// nominated holds nothing of its quota.
func (o *PodPreemption) stillRight(by preemption.ExecutorPreemptor, left []*v1.Pod) bool {
	pod, err := o.preemptor.pods.Pods(by.GetNamespace()).Get(by.GetName())
	if err != nil || o.preemptor.Quotas == nil {
		return true
	}
	claim := o.preemptor.Quotas.ClaimPod(pod)
	return claim == nil || claim.Enough(slices.DeleteFunc(slices.Clone(left), o.preemptor.alreadyLeaves))
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
	if !o.preemptor.features.EnableAsyncPreemption {
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
	now := o.preemptor.Clock.Now()
	for _, victim := range o.partings.awaited(pod.UID) {
		node, err := o.preemptor.Profile.SnapshotSharedLister().NodeInfos().Get(victim.Spec.NodeName)
		if err != nil || !o.preemptor.Victims.Leaves(victim, now) {
			continue
		}
		if slices.ContainsFunc(node.GetPods(), func(i fwk.PodInfo) bool { return i.GetPod().UID == victim.UID && i.GetPod().DeletionTimestamp == nil }) {
			return true
		}
	}
	o.partings.done(pod.UID)
	return false
}
