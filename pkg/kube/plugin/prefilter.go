package plugin

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// stateKey is the key under which PreFilter stores the outcome for Filter and PostFilter.
const stateKey fwk.StateKey = "muster.sh/" + Name

// outcome is the result of a member's cycle: a *delayed, *assigned, *reserving or *unschedulable. PreFilter stores
// it for Filter and PostFilter. Invariant: it does not change afterwards.
type outcome interface{ fwk.StateData }

type (
	// delayed is for a pod that must wait, without a search for a plan.
	delayed struct{ why string }
	// assigned is for a member with a node in a confirmed plan.
	assigned struct{ node string }
	// reserving is for a gang that waits for its victims to terminate.
	reserving struct {
		attempt *place.Attempt
		message status.Explained
	}
	// unschedulable is for a gang without a plan.
	unschedulable struct {
		attempt    *place.Attempt
		refusal    *place.Refusal   // the attempt's refusal; nil if a plugin failed, or no plan was searched
		cause      gang.Obstacle    // what prevents the gang: no plan, a plugin on all nodes, quotas, or a check
		message    status.Explained // unless PostFilter has a better one
		quotaLater bool             // some members wait for their turn
		renewal    bool             // retried only for its message
		choices
	}
	// choices is the result of planning several choices of a gang's members that quotas admit.
	choices struct {
		others       []*place.Attempt // attempts of other choices, for which pods may be evicted, too
		partial      bool             // other choices may have another cause
		alternatives *alternatives    // the causes of all choices; nil if there is only one choice
		untried      bool             // more choices exist than were tried
	}
)

func (o *delayed) Clone() fwk.StateData       { return o }
func (o *assigned) Clone() fwk.StateData      { return o }
func (o *reserving) Clone() fwk.StateData     { return o }
func (o *unschedulable) Clone() fwk.StateData { return o }

// outcomeOf returns the outcome that PreFilter stored, or nil.
func outcomeOf(state fwk.CycleState) outcome {
	if d, err := state.Read(stateKey); err == nil {
		return d
	}
	return nil
}

// PreFilter restricts a member to the node of its plan. Without a plan, the representative's cycle searches one for the whole group.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (
	*fwk.PreFilterResult, *fwk.Status,
) {
	if fit.IsWhatIf(ctx) || pod.Spec.NodeName != "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.restoreNominations(ctx)
	p.reserveAbsentOfAll(ctx, nodes)
	if !IsMember(pod) {
		if p.Cache.Resuming() {
			p.delayed.Add(convert.PodKey(pod), pod)
			p.activateDelayed() // they may have been placed meanwhile
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waits for gangs that were partially bound when the scheduler started")
		}
		if p.Preemptor.Victims.Holds(pod) {
			o := &delayed{"waits until all members of a gang that is evicted for the pod have terminated"}
			state.Write(stateKey, o) // so that PostFilter keeps its nomination, which names the preemptor
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, o.why)
		}
		if !p.Cache.AnyPlaces() && p.Cache.Maintenance() == nil {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		if closed := p.planner.ClosedDomains(pod); closed != nil { // it would have to be evicted again for the gang that it was evicted for
			state.Write(closedKey, closed)
		}
		return nil, nil // Filter keeps it off reserved nodes, and off nodes with maintenance
	}
	o := p.findNode(ctx, pod, nodes)
	state.Write(stateKey, o)
	switch o := o.(type) {
	case *assigned:
		p.suspendNominations(p.profile, pod, o.node)
		return &fwk.PreFilterResult{NodeNames: sets.New(o.node)}, nil
	case *delayed:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Clip(o.why))
	}
	// Unresolvable: other PreFilters need not run, and DefaultPreemption must not evict for a single member.
	// PostFilter still runs and writes the full message.
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// PreFilterExtensions implements fwk.PreFilterPlugin; assignments do not change with pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// findNode returns the outcome of a member's cycle: it takes the member's node assignment, or searches a plan for the group.
func (p *Plugin) findNode(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) outcome {
	self := convert.PodKey(pod)
	view := p.Cache.View(pod)
	if view.Member != nil && view.Member.UID != pod.UID {
		return &delayed{"the pod was recreated during the scheduling cycle"} // the assignment belongs to the new pod
	}
	p.retries.Begin(view.Key, self)
	renewal := p.renewals.Drop(view.Key)
	p.Meter.Cycle(view.Key)
	switch group := view.Group; {
	case view.Seat.Confirmed && view.Seat.Node != "":
		return takeAssignment(view.Seat, "")
	case !view.Admitted: // PreEnqueue is no hard gate: pods from the backoff queue bypass it
		if p.retries.RecordedPod(view.Key) == self { // other members do not matter for the recorded refusal
			p.forgetRefusal(view.Key)
		}
		return &delayed{view.Why}
	case view.Refusal.Exists():
		return p.cannotBePlanned(pod, view)
	case !group.IsPending(self): // it was pending when the queue admitted it
		return &delayed{"the pod changed during the scheduling cycle"}
	case group.InFlight > 0:
		return &delayed{"other members of the gang return to the queue first"}
	}
	group := view.Group
	if claim := cmp.Or(p.claimInRelease(pod, group), p.leftoverClaim(pod, group)); claim != "" {
		return &delayed{releaseMessage(claim)}
	}
	p.Cache.Handle(gang.PlanSearched{Pod: self})
	began, runsBefore := time.Now(), p.Meter.Runs()
	newAttempt := func() *place.Attempt { return p.planner.NewAttempt(group, nodes, p.avoid(group)) }
	a := newAttempt()
	var o outcome
	if group.Waiting {
		if o = p.tryReserved(ctx, a, pod, newAttempt); o == nil {
			switch view = p.Cache.View(pod); {
			case view.Refusal.Exists():
				return p.cannotBePlanned(pod, view)
			case view.Seat.Confirmed && view.Seat.Node != "":
				return takeAssignment(view.Seat, "")
			case !view.Admitted: // a member was deleted or evicted, or its gang has changed, in this cycle
				return &delayed{view.Why}
			}
			group = view.Group
			a = newAttempt()
		}
	}
	if o == nil {
		o = p.tryPlan(ctx, a, pod)
	}
	if r, ok := o.(*unschedulable); ok {
		r.renewal = renewal
	}
	_, planned := o.(*assigned)
	p.Meter.Attempt(group.Key, planned, time.Since(began), runsBefore)
	p.activateDelayed()
	return o
}

