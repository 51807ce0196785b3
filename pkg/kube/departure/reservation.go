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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Reservation is a decided eviction: the pods to evict and the node assignments, for a gang group or for a pod without a gang.
type Reservation struct {
	Group          *cache.Group
	Lowest         *v1.Pod           // the pending member of lowest priority
	Representative *v1.Pod           // the representative
	Domain         string            // the domain of the node assignments; "" is the cluster
	Evicted        []*v1.Pod         // the victims
	Places         []gang.Assignment // the node assignments of all members
	Planned        gang.Planned      // the event for the gang book
	Successors     gang.Ref          // the evicted group, with nodes reserved elsewhere; zero for none
	Why            string            // why the victims' quota is overdue; "" if priority or the preemptor's quota decided
	Backfill       bool              // the victims are chosen because they are Evictable (scheduling.AnnotationBackfill)
	ForceFit       ForceFit          // the zero value for any other eviction
}

// ForceFit says that a gang evicts gangs of equal priority by the argument forceFit.
type ForceFit struct {
	Victims map[types.UID]bool // the pods that may be victims for this reason only
	Waited  time.Duration      // how long the gang was unschedulable
}

// reservation is a Reservation with the eviction of its victims.
type reservation struct {
	*Eviction
	Reservation
}

// Reserve records a reservation, and evicts its victims in the background.
func (p *Evictor) Reserve(ctx context.Context, decided Reservation) {
	by := preemptor{
		pod: decided.Representative, members: decided.Group.Pods, cache: p.Cache, why: decided.Why, swap: !decided.Successors.IsZero(),
		backfill: decided.Backfill, forceFit: decided.ForceFit,
	}
	if !decided.Group.Alone {
		by.gangs = decided.Group.Whole()
	}
	r := &reservation{Reservation: decided, Eviction: p.NewEviction(by, p.BundlesOf(decided.Evicted))}
	number := p.Victims.recordReservation(decided.Group.Key, decided.Evicted)
	r.number = number
	r.CandidateOf = func(victim *v1.Pod) preemption.Candidate { return Site{victim.Spec.NodeName, decided.Domain} }
	r.StillWanted = func() bool {
		return p.Victims.current(decided.Group.Key, number) && r.reserved() &&
			(decided.Successors.IsZero() || p.Cache.ReservesSuccessors(decided.Successors))
	}
	r.accepted = func(victim *v1.Pod) { p.Victims.recordAccepted(decided.Group.Key, number, victim) }
	r.NeededNodes = map[string]bool{}
	for _, at := range decided.Places {
		r.NeededNodes[at.Node] = true
	}
	victims := slices.Concat(decided.Evicted, r.bundles.Additional)
	p.Victims.addAdditional(decided.Group.Key, number, r.bundles.Additional)
	r.begin(victims)
	if decided.Group.Alone {
		p.Cache.Nominate(decided.Representative, decided.Places[0].Node)
		p.Cache.ReserveSinglePod(decided.Representative, decided.Places[0].Node)
		p.Victims.addUnreserved(r.Eviction)
		p.Victims.setPreemptor(decided.Group.Key, number, func() bool { return p.StillWaits(by) })
	} else {
		p.Cache.Handle(decided.Planned)
		p.Victims.markReserved(decided.Group.Key, number)
		if g, refusal := p.Cache.GroupOf(decided.Group.Key); refusal.Exists() || len(g.Pending) == 0 {
			p.Victims.Forget(decided.Group.Key) // the gang was deleted meanwhile
		}
		r.nominate(ctx)
	}
	go func() {
		r.evict(context.WithoutCancel(ctx), victims)
		p.Victims.removeUnreserved(r.Eviction)
	}()
}

// reserved returns whether the nodes are still reserved for the preemptor.
func (r *reservation) reserved() bool {
	if r.Group.Alone {
		node, _ := r.Cache.Place(r.Representative)
		return node != "" && r.StillWaits(r.By)
	}
	return r.Cache.Reserved(r.Group.Key)
}

