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

// verdict is what came of a member's cycle.
type verdict uint8

const (
	keptOut verdict = iota // it is not its turn, or its gang cannot be planned now
	sent                   // it goes to its place
	refused                // there is no plan for its gang
	waits                  // the places of its gang wait for victims to leave
)

// cycle is what one scheduling cycle of a member has found out.
type cycle struct {
	verdict verdict
	node    string           // of its place, if it is sent there
	why     string           // why it is kept out
	attempt *place.Attempt   // to plan the gang, if that was refused or waits
	refusal *place.Refusal   // of the attempt; nil if a plugin has failed
	others  []*place.Attempt // for other choices of its members, for whom others may leave, too
	some    bool             // what keeps the attempt does not keep all choices of its members
	several *several         // of them; nil if there is one only
	untried bool             // there are more of them than were tried
	said    status.Said      // what is said of that as long as PostFilter knows no more
	renews  bool             // it was tried again only to say newer words

	overQuota bool // its quotas refuse it
	mayHelp   bool // somebody may leave for it whose leaving frees what they lack

	by *gang.Refusal // a check refuses it; nil if none does
}

// says is what PostFilter says to the member that was tried.
func (c *cycle) says(came status.Preemption) string {
	return c.said.ForSpeaker(came, c.attempt.Group.Held, len(c.attempt.Group.Pending))
}

// Clone implements fwk.StateData. A cycle is not changed after PreFilter.
func (c *cycle) Clone() fwk.StateData { return c }

func cycleOf(state fwk.CycleState) *cycle {
	if d, err := state.Read(stateKey); err == nil {
		if c, ok := d.(*cycle); ok {
			return c
		}
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
			c := &cycle{why: "waits for the rest of a gang that leaves for it"}
			state.Write(stateKey, c) // so that PostFilter leaves its nomination, which says for whom the rest leaves
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.why)
		}
		if !p.Cache.AnyPlaces() {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		if off := p.planner.Off(pod); off != nil { // who has left for a gang would come back beside it, and have to leave again
			state.Write(offKey, off)
		}
		return nil, nil // Filter keeps it off planned places
	}
	c := p.findNode(ctx, pod, nodes)
	state.Write(stateKey, c)
	if c.verdict != sent {
		// Unresolvable: other PreFilters need not run, and DefaultPreemption must not
		// evict for a single member. PostFilter is called all the same, and says all that there
		// is to say of an attempt: only it knows what came of that.
		if c.why == "" {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
		}
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Clip(c.why))
	}
	p.putAside(p.profile, pod, c.node)
	return &fwk.PreFilterResult{NodeNames: sets.New(c.node)}, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin; places do not change with pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// findNode returns the member's node, or why it has none.
