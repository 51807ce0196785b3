package plugin

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// stateKey is where PreFilter leaves what Filter and PostFilter must know.
const stateKey fwk.StateKey = "muster.sh/" + Name

// outcome is what came of a member's cycle: a *keptOut, a *sent, a *reserving or a *refused. PreFilter leaves it for
// Filter and PostFilter, and does not change it afterwards.
type outcome interface{ fwk.StateData }

type (
	// keptOut is for a pod that has to wait without an attempt: for its turn, or since its gang cannot be planned now.
	keptOut struct{ why string }
	// sent is for a member that goes to its place.
	sent struct{ node string }
	// reserving is for a gang whose places wait for victims to terminate.
	reserving struct {
		attempt *place.Attempt
		said    status.Said
	}
	// refused is for a gang without a plan.
	refused struct {
		attempt *place.Attempt
		refusal *place.Refusal // of the attempt; nil if a plugin has failed, or nothing was planned
		by      gang.Refusal   // what refused it: a plan, a plugin everywhere, its quotas, or a check
		said    status.Said    // what is said of that as long as PostFilter knows no more
		later   bool           // quotas may admit other members of it when other quotas were served
		renews  bool           // it was tried again only to say newer words
		choices
	}
	// choices is what several choices of a gang's members came to, of which quotas admit each.
	choices struct {
		others  []*place.Attempt // for other choices of its members, for whom others may leave, too
		some    bool             // what keeps the attempt does not keep all choices of its members
		several *several         // of them; nil if there is one only
		untried bool             // there are more of them than were tried
	}
)

// Clone implements fwk.StateData.
func (o *keptOut) Clone() fwk.StateData   { return o }
func (o *sent) Clone() fwk.StateData      { return o }
func (o *reserving) Clone() fwk.StateData { return o }
func (o *refused) Clone() fwk.StateData   { return o }

// outcomeOf returns what PreFilter has left; nil if it has left nothing.
func outcomeOf(state fwk.CycleState) outcome {
	if d, err := state.Read(stateKey); err == nil {
		return d
	}
	return nil
}

// PreFilter gives a member the node of its plan. The first member to come, its gang's
// representative, makes the plan for all.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if fit.Asking(ctx) || pod.Spec.NodeName != "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.putBack(ctx)
	p.keepAgain(ctx, nodes)
	if !IsMember(pod) {
		if p.Cache.Resuming() {
			p.resumes.Add(convert.PodKey(pod), pod)
			p.goOn() // they may have been placed since it was asked
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waits for gangs that were partially bound when this scheduler began")
		}
		if p.Preemptor.Victims.Holds(pod) {
			o := &keptOut{"waits for the remaining members of a gang that is evicted for it to terminate"}
			state.Write(stateKey, o) // so that PostFilter leaves its nomination, which says for whom the rest leaves
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, o.why)
		}
		if !p.Cache.AnyPlaces() {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		if off := p.planner.Off(pod); off != nil { // who has left for a gang would come back beside it, and have to leave again
			state.Write(offKey, off)
		}
		return nil, nil // Filter keeps it off planned places
	}
	o := p.findNode(ctx, pod, nodes)
	state.Write(stateKey, o)
	switch o := o.(type) {
	case *sent:
		p.putAside(p.profile, pod, o.node)
		return &fwk.PreFilterResult{NodeNames: sets.New(o.node)}, nil
	case *keptOut:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Clip(o.why))
	}
	// Unresolvable: other PreFilters need not run, and DefaultPreemption must not
	// evict for a single member. PostFilter is called all the same, and says all that there
	// is to say of an attempt: only it knows what came of that.
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// PreFilterExtensions implements fwk.PreFilterPlugin; places do not change with pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// findNode returns what comes of a member's cycle. All that it reads of the gang before it plans is one view.
func (p *Plugin) findNode(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) outcome {
	self := convert.PodKey(pod)
	view := p.Cache.View(pod)
	if view.Member != nil && view.Member.UID != pod.UID {
		return &keptOut{"the pod was deleted and made again meanwhile"} // its place is the new one's
	}
	p.refused.Begin(view.Key, self)
	renews := p.renewals.Drop(view.Key)
	p.Meter.Cycle(view.Key)
	switch group := view.Group; {
	case view.Seat.Confirmed && view.Seat.Node != "":
		return take(view.Seat, "")
	case !view.Admitted: // PreEnqueue is no hard gate: pods from the backoff queue pass it by
		if p.refused.Filed(view.Key) == self { // a sibling says nothing of its group
			p.leave(view.Key)
		}
		return &keptOut{view.Why}
	case view.Refusal.Is():
		return p.cannotBePlanned(pod, view)
	case !group.IsPending(self): // it was when the queue let it in, a moment ago
		return &keptOut{"the pod has changed meanwhile"}
	case group.InFlight > 0:
		return &keptOut{"members of the gang are on their way back to the queue"}
	}
	group := view.Group
	if claim := cmp.Or(p.givenBack(pod, group), p.leftBehind(pod, group)); claim != "" {
		return &keptOut{givenBackWords(claim)}
	}
	p.Cache.Handle(gang.Tried{Pod: self})
	began, ran := time.Now(), p.Meter.Runs()
	anew := func() *place.Attempt { return p.planner.NewAttempt(group, nodes, p.avoid(group)) }
	a := anew()
	var o outcome
	if group.Waiting {
		o = p.tryReserved(ctx, a, pod, anew)
	}
	if o == nil {
		o = p.tryPlan(ctx, a, pod)
	}
	if r, ok := o.(*refused); ok {
		r.renews = renews
	}
	_, planned := o.(*sent)
	p.Meter.Attempt(group.Key, planned, time.Since(began), ran)
	p.goOn()
	return o
}