// endReservation ends the reservation because a victim cannot be evicted. The preemptor is planned again; its plan avoids node, "" is none.
func (r *reservation) endReservation(node, why string) {
	if r.Group.Alone {
		r.Cache.ReserveSinglePod(r.Representative, "")
		r.Victims.Abandon(r.Group.Key)
		return
	}
	r.Cache.Handle(gang.VictimStays{Group: r.Group.Key, Node: node, Why: why})
}

// nominate sets the nominated node of each member in the scheduler's memory, except the representative's, which the scheduler itself sets.
func (r *reservation) nominate(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for _, at := range r.Planned.Places {
		pod := r.Group.Pods[at.Pod]
		if pod.UID == r.Representative.UID {
			continue
		}
		if info, err := framework.NewPodInfo(pod); err == nil {
			r.Profile.AddNominatedPod(logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: at.Node})
		}
	}
}

// evict writes the nominated nodes, and then evicts the victims as long as the reservation exists and needs them. If a victim must not be
// evicted, the reservation ends and the next plan avoids its node.
func (r *reservation) evict(ctx context.Context, remaining []*v1.Pod) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		err := errors.Join(r.writeNominations(ctx), r.clearLower(ctx))
		if err == nil {
			break
		}
		if !r.StillWanted() {
			r.spare(remaining)
			return
		}
		r.warn(fmt.Sprintf("cannot write the nominated nodes: %v; Muster retries", err))
		if !r.wait(pause) {
			return
		}
		remaining = r.stillNeeded(ctx, remaining) // the nominated nodes are written even if none remains
	}
	if len(remaining) == 0 && r.Group.Alone {
		return // the pod waits for pods that terminate already
	}
	began := r.Clock.Now()
	r.run(ctx, remaining, hooks{
		beforeRound: func([]*v1.Pod, time.Duration) {
			if !r.bundles.anyPartlyEvicted() {
				began = r.Clock.Now()
			}
		},
		afterRound: func(round *round, remaining []*v1.Pod, _ time.Duration) bool {
			r.noteAwaited(remaining, began)
			r.reportVictims(round.accepted)
			if len(round.rejected) > 0 {
				rejected := round.rejected[0]
				why := r.failureMessage(rejected, round)
				holds := r.StillWanted()
				if r.warn(why); holds {
					r.endReservation(rejected.Spec.NodeName, why)
				}
			}
			if len(round.rejected) == 0 || r.Group.Alone {
				r.wake(ctx)
			}
			if i := slices.IndexFunc(remaining, func(p *v1.Pod) bool { return round.errs[p.UID] != nil }); i >= 0 {
				r.warn(r.failureMessage(remaining[i], round) + "; it is tried again")
			}
			return true
		},
		stillNeeded: func(remaining []*v1.Pod) []*v1.Pod {
			if r.Group.Alone && !r.quotasAllow(remaining) {
				r.endReservation("", "its quotas no longer allow the eviction")
				r.wake(ctx)
				return r.onlyBroken(remaining)
			}
			remaining = r.stillNeeded(ctx, remaining)
			if !r.Outdated(r.bundles, remaining) {
				return remaining
			}
			holds := r.StillWanted()
			if remaining = r.onlyBroken(remaining); holds { // so that the next plan sees which pods run now
				r.endReservation("", "a victim belongs to a gang that can no longer spare a member")
			}
			return remaining
		},
	})
}

// quotasAllow returns whether the quotas still allow the eviction of the remaining victims: another pod may have used the preemptor's
// quota. It returns true without quotas, for an eviction from an overdue quota (Why), and for Evictable victims (Backfill).
func (r *reservation) quotasAllow(remaining []*v1.Pod) bool {
	if r.Quotas == nil || r.Why != "" || r.Backfill {
		return true
	}
	search := r.Quotas.SearchVictims(r.Group, eligible.NoTimeLimit)
	if search == nil {
		return true
	}
	search.OwnFirst()
	search.BelowMin(math.MaxUint64)
	return search.Check(slices.DeleteFunc(slices.Clone(remaining), r.Terminates)) == quota.Admitted
}

// wake has the scheduler retry the representative.
func (r *reservation) wake(ctx context.Context) {
	r.Profile.Activate(klog.FromContext(ctx), map[string]*v1.Pod{convert.PodKey(r.Representative): r.Representative})
}

