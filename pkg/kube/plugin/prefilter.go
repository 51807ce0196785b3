package plugin

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// stateKey is where PreFilter leaves what Filter and PostFilter must know.
const stateKey fwk.StateKey = "muster.sh/" + Name

// cycle is what one scheduling cycle of a member has found out.
type cycle struct {
	node string // the one node that the member may go to
	why  string // why there is none
	// failed is the attempt to plan the gang in this cycle, if it failed.
	failed *attempt
	// waiting says that the gang's places wait for victims to leave.
	waiting bool
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
	if convert.GangOf(pod) == "" {
		if p.Cache.Resuming() {
			p.delayed.add(pod)
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waits for gangs that were half bound when this scheduler began")
		}
		if !p.Cache.AnyPlaces() {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		return nil, nil // Filter keeps it off planned places
	}
	c := p.findNode(ctx, pod, nodes)
	state.Write(stateKey, c)
	if c.node == "" {
		// Unresolvable: other PreFilters need not run, and DefaultPreemption must not
		// evict for a single member. PostFilter is called all the same.
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Clip(c.why))
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(c.node)}, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin; places do not change with pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// findNode returns the member's node, or why it has none.
func (p *Plugin) findNode(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) *cycle {
	if node, confirmed := p.Cache.Place(pod); confirmed && node != "" {
		return p.take(pod, "")
	}
	// PreEnqueue is no hard gate: pods from the backoff queue pass it by.
	if ok, why := p.Cache.Admit(pod); !ok {
		return &cycle{why: why}
	}
	group, err := p.Cache.Group(pod)
	if err != nil {
		p.refuse(p.Cache.GroupKey(pod), err.Error())
		return &cycle{why: err.Error()}
	}
	if !group.IsPending(convert.PodKey(pod)) { // it was when it was admitted, a moment ago
		return &cycle{why: "the pod has changed meanwhile"}
	}
	if group.InFlight > 0 {
		return &cycle{why: "members of the gang are on their way back to the queue"}
	}
	p.Cache.Handle(gang.Tried{Pod: convert.PodKey(pod)})
	began := time.Now()
	a := p.newAttempt(group, nodes)
	var c *cycle
	if group.Waiting {
		c = p.tryReserved(ctx, a, pod)
	}
	if c == nil {
		c = p.tryPlan(ctx, a, pod)
	}
	status.ObservePlan(c.node != "", time.Since(began))
	p.goOn()
	return c
}

// tryPlan makes a plan for the whole group and puts it into the book.
func (p *Plugin) tryPlan(ctx context.Context, a *attempt, pod *v1.Pod) *cycle {
	found, err := a.plan(ctx)
	if err != nil {
		// PostFilter files the refusal.
		return &cycle{why: p.steadily(a.group.Key, err.Error(), pod), failed: a}
	}
	p.calm.forget(a.group.Key)
	p.Cache.Handle(gang.Planned{Group: a.group.Key, Places: found.places, InOrder: found.inOrder})
	return p.take(pod, "the gang is planned without this member: there is no room for it")
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
	return &cycle{node: node}
}

// tryReserved carries a reservation out if its places are free now, and waits on if
// victims are still there. It returns nil if the gang must be planned anew: it no longer
// fits its rules, or somebody who stays has taken a place.
func (p *Plugin) tryReserved(ctx context.Context, a *attempt, pod *v1.Pod) *cycle {
	why := cmp.Or(a.missing(), a.apart())
	if why == "" {
		turn, refusal := a.placesFit(ctx, make([][]*v1.Pod, len(a.nodes)))
		if refusal == "" {
			p.victims.forget(a.group.Key)
			p.Cache.Handle(gang.Confirmed{Group: a.group.Key, Turn: turn})
			return p.take(pod, "the gang's places are reserved for other members")
		}
		if gone, any := p.victims.leaving(a); any {
			_, taken := a.placesFit(ctx, gone)
			if taken == "" {
				if _, err := a.plan(ctx); err != nil {
					refusal = err.Error() // how the cluster looks to the gang without its reservation
				}
				p.Cache.Handle(gang.Waits{Group: a.group.Key})
				return &cycle{why: refusal, failed: a, waiting: true}
			}
			refusal = taken // whoever leaves is not what is in the way
		}
		why = "the reserved places are taken: " + refusal
	}
	p.Cache.Forget(a.group.Key, why)
	if group, err := p.Cache.Group(pod); err == nil {
		a.group = group
	}
	return nil
}

// refuse remembers why a group has no plan, for those who watch it.
func (p *Plugin) refuse(group, why string) { p.Cache.Handle(gang.Refused{Group: group, Why: why}) }
