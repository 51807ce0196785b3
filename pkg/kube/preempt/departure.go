package preempt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// departure is how the victims of one eviction are asked to leave. Requests fail one by one,
// and a process may end between any two of them; yet a group that leaves whole is one victim.
// So it leaves in three steps, each of which begins when the API server has taken all of the
// one before:
//
//	marked  all of it have condition DisruptionTarget: objects say now who is to leave
//	first   those leave who are where nobody needs room
//	last    those leave who make room: as long as one of them is there, a pod that waits is
//	        nominated for its node, which says for whom
//
// Who leaves alone leaves first. Whoever is left of a group that has lost somebody is asked
// again whatever happens: it cannot run any more.
type departure struct {
	*Preemptor
	number int // of the eviction
	evict  PreemptPod
	to     func(victim *v1.Pod) preemption.Candidate
	by     preemption.ExecutorPreemptor
	plugin string
	room   map[string]bool      // nodes on which room is needed
	stands func() bool          // whether it is still wanted
	took   func(victim *v1.Pod) // the API server has taken its leaving
	needs  func() bool          // whether anybody need leave still; nil is not asked
	groups *wholes
}

// What the API server did not take is asked again after a while, twice as long each time.
const (
	firstAgain = time.Second
	lastAgain  = 10 * time.Second
)

// wait waits before something is asked again. It says false if the process ends.
func (p *Preemptor) wait(pause time.Duration) bool {
	select {
	case <-p.Clock.After(pause):
		return true
	case <-p.Ended:
		return false
	}
}

// round is what came of asking some victims to leave.
type round struct {
	mu   sync.Mutex
	took []*v1.Pod
	left []*v1.Pod // who did not leave
	errs map[types.UID]error
	// refused are those whom nobody may evict.
	refused []*v1.Pod
}

// failed is one of those who were asked in vain, and may be asked again.
func (r *round) failed() *v1.Pod {
	again := r.again()
	if i := slices.IndexFunc(again, func(p *v1.Pod) bool { return r.errs[p.UID] != nil }); i >= 0 {
		return again[i]
	}
	return nil
}

// again are those who may be asked again.
func (r *round) again() []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(r.left), func(p *v1.Pod) bool { return slices.Contains(r.refused, p) })
}

func (r *round) note(victim *v1.Pod, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		return
	}
	r.errs[victim.UID] = err
	if status.Final(err) {
		r.refused = append(r.refused, victim)
	}
}

func (r *round) stop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.refused) > 0
}

// ask asks victims to leave, several at a time, until the departure is not wanted any more or
// somebody must not be evicted.
func (d *departure) ask(ctx context.Context, victims []*v1.Pod) *round {
	r := &round{errs: map[types.UID]error{}}
	if d.mark(ctx, r, victims); len(r.errs) > 0 {
		r.left = victims
		return r
	}
	last := func(p *v1.Pod) bool { return d.groups.has(p) && d.room[p.Spec.NodeName] }
	d.each(ctx, r, slices.DeleteFunc(slices.Clone(victims), last))
	rest := slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool { return !last(p) })
	if slices.ContainsFunc(r.again(), d.groups.has) {
		r.left = append(r.left, rest...)
		return r
	}
	d.each(ctx, r, rest)
	return r
}

