package departure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Reservation is an eviction that was decided: which pods are evicted for which node assignments, for a gang or for a pod without one.
type Reservation struct {
	Group   *cache.Group
	Lowest  *v1.Pod // the pending member of lowest priority
	Speaker *v1.Pod // the representative
	Domain  string  // of the node assignments; "" is the cluster
	Evicted []*v1.Pod
	Places  []gang.Place // of all members
	Planned gang.Planned // what the gang book is told of a gang
	Why     string       // what victims are told; "" is for the preemptor's priority, or its quota
}

// reservation is the departure of the victims of a Reservation.
type reservation struct {
	*Departure
	Reservation
}

// Reserve notes a reservation and evicts its victims in the background.
func (p *Evictor) Reserve(ctx context.Context, of Reservation) {
	by := preemptor{pod: of.Speaker, members: of.Group.Pods, known: p.Cache, why: of.Why}
	if !of.Group.Alone {
		by.gangs = of.Group.Whole()
	}
	r := &reservation{Reservation: of, Departure: p.Depart(by, p.BundlesOf(of.Evicted))}
	number := p.Victims.set(of.Group.Key, of.Evicted)
	r.number = number
	r.To = func(victim *v1.Pod) preemption.Candidate { return Site{victim.Spec.NodeName, of.Domain} }
	r.Stands = func() bool { return p.Victims.current(of.Group.Key, number) && r.reserved() }
	r.took = func(victim *v1.Pod) { p.Victims.took(of.Group.Key, number, victim) }
	r.Room = map[string]bool{}
	for _, at := range of.Places {
		r.Room[at.Node] = true
	}
	victims := slices.Concat(of.Evicted, r.bundles.Also)
	p.Victims.also(of.Group.Key, number, r.bundles.Also)
	r.begin(victims)
	if of.Group.Alone {
		p.Cache.Nominate(of.Speaker, of.Places[0].Node)
		p.Cache.ReserveAlone(of.Speaker, of.Places[0].Node)
		p.Victims.hold(r.Departure)
		p.Victims.alone(of.Group.Key, number, func() bool { return p.StillWaits(by) })
	} else {
		p.Cache.Handle(of.Planned)
		p.Victims.begin(of.Group.Key, number)
		if g, refusal := p.Cache.GroupOf(of.Group.Key); refusal.Is() || len(g.Pending) == 0 {
			p.Victims.Forget(of.Group.Key) // it has gone meanwhile
		}
		r.nominate(ctx)
	}
	go func() {
		r.evict(context.WithoutCancel(ctx), victims)
		p.Victims.release(r.Departure)
	}()
}

// reserved returns whether the node assignments are still kept for the preemptor.
func (r *reservation) reserved() bool {
	if r.Group.Alone {
		node, _ := r.Cache.Place(r.Speaker)
		return node != "" && r.StillWaits(r.By)
	}
	return r.Cache.Reserved(r.Group.Key)
}

// end gives the reservation up since what was planned cannot be: the preemptor is planned anew. node is to be avoided; "" is none.
func (r *reservation) end(node, why string) {
	if r.Group.Alone {
		r.Cache.ReserveAlone(r.Speaker, "")
		r.Victims.Abandon(r.Group.Key)
		return
	}
	r.Cache.Handle(gang.Kept{Group: r.Group.Key, Node: node, Why: why})
}

// nominate tells the scheduler the nominated node of every member; the representative's is written by the scheduler itself
// when its cycle ends.
func (r *reservation) nominate(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for _, at := range r.Planned.Places {
		pod := r.Group.Pods[at.Pod]
		if pod.UID == r.Speaker.UID {
			continue
		}
		if info, err := framework.NewPodInfo(pod); err == nil {
			r.Profile.AddNominatedPod(logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: at.Node})
		}
	}
}

// evict writes the nominated nodes, and then evicts the victims as long as the reservation stands and needs them. A victim
// that must not be evicted ends the reservation; its node is avoided, and what was evicted until then counts in the plan
// that follows.
func (r *reservation) evict(ctx context.Context, left []*v1.Pod) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		err := errors.Join(r.writeNominations(ctx), r.clearLower(ctx))
		if err == nil {
			break
		}
		if !r.Stands() {
			r.spare(left)
			return
		}
		r.warn(fmt.Sprintf("cannot write where the members will be: %v; it is tried again", err))
		if !r.wait(pause) {
			return
		}
		left = r.stillNeeded(ctx, left) // none may be left: the nominated nodes are written all the same
	}
	if len(left) == 0 && r.Group.Alone {
		return // the pod waits for pods that terminate already
	}
	began := r.Clock.Now()
	r.run(ctx, left, hooks{
		before: func([]*v1.Pod, time.Duration) {
			if !r.bundles.parted() {
				began = r.Clock.Now()
			}
		},
		after: func(round *round, left []*v1.Pod, _ time.Duration) bool {
			r.noteAwaited(left, began)
			r.tell(round.took)
			if len(round.refused) > 0 {
				refused := round.refused[0]
				why := r.cannot(refused, round)
				stands := r.Stands()
				if r.warn(why); stands {
					r.end(refused.Spec.NodeName, why)
				}
			}
			if len(round.refused) == 0 || r.Group.Alone {
				r.wake(ctx)
			}
			if i := slices.IndexFunc(left, func(p *v1.Pod) bool { return round.errs[p.UID] != nil }); i >= 0 {
				r.warn(r.cannot(left[i], round) + "; it is tried again")
			}
			return true
		},
		still: func(left []*v1.Pod) []*v1.Pod {
			if r.Group.Alone && !r.stillRight(left) {
				r.end("", "its quotas do not allow the eviction any more")
				r.wake(ctx)
				return r.onlyBroken(left)
			}
			left = r.stillNeeded(ctx, left)
			if !r.Outdated(r.bundles, left) {
				return left
			}
			stands := r.Stands()
			if left = r.onlyBroken(left); stands { // so that the next plan sees which pods run now
				r.end("", "a gang that was to lose a member can spare none any more")
			}
			return left
		},
	})
}