// cannotBePlanned records that a member's group cannot be planned (view.Refusal), drops its reservation, and returns the cycle's outcome.
func (p *Plugin) cannotBePlanned(pod *v1.Pod, view cache.View) outcome {
	why := view.Refusal.String()
	p.forgetRefusal(view.Key)
	if view.Reserved { // the gang lost members meanwhile and cannot start
		p.victims.Abandon(view.Key)
		p.Cache.Forget(view.Key, why)
	}
	p.setPassedOver(pod, true) // PostFilter is not called, and it cannot start
	p.recordObstacle(view.Key, view.Refusal)
	return &delayed{why}
}

// avoid returns a function that returns whether a group must not use a node; nil if it may use all. Such a node rejected an assigned
// member, or has a victim that did not terminate in time.
func (p *Plugin) avoid(group *cache.Group) place.Avoid {
	hasOverdueVictim := p.victims.Avoid(group.Key)
	if len(group.Avoid) == 0 {
		return hasOverdueVictim
	}
	return func(n fwk.NodeInfo) bool {
		_, refused := group.Avoid[n.Node().Name]
		return refused || hasOverdueVictim != nil && hasOverdueVictim(n)
	}
}

// tryPlan runs the checks and the quota check, searches a plan for the group, and records it. It returns the outcome for pod, the
// representative.
func (p *Plugin) tryPlan(ctx context.Context, a *place.Attempt, pod *v1.Pod) outcome {
	if c := p.runChecks(ctx, a); c != nil {
		return c
	}
	choices, quotaOutcome := p.admittedChoices(ctx, a)
	if quotaOutcome != nil {
		return quotaOutcome
	}
	best, tries, err := p.bestTrial(ctx, choices)
	var c *unschedulable
	switch {
	case err == nil && best.Refusal == nil:
	case err == nil && len(choices[0].Group.Pending) < len(a.Group.Pending):
		var starts Trial
		if c, starts = p.noChoice(ctx, a, tries, len(tries) < len(choices)); c == nil {
			best = starts
		} else if best.partial = c.partial; c.refusal != nil {
			best.Attempt, best.Refusal = c.attempt, c.refusal
		}
	default:
		c = &unschedulable{message: planMessage(best.Refusal, err), attempt: best.Attempt, refusal: best.Refusal, cause: causeOf(best.Refusal)}
	}
	p.reportTrial(ctx, best)
	later := p.quotas.WaitsForTurn(a.Group)
	a, found := best.Attempt, best.Found
	if claim := p.idleClaim(pod, a, best.Refusal); claim != "" {
		return &delayed{releaseMessage(claim)}
	}
	if c != nil {
		c.quotaLater = later
		return c // PostFilter records it
	}
	spread := a.Spread(found.Places)
	p.teller.Placed(a.Group.Key, spread)
	if p.retries.RecordedPod(a.Group.Key) != "" {
		p.Meter.TriedAgain(true)
	}
	p.Meter.Placed(a, found.Places, spread)
	p.Meter.UsesDegraded(a, found.Places)
	current, future := a.Split(found.Places)
	p.Cache.Handle(gang.Planned{Group: a.Group.Key, Places: current, Future: future, InOrder: found.InOrder || a.Ordered()})
	p.forgetRefusal(a.Group.Key)
	if why := p.allocateShared(ctx, pod, a, found.Places); why != "" {
		return &delayed{why}
	}
	return takeAssignment(p.Cache.Seat(pod), "the gang is planned without this member: there is no free capacity for it")
}