// each asks victims to leave. Who is refused does not keep back those whose group has lost
// somebody.
func (d *departure) each(ctx context.Context, r *round, victims []*v1.Pod) {
	workqueue.ParallelizeUntil(ctx, d.Writers, len(victims), func(i int) {
		victim := victims[i]
		asked, err := false, error(nil)
		if d.groups.broken(victim) || !r.stop() && d.stands() {
			asked, err = true, d.one(ctx, victim)
			r.note(victim, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if asked && err == nil {
			r.took = append(r.took, victim)
			d.took(victim)
			return
		}
		r.left = append(r.left, victim)
	})
}

// one asks one victim to leave.
func (d *departure) one(ctx context.Context, victim *v1.Pod) error {
	if d.alreadyLeaves(victim) {
		d.groups.leaves(victim)
		return nil
	}
	inMemory, err := d.evict(ctx, d.to(victim), d.by, d.groups.marked(victim), d.plugin)
	if errors.Is(err, errTaken) {
		d.groups.came(victim, false, nil)
		return nil
	}
	if inMemory { // it goes back to the queue, and may come again
		d.Victims.expect([]*v1.Pod{victim}, d.Clock.Now().Add(unseenFor), d.number)
	}
	d.groups.came(victim, inMemory, err)
	if err == nil && !inMemory {
		d.count(victim, d.by, d.room[victim.Spec.NodeName])
	}
	return err
}

// begin has nobody join the groups that leave whole until they are gone, or spared.
func (d *departure) begin(victims []*v1.Pod) {
	if whole := d.groups.among(victims); len(whole) > 0 {
		d.Cache.Handle(gang.Evicted{Pods: named(whole)})
	}
}

// named are pods as the book knows them.
func named(pods []*v1.Pod) (out []gang.Victim) {
	for _, p := range pods {
		out = append(out, gang.Victim{Pod: convert.PodKey(p), UID: string(p.UID)})
	}
	return out
}

// alreadyLeaves says whether somebody else had the pod deleted meanwhile.
func (p *Preemptor) alreadyLeaves(victim *v1.Pod) bool {
	pod, err := p.pods.Pods(victim.Namespace).Get(victim.Name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return pod.UID != victim.UID || pod.DeletionTimestamp != nil
}

// mark gives those who leave with a group the condition that the executor gives a pod right
// before it is deleted, and remembers them with it: they are not written twice.
func (d *departure) mark(ctx context.Context, r *round, victims []*v1.Pod) {
	todo := slices.DeleteFunc(slices.Clone(victims), func(p *v1.Pod) bool {
		return !d.groups.has(p) || d.groups.isMarked(p) || !d.Cache.Bound(p)
	})
	workqueue.ParallelizeUntil(ctx, d.Writers, len(todo), func(i int) {
		if !r.stop() && d.stands() && !d.alreadyLeaves(todo[i]) {
			r.note(todo[i], d.markOne(ctx, todo[i]))
		}
	})
}

func (d *departure) markOne(ctx context.Context, victim *v1.Pod) error {
	out := victim.DeepCopy()
	if podutil.UpdatePodCondition(&out.Status, disrupted(d.by, victim)) {
		err := schedutil.PatchPodStatus(ctx, d.Profile.ClientSet(), victim.Name, victim.Namespace, &victim.Status, &out.Status)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking %s: %w", convert.PodKey(victim), err)
		}
	}
	d.groups.mark(out)
	return nil
}

// keep sorts out who is still to leave when the departure is not wanted any more: those whose
// group has lost somebody.
func (d *departure) keep(left []*v1.Pod) (leave, stay []*v1.Pod) {
	for _, pod := range left {
		if d.groups.broken(pod) {
			leave = append(leave, pod)
		} else {
			stay = append(stay, pod)
		}
	}
	return leave, stay
}

// heldBack is how long at the most a pod without a gang is kept from going elsewhere while
// groups leave for it in part: since the first of them has left.
const heldBack = time.Minute

// leave has groups leave whole for a pod without a gang, or for nobody any more. Those of whom
// nobody has left stay if somebody must not be evicted, or if nobody waits for it any more.
//
// The pod has no reservation: it would go wherever the first of them leaves, and a process that
// begins then would not know for whom the others were to leave. So it is released when all have
// left, or nobody has; and held again when the first has left after that.
func (d *departure) leave(ctx context.Context, left []*v1.Pod, release func()) {
	defer release()
	d.held.add(d.by.UID(), d.groups)
	defer d.held.drop(d.by.UID(), d.groups)
	d.begin(left)
	began := d.Clock.Now()
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		if !d.groups.parted() {
			began = d.Clock.Now()
		}
		d.Victims.expect(left, d.Clock.Now().Add(pause+unseenFor), d.number)
		round := d.ask(ctx, left)
		for uid, err := range round.errs {
			klog.FromContext(ctx).Error(err, "cannot evict", "victim", uid, "pod", klog.KObj(d.by))
		}
		d.Victims.vetoed(round.refused, d.Clock.Now())
		stays := round.refused
		if left = round.again(); len(stays) > 0 || !d.stands() {
			var whole []*v1.Pod
			left, whole = d.keep(left)
			stays = slices.Concat(stays, whole)
		}
		d.spare(d.Victims.back(stays, d.number, d.Clock.Now()), d.by.SchedulerName())
		if len(round.refused) > 0 && !d.wait(pause) { // the pod would choose the same again at once
			return
		}
		d.groups.awaits(left)
		if d.Clock.Since(began) >= heldBack {
			d.groups.awaits(nil)
		}
		if !d.groups.parted() {
			release()
			d.Profile.Activate(klog.FromContext(ctx), d.by.Pods())
		}
		if len(left) == 0 || !d.wait(pause) {
			return
		}
		if !d.goesOn(ctx, left) {
			return
		}
	}
}

// leaveLater is leave for those who were asked in vain just now.
func (d *departure) leaveLater(ctx context.Context, left []*v1.Pod) {
	if d.wait(firstAgain) && d.goesOn(ctx, left) {
		d.leave(ctx, left, func() {})
	}
}

// goesOn says whether those who are left are asked again. If nobody need leave any more, or may, they are spared, and the pod looks for others.
func (d *departure) goesOn(ctx context.Context, left []*v1.Pod) bool {
	if d.needs == nil || slices.ContainsFunc(left, d.groups.broken) || d.needs() {
		return true
	}
	d.spare(d.Victims.back(left, d.number, d.Clock.Now()), d.by.SchedulerName())
	d.Profile.Activate(klog.FromContext(ctx), d.by.Pods())
	return false
}

// outdated says whether somebody who was to leave alone cannot any more: its gang has lost others since,
// and would be left in part.
func (d *departure) outdated(left []*v1.Pod) bool {
	return slices.ContainsFunc(left, func(victim *v1.Pod) bool {
		of := source.Of(victim)
		if of.IsZero() || d.groups.has(victim) {
			return false
		}
		stay, least := d.Cache.Placed(of)
		return len(stay) < least && slices.ContainsFunc(d.Cache.Asked(of), func(p *v1.Pod) bool { return p.UID == victim.UID })
	})
}

// stillWaits says whether a pod without a gang waits for a node.
func (p *Preemptor) stillWaits(by preemption.ExecutorPreemptor) bool {
	pod, err := p.pods.Pods(by.GetNamespace()).Get(by.GetName())
	return err == nil && pod.UID == by.UID() && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil
}

// spare takes back what was written about victims who do not leave after all. Their gangs go on.
func (p *Preemptor) spare(pods []*v1.Pod, schedulerName string) {
	if len(pods) > 0 {
		p.Cache.Handle(gang.Spared{Pods: named(pods)})
	}
	for _, pod := range pods {
		p.Teller.Writer.Do("spared "+convert.PodKey(pod), func(ctx context.Context) error {
			if p.Victims.Leaves(pod, p.Clock.Now()) {
				return nil // it is asked by others now
			}
			return p.Teller.Writer.Spare(ctx, pod, schedulerName+": ")
		})
	}
}