// cannotBePlanned is for a member whose group is not whole, or whose gangs ask for different things.
func (p *Plugin) cannotBePlanned(pod *v1.Pod, view cache.View) outcome {
	why := view.Refusal.String()
	p.leave(view.Key)
	if view.Reserved { // for a gang that has lost members since, and could not start with the rest
		p.victims.Abandon(view.Key)
		p.Cache.Forget(view.Key, why)
	}
	p.passed(pod, true) // PostFilter is not told, and it cannot start
	p.refuse(view.Key, view.Refusal)
	return &keptOut{why}
}

// avoid says which nodes the group must not go to: those that refused a member although a
// plan had put it there, and those with a victim that did not leave in time; nil if there are none.
func (p *Plugin) avoid(group *cache.Group) place.Avoid {
	stuck := p.victims.Avoid(group.Key)
	if len(group.Avoid) == 0 {
		return stuck
	}
	return func(n fwk.NodeInfo) bool {
		_, refused := group.Avoid[n.Node().Name]
		return refused || stuck != nil && stuck(n)
	}
}

// tryPlan makes a plan for the whole group and puts it into the book.
func (p *Plugin) tryPlan(ctx context.Context, a *place.Attempt, pod *v1.Pod) outcome {
	if c := p.checked(ctx, a); c != nil {
		return c
	}
	choices, over := p.admitted(ctx, a)
	if over != nil {
		return over
	}
	best, tries, err := p.best(ctx, choices)
	var c *refused
	switch {
	case err == nil && best.Refusal == nil:
	case err == nil && len(choices[0].Group.Pending) < len(a.Group.Pending):
		var starts Trial
		if c, starts = p.noChoice(ctx, a, tries, len(tries) < len(choices)); c == nil {
			best = starts
		} else if best.some = c.some; c.refusal != nil {
			best.Attempt, best.Refusal = c.attempt, c.refusal
		}
	default:
		c = &refused{said: said(best.Refusal, err), attempt: best.Attempt, refusal: best.Refusal, by: because(best.Refusal)}
	}
	p.tried(ctx, best)
	later := p.quotas.Later(a.Group)
	a, found := best.Attempt, best.Found
	if claim := p.idle(pod, a, best.Refusal); claim != "" {
		return &keptOut{givenBackWords(claim)}
	}
	if c != nil {
		c.later = later
		return c // PostFilter files the refusal
	}
	spread := a.Spread(found.Places)
	p.teller.Placed(a.Group.Key, spread)
	if p.refused.Filed(a.Group.Key) != "" {
		p.Meter.TriedAgain(true)
	}
	p.Meter.Placed(a, found.Places, spread)
	own, ahead := a.Split(found.Places)
	p.Cache.Handle(gang.Planned{Group: a.Group.Key, Places: own, Ahead: ahead, InOrder: found.InOrder || a.Ordered()})
	p.leave(a.Group.Key)
	if why := p.allot(ctx, pod, a, found.Places); why != "" {
		return &keptOut{why}
	}
	return take(p.Cache.Seat(pod), "the gang is planned without this member: there is no room for it")
}