// planMessage returns the message for a refusal, or for a plugin's failure if err is not nil.
func planMessage(refusal *place.Refusal, err error) status.Explained {
	if err != nil {
		return status.Explained{Text: err.Error()}
	}
	return status.Explained{Text: status.NoPlan(refusal, status.Limit)}
}

// steadyMessage returns the message to show for an unschedulable group: why, or the previous message if messages change too often. Then the
// representative is retried when the new message may be shown.
func (p *Plugin) steadyMessage(group gang.Ref, why status.Explained, representative *v1.Pod) status.Explained {
	message, delay := p.teller.Refused(group, why)
	if delay > 0 {
		p.Writer.DoAfter("refusal of "+group.ID(), delay, func(context.Context) error {
			p.renewals.Add(group, struct{}{})
			p.handle.Activate(klog.Background(), map[string]*v1.Pod{convert.PodKey(representative): representative})
			return nil
		})
	}
	return message
}

// takeAssignment returns the outcome of a member in a confirmed plan: assigned to its node. Without a node (for the reason noNode), or if
// other members must be bound first, the member is delayed.
func takeAssignment(seat gang.NodeAssignment, noNode string) outcome {
	switch {
	case seat.Node == "":
		return &delayed{noNode}
	case seat.TurnObstacle != "":
		return &delayed{seat.TurnObstacle}
	}
	return &assigned{seat.Node}
}

// tryReserved confirms a group's reservation if its nodes are free and its quotas suffice, and returns the outcome for pod. While victims
// terminate, the outcome is reserving. If the reservation is not valid any more, tryReserved drops it and returns nil: the group must be
// planned again. If taken nodes are the cause, it first tries once more with newAttempt (nil is no second try): devices may be released
// between the two checks of one try.
func (p *Plugin) tryReserved(ctx context.Context, a *place.Attempt, pod *v1.Pod, newAttempt func() *place.Attempt) outcome {
	lost := cmp.Or(a.Missing(), place.BrokenConstraint(a.Group, a.Net.Tree))
	if lost == "" {
		turn, taken := a.PlacesFit(ctx, make([][]*v1.Pod, len(a.Nodes)))
		if taken == "" {
			switch why, waits := p.missingQuota(a.Group, pod); {
			case waits:
				p.Cache.Handle(gang.VictimsRemain{Group: a.Group.Key})
				return &reserving{message: status.Explained{Sentence: why.Sentence, Text: why.Text}, attempt: a}
			case why != nil:
				p.dropReservation(a, why.Text)
				return nil
			}
			p.victims.Forget(a.Group.Key)
			p.Meter.Taken(a.Group.Key)
			p.Meter.UsesDegraded(a, a.Reserved(turn))
			p.Cache.Handle(gang.Confirmed{Group: a.Group.Key, Turn: turn})
			if why := p.allocateShared(ctx, pod, a, a.Reserved(turn)); why != "" {
				return &delayed{why}
			}
			return takeAssignment(p.Cache.Seat(pod), "the gang's reserved nodes are assigned to other members")
		}
		leaving := p.victims.Leaving(a, p.options.Clock.Now())
		settled, terminating := a, leaving.Any() // settled is the attempt after terminated pods have released their devices
		if released, err := a.AfterRelease(ctx); released != nil && err == nil {
			settled, terminating = released, true
		}
		if terminating {
			_, obstacle := leaving.Fit(ctx, settled)
			if obstacle == "" {
				found, refusal, err := a.Plan(ctx)
				p.reportTrial(ctx, Trial{Attempt: a, Found: found, Refusal: refusal})
				if refusal == nil && err == nil && p.victims.EvictsNone(a.Group.Key) {
					if o := p.tryPlan(ctx, a, pod); !p.Cache.Reserved(a.Group.Key) { // its plan replaces the reservation
						return o
					}
				}
				message := status.Explained{Text: taken}
				if refusal != nil || err != nil {
					message = planMessage(refusal, err) // the outlook without the reservation
				}
				message.Sentence = leaving.Sentence()
				p.Cache.Handle(gang.VictimsRemain{Group: a.Group.Key})
				return &reserving{message: message, attempt: a}
			}
			taken = obstacle // the terminating pods are not the obstacle
		}
		if newAttempt != nil {
			return p.tryReserved(ctx, newAttempt(), pod, nil)
		}
		lost = "other pods use the reserved capacity: " + taken
	}
	p.dropReservation(a, lost)
	return nil
}

// dropReservation drops the reservation of an attempt's group, and publishes an event with the reason for each of its gangs.
func (p *Plugin) dropReservation(a *place.Attempt, why string) {
	p.victims.Abandon(a.Group.Key)
	p.Cache.Forget(a.Group.Key, why)
	for _, ref := range a.Group.Whole() {
		p.teller.Gang(ref, status.Warning, reasons.ReservationGivenUp, "the reservation has ended: "+why)
	}
}

// recordObstacle records in the gang book why a group has no plan.
func (p *Plugin) recordObstacle(group gang.Ref, why gang.Obstacle) {
	p.Cache.Handle(gang.Unschedulable{Group: group, Refusal: why})
}