func (r *reservation) failureMessage(pod *v1.Pod, round *round) string {
	return fmt.Sprintf("cannot evict %s on %s: %v", convert.PodKey(pod), pod.Spec.NodeName, round.errs[pod.UID])
}

// onlyTemporary returns err if it is temporary. It logs a permanent error with the text what, and returns nil.
func onlyTemporary(ctx context.Context, err error, what string, pod *v1.Pod) error {
	if err == nil || !status.Permanent(err) {
		return err
	}
	klog.FromContext(ctx).Error(err, what, "pod", klog.KObj(pod))
	return nil
}

// writeNominations writes the assigned node of each member into its status.nominatedNodeName. Victims are evicted only after that, so that
// after a restart the next process knows for which gang they are evicted. The error is temporary.
func (r *reservation) writeNominations(ctx context.Context) error {
	if r.Group.Alone {
		return onlyTemporary(ctx, r.Teller.Nominate(ctx, r.Representative, r.Places[0].Pod), "cannot write the nominated node", r.Representative)
	}
	group, refusal := r.Cache.Group(r.Group.Pods[r.Group.Pending[0].Pod])
	if refusal.Exists() || !group.Waiting { // members are being bound: a nominated node would stay
		return nil
	}
	errs := make([]error, len(group.Pending))
	workqueue.ParallelizeUntil(ctx, r.Writers, len(group.Pending), func(i int) {
		m := group.Pending[i]
		if group.Places[m.Pod] != "" {
			pod := group.Pods[m.Pod]
			errs[i] = onlyTemporary(ctx, r.Teller.Nominate(ctx, pod, m.Pod), "cannot write the nominated node", pod)
		}
	})
	return firstError(errs)
}

// firstError returns the first error that is not nil; nil if there is none.
func firstError(errs []error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// clearLower clears the nominated node of pods without a gang of lower priority that are nominated for a reserved node. These pods are then
// retried at once. The error is temporary.
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
			if !source.GangOf(pod).IsZero() || r.Cache.Priority(pod) >= r.Cache.Priority(r.Lowest) || pod.Status.NominatedNodeName == "" {
				continue
			}
			errs = append(errs,
				onlyTemporary(ctx, r.Teller.Writer.Pod(ctx, pod, status.Waiting{Node: new(string)}), "cannot clear the nominated node", pod))
		}
	}
	return firstError(errs)
}

// mostListed is how many victims an event names.
const mostListed = 3

// reportVictims records an event that names the victims, for the gang and its representative. Each victim has an event of its own.
func (r *reservation) reportVictims(accepted []*v1.Pod) {
	if len(accepted) == 0 {
		return
	}
	victims := make([]string, 0, mostListed)
	for _, v := range accepted[:min(len(accepted), mostListed)] {
		victims = append(victims, convert.PodKey(v)+" on "+v.Spec.NodeName)
	}
	message := "Evicts " + strings.Join(victims, ", ")
	if more := len(accepted) - mostListed; more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	message += prefixed(", to free capacity in ", r.Domain)
	if slices.ContainsFunc(accepted, func(v *v1.Pod) bool { return r.ForceFit.Victims[v.UID] }) {
		message += fmt.Sprintf(", by force fit: the gang was unschedulable for %s (argument forceFit)", r.ForceFit.Waited)
	}
	r.eachObject(func(o runtime.Object) {
		r.Profile.EventRecorder().Eventf(o, accepted[0], v1.EventTypeNormal, reasons.Preempting, "Preempting", "%s", status.Clip(message))
	})
}

// warn publishes a warning for the gang and its representative.
func (r *reservation) warn(message string) {
	r.eachObject(func(o runtime.Object) {
		r.Teller.Once("eviction of "+r.Group.Key.ID()+fmt.Sprintf(" %T", o),
			cache.Note{About: o, Warning: true, Reason: reasons.EvictionFailed, Message: message})
	})
}

// eachObject calls say with the representative and with the PodGroup of each gang in the group.
func (r *reservation) eachObject(say func(runtime.Object)) {
	say(r.Representative)
	for _, ref := range r.Group.Whole() {
		if pg := r.Teller.PodGroup(ref); pg != nil {
			say(pg)
		}
	}
}