// stillRight returns whether quotas allow what is left of an eviction: a pod that was bound by other means may have taken what the preemptor was to have.
func (r *reservation) stillRight(left []*v1.Pod) bool {
	if r.Quotas == nil || r.Why != "" {
		return true
	}
	claim := r.Quotas.Claim(r.Group, eligible.ForEver)
	if claim == nil {
		return true
	}
	claim.OwnFirst()
	claim.BelowMin(math.MaxUint64)
	return claim.Check(slices.DeleteFunc(slices.Clone(left), r.Terminates)) == quota.Admitted
}

// wake has the representative tried.
func (r *reservation) wake(ctx context.Context) {
	r.Profile.Activate(klog.FromContext(ctx), map[string]*v1.Pod{convert.PodKey(r.Speaker): r.Speaker})
}

func (r *reservation) cannot(pod *v1.Pod, round *round) string {
	return fmt.Sprintf("cannot evict %s on %s: %v", convert.PodKey(pod), pod.Spec.NodeName, round.errs[pod.UID])
}

// passing leaves out, and logs, what the API server will answer the next time, too: nobody
// waits for that.
func passing(ctx context.Context, err error, what string, pod *v1.Pod) error {
	if err == nil || !status.Final(err) {
		return err
	}
	klog.FromContext(ctx).Error(err, what, "pod", klog.KObj(pod))
	return nil
}

// writeNominations writes the node of each member that has a place. Victims leave only
// when all are written: who comes after this process must know what they left for. The
// error is one that may pass.
func (r *reservation) writeNominations(ctx context.Context) error {
	if r.Group.Alone {
		return passing(ctx, r.Teller.Nominate(ctx, r.Speaker, r.Places[0].Pod), "cannot write the nominated node", r.Speaker)
	}
	group, refusal := r.Cache.Group(r.Group.Pods[r.Group.Pending[0].Pod])
	if refusal.Is() || !group.Waiting { // the places are free, and members are being bound: what is written now would stay
		return nil
	}
	errs := make([]error, len(group.Pending))
	workqueue.ParallelizeUntil(ctx, r.Writers, len(group.Pending), func(i int) {
		m := group.Pending[i]
		if group.Places[m.Pod] != "" {
			pod := group.Pods[m.Pod]
			errs[i] = passing(ctx, r.Teller.Nominate(ctx, pod, m.Pod), "cannot write the nominated node", pod)
		}
	})
	return first(errs)
}

// first is one error for many of a kind.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// clearLower takes the nominations of pods back that waited for the same nodes and are
// less important: they look for another place at once instead of waiting for nothing. The
// error is one that may pass.
func (r *reservation) clearLower(ctx context.Context) error {
	var errs []error
	seen := map[string]bool{}
	for _, m := range r.Group.Pending {
		node, _ := r.Cache.Place(r.Group.Pods[m.Pod])
		if node == "" || seen[node] {
			continue
		}
		seen[node] = true
		for _, info := range r.Profile.NominatedPodsForNode(node) {
			pod := info.GetPod()
			if !source.Of(pod).IsZero() || r.Cache.Priority(pod) >= r.Cache.Priority(r.Lowest) || pod.Status.NominatedNodeName == "" {
				continue
			}
			errs = append(errs, passing(ctx, r.Teller.Writer.Pod(ctx, pod, status.Waiting{Node: new(string)}), "cannot clear the nominated node", pod))
		}
	}
	return first(errs)
}

// listed is how many victims an event names.
const listed = 3

// tell records with the gang and its speaker who leaves for them and where the places are;
// the executor has recorded the reverse with each victim.
func (r *reservation) tell(took []*v1.Pod) {
	if len(took) == 0 {
		return
	}
	victims := make([]string, 0, listed)
	for _, v := range took[:min(len(took), listed)] {
		victims = append(victims, convert.PodKey(v)+" on "+v.Spec.NodeName)
	}
	message := "preempts " + strings.Join(victims, ", ")
	if more := len(took) - listed; more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	message += in(", for places in ", r.Domain)
	r.about(func(o runtime.Object) {
		r.Profile.EventRecorder().Eventf(o, took[0], v1.EventTypeNormal, status.ReasonPreempting, "Preempting", "%s", status.Clip(message))
	})
}

func (r *reservation) warn(message string) {
	r.about(func(o runtime.Object) {
		r.Teller.Once("eviction of "+r.Group.Key.ID()+fmt.Sprintf(" %T", o), cache.Note{About: o, Warning: true, Reason: status.ReasonEvictionFailed, Message: message})
	})
}

// about calls say with the speaker and the PodGroups of its group.
func (r *reservation) about(say func(runtime.Object)) {
	say(r.Speaker)
	for _, ref := range r.Group.Whole() {
		if pg := r.Teller.PodGroup(ref); pg != nil {
			say(pg)
		}
	}
}