func (p *Plugin) findNode(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) *cycle {
	if known := p.Cache.Pod(convert.PodKey(pod)); known != nil && known.UID != pod.UID {
		return &cycle{why: "the pod was deleted and made again meanwhile"} // its place is the new one's
	}
	p.refused.Begin(p.Cache.GroupKey(pod), convert.PodKey(pod))
	renews := p.renewals.Drop(p.Cache.GroupKey(pod))
	p.Meter.Cycle(p.Cache.GroupKey(pod))
	if node, confirmed := p.Cache.Place(pod); confirmed && node != "" {
		return p.take(pod, "")
	}
	// PreEnqueue is no hard gate: pods from the backoff queue pass it by.
	if ok, why := p.Cache.Admit(pod); !ok {
		if key := p.Cache.GroupKey(pod); p.refused.Filed(key) == convert.PodKey(pod) { // a sibling says nothing of its group
			p.leave(key)
		}
		return &cycle{why: why}
	}
	group, refusal := p.Cache.Group(pod)
	if refusal.Is() {
		key := p.Cache.GroupKey(pod)
		p.leave(key)
		if p.Cache.Reserved(key) { // for a gang that has lost members since, and could not start with the rest
			p.victims.Abandon(key)
			p.Cache.Forget(key, refusal.String())
		}
		p.passed(pod, true) // PostFilter is not told, and it cannot start
		p.refuse(key, refusal)
		return &cycle{why: refusal.String()}
	}
	if !group.IsPending(convert.PodKey(pod)) { // it was when it was admitted, a moment ago
		return &cycle{why: "the pod has changed meanwhile"}
	}
	if group.InFlight > 0 {
		return &cycle{why: "members of the gang are on their way back to the queue"}
	}
	if claim := cmp.Or(p.givenBack(pod, group), p.leftBehind(pod, group)); claim != "" {
		return &cycle{why: givenBackWords(claim)}
	}
	p.Cache.Handle(gang.Tried{Pod: convert.PodKey(pod)})
	began, ran := time.Now(), p.Meter.Runs()
	anew := func() *place.Attempt { return p.planner.NewAttempt(group, nodes, p.avoid(group)) }
	a := anew()
	var c *cycle
	if group.Waiting {
		c = p.tryReserved(ctx, a, pod, anew)
	}
	if c == nil {
		c = p.tryPlan(ctx, a, pod)
	}
	c.renews = renews
	p.Meter.Attempt(group.Key, c.verdict == sent, time.Since(began), ran)
	p.goOn()
	return c
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
func (p *Plugin) tryPlan(ctx context.Context, a *place.Attempt, pod *v1.Pod) *cycle {
	if c := p.checked(ctx, a); c != nil {
		return c
	}
	choices, over := p.admitted(ctx, a)
	if over != nil {
		return over
	}
	best, tries, err := p.best(ctx, choices)
	var c *cycle
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
		c = &cycle{verdict: refused, said: said(best.Refusal, err), attempt: best.Attempt, refusal: best.Refusal}
	}
	p.tried(ctx, best)
	a, found := best.Attempt, best.Found
	if claim := p.idle(pod, a, best.Refusal); claim != "" {
		return &cycle{why: givenBackWords(claim)}
	}
	if c != nil {
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
		return &cycle{why: why}
	}
	return p.take(pod, "the gang is planned without this member: there is no room for it")
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

// take sends a member to its place in a plan that is being carried out. It may have
// none, or have to wait for others to be placed before it.
func (p *Plugin) take(pod *v1.Pod, without string) *cycle {
	node, _ := p.Cache.Place(pod)
	if node == "" {
		return &cycle{why: without}
	}
	if ok, why := p.Cache.Turn(pod); !ok {
		return &cycle{why: why}
	}
	return &cycle{verdict: sent, node: node}
}

// tryReserved carries a reservation out if its places are free now and its quotas have enough, and waits on if
// victims are still there. It returns nil if the gang must be planned anew: it no longer
// fits its rules, or somebody who stays has taken a place, or what its quotas had for it.
//
// Devices are given back at any moment, also between the question whether the places are free and the one whether anything is
// still to be given back. So before it is given up, a reservation is looked at once more, anew.
func (p *Plugin) tryReserved(ctx context.Context, a *place.Attempt, pod *v1.Pod, anew func() *place.Attempt) *cycle {
	lost := cmp.Or(a.Missing(), place.Broken(a.Group, a.Net.Tree))
	if lost == "" {
		turn, taken := a.PlacesFit(ctx, make([][]*v1.Pod, len(a.Nodes)))
		if taken == "" {
			switch why, soon := p.lacks(a.Group, pod); {
			case soon:
				p.Cache.Handle(gang.Waits{Group: a.Group.Key})
				return &cycle{verdict: waits, said: status.Said{Sentence: why.Sentence, Text: why.Text}, attempt: a}
			case why != nil:
				return p.loseReserved(a, pod, why.Text)
			}
			p.victims.Forget(a.Group.Key)
			p.Meter.Taken(a.Group.Key)
			p.Cache.Handle(gang.Confirmed{Group: a.Group.Key, Turn: turn})
			if why := p.allot(ctx, pod, a, a.Reserved(turn)); why != "" {
				return &cycle{why: why}
			}
			return p.take(pod, "the gang's places are reserved for other members")
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
				return &cycle{verdict: waits, said: says, attempt: a}
			}
			taken = still // whoever leaves is not what is in the way
		}
		if anew != nil {
			b := anew()
			c := p.tryReserved(ctx, b, pod, nil)
			a.Group = b.Group
			return c
		}
		lost = "the reserved places are taken: " + taken
	}
	return p.loseReserved(a, pod, lost)
}

// loseReserved gives a reservation up, so that its group is planned anew: the attempt is for the group without it. It returns nil.
func (p *Plugin) loseReserved(a *place.Attempt, pod *v1.Pod, lost string) *cycle {
	p.victims.Abandon(a.Group.Key)
	p.Cache.Forget(a.Group.Key, lost)
	for _, ref := range a.Group.Whole() {
		p.teller.Gang(ref, status.Warning, status.ReasonGaveUp, "the reservation is given up: "+lost)
	}
	if group, refusal := p.Cache.Group(pod); !refusal.Is() {
		a.Group = group
	}
	return nil
}

// refuse remembers why a group has no plan, for those who watch it.
func (p *Plugin) refuse(group gang.Ref, why gang.Refusal) {
	p.Cache.Handle(gang.Refused{Group: group, Refusal: why})
}