// said is a refusal in the words of the documents, or the failure of a plugin.
func said(refusal *place.Refusal, err error) status.Said {
	if err != nil {
		return status.Said{Text: err.Error()}
	}
	return status.Said{Text: status.NoPlan(refusal, status.Limit)}
}

// steadily returns what to say of a refused group. If that is not why, the speaker is
// tried once more when it may be said.
func (p *Plugin) steadily(group gang.Ref, why status.Said, speaker *v1.Pod) status.Said {
	words, later := p.teller.Refused(group, why)
	if later > 0 {
		p.Writer.DoAfter("refusal of "+group.ID(), later, func(context.Context) error {
			p.renewals.Add(group, struct{}{})
			p.handle.Activate(klog.Background(), map[string]*v1.Pod{convert.PodKey(speaker): speaker})
			return nil
		})
	}
	return words
}

// take sends a member to its place in a plan that is being carried out. Without a place it waits with these words, and
// where members enter in turn it may have to wait for another one.
func take(seat gang.Seat, without string) outcome {
	switch {
	case seat.Node == "":
		return &keptOut{without}
	case seat.After != "":
		return &keptOut{seat.After}
	}
	return &sent{seat.Node}
}

// tryReserved carries a reservation out if its places are free now and its quotas have enough, and waits on if
// victims are still there. It returns nil if the gang must be planned anew: it no longer
// fits its rules, or somebody who stays has taken a place, or what its quotas had for it.
//
// Devices are given back at any moment, also between the question whether the places are free and the one whether anything is
// still to be given back. So before it is given up, a reservation is looked at once more, anew.
func (p *Plugin) tryReserved(ctx context.Context, a *place.Attempt, pod *v1.Pod, anew func() *place.Attempt) outcome {
	lost := cmp.Or(a.Missing(), place.Broken(a.Group, a.Net.Tree))
	if lost == "" {
		turn, taken := a.PlacesFit(ctx, make([][]*v1.Pod, len(a.Nodes)))
		if taken == "" {
			switch why, soon := p.lacks(a.Group, pod); {
			case soon:
				p.Cache.Handle(gang.Waits{Group: a.Group.Key})
				return &reserving{said: status.Said{Sentence: why.Sentence, Text: why.Text}, attempt: a}
			case why != nil:
				p.loseReserved(a, pod, why.Text)
				return nil
			}
			p.victims.Forget(a.Group.Key)
			p.Meter.Taken(a.Group.Key)
			p.Cache.Handle(gang.Confirmed{Group: a.Group.Key, Turn: turn})
			if why := p.allot(ctx, pod, a, a.Reserved(turn)); why != "" {
				return &keptOut{why}
			}
			return take(p.Cache.Seat(pod), "the gang's places are reserved for other members")
		}
		leaving := p.victims.Leaving(a, p.options.Clock.Now())
		then, any := a, leaving.Any() // when what they have is given back
		if settled, err := a.Settled(ctx); settled != nil && err == nil {
			then, any = settled, true
		}
		if any {
			_, still := leaving.Fit(ctx, then)
			if still == "" {
				found, refusal, err := a.Plan(ctx)
				p.tried(ctx, Trial{Attempt: a, Found: found, Refusal: refusal})
				says := status.Said{Text: taken}
				if refusal != nil || err != nil {
					says = said(refusal, err) // how the cluster looks to the gang without its reservation
				}
				p.Cache.Handle(gang.Waits{Group: a.Group.Key})
				return &reserving{said: says, attempt: a}
			}
			taken = still // whoever leaves is not what is in the way
		}
		if anew != nil {
			b := anew()
			o := p.tryReserved(ctx, b, pod, nil)
			a.Group = b.Group
			return o
		}
		lost = "the reserved places are taken: " + taken
	}
	p.loseReserved(a, pod, lost)
	return nil
}

// loseReserved gives a reservation up, so that its group is planned anew: the attempt is for the group without it.
func (p *Plugin) loseReserved(a *place.Attempt, pod *v1.Pod, lost string) {
	p.victims.Abandon(a.Group.Key)
	p.Cache.Forget(a.Group.Key, lost)
	for _, ref := range a.Group.Whole() {
		p.teller.Gang(ref, status.Warning, status.ReasonGaveUp, "the reservation is given up: "+lost)
	}
	if group, refusal := p.Cache.Group(pod); !refusal.Is() {
		a.Group = group
	}
}

// refuse remembers why a group has no plan, for those who watch it.
func (p *Plugin) refuse(group gang.Ref, why gang.Refusal) {
	p.Cache.Handle(gang.Refused{Group: group, Refusal: why})
}
