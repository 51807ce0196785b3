package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// What PostFilter says about eviction. Stable: people and tools match on it.
const (
	saysWaiting   = "not eligible due to terminating pod on the nominated node"
	saysNever     = "not eligible due to preemptionPolicy=Never"
	saysOff       = "not eligible due to CoschedulingArgs.enablePreemption=false"
	saysNobody    = "no potential victims"
	saysNoHelp    = "preemption is not helpful for scheduling"
	saysDone      = "preempt success, alreadyWaitingForBound: %d/%d"
	preemptPrefix = "preemption: "
)

// PostFilter evicts for a whole gang and reserves the places. It answers for every
// member, so that DefaultPreemption never evicts for one of them.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		if p.ordinary.runs {
			return p.ordinary.postFilter(ctx, state, pod, m)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if c.failed == nil {
		if c.node != "" {
			p.dropPlan(pod, c.node)
		}
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	a := c.failed
	if c.waiting {
		p.tellSiblings(pod, a, c.why, saysWaiting)
		// Said again: a reservation given up just before may still be taken back in the API.
		node, _ := p.Cache.Place(pod)
		return framework.NewPostFilterResultWithNominatedNode(node), says(fwk.UnschedulableAndUnresolvable, saysWaiting)
	}
	node, message := p.preempt(ctx, a, pod)
	if node == "" {
		p.refuse(a.group.Key, c.why+". "+preemptPrefix+message+p.claim(ctx, a))
		p.tellSiblings(pod, a, c.why, message)
		return nil, says(fwk.UnschedulableAndUnresolvable, message)
	}
	p.tellSiblings(pod, a, c.why, message)
	return framework.NewPostFilterResultWithNominatedNode(node), says(fwk.Success, message)
}

func says(code fwk.Code, message string) *fwk.Status {
	return fwk.NewStatus(code, preemptPrefix+message+".")
}

// dropPlan gives up a plan of which a member's own node refused it.
func (p *Plugin) dropPlan(pod *v1.Pod, node string) {
	group, err := p.Cache.Group(pod)
	if err != nil {
		return
	}
	p.Cache.Handle(gang.Dropped{Group: group.Key, Node: node, Why: fmt.Sprintf("member %s was refused on %s", convert.PodKey(pod), node)})
}

// preempt looks for victims, reserves the places that they leave and has them leave.
// It returns the speaker's node and what to say.
func (p *Plugin) preempt(ctx context.Context, a *attempt, speaker *v1.Pod) (node, message string) {
	if !p.args.EnablePreemption {
		return "", saysOff
	}
	for _, m := range a.group.Pending {
		if convert.NeverPreempts(a.group.Pods[m.Pod]) {
			return "", saysNever
		}
	}
	if !a.counted {
		return "", saysNoHelp
	}
	a.depart(ctx)
	places, gone, message := a.evict(ctx)
	if message != "" {
		return "", message
	}
	e := &execution{attempt: a, number: p.victims.set(a.group.Key, gone), speaker: speaker, domain: a.domainOf(places.places)}
	p.Cache.Handle(gang.Planned{
		Group: a.group.Key, Places: places.places, Reserved: true, InOrder: places.inOrder,
		Until: p.options.Clock.Now().Add(longestGrace(gone) + p.args.PreemptionTimeout),
	})
	p.nominate(ctx, a, places.places, speaker)
	status.ObservePreemption(len(gone))
	go e.evict(context.WithoutCancel(ctx), gone)

	for _, at := range places.places {
		if at.Pod == convert.PodKey(speaker) {
			node = at.Node
		}
	}
	return node, fmt.Sprintf(saysDone, a.group.Held, len(a.group.Pending))
}

// longestGrace is the longest time that a victim may take to leave.
func longestGrace(pods []*v1.Pod) (longest time.Duration) {
	for _, p := range pods {
		if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
			longest = max(longest, time.Duration(*s)*time.Second)
		}
	}
	return longest
}

// nominate has every member's nominated node written; the speaker's is written by the
// scheduler when its cycle ends.
func (p *Plugin) nominate(ctx context.Context, a *attempt, places []gang.Place, speaker *v1.Pod) {
	logger := klog.FromContext(ctx)
	for _, at := range places {
		pod := a.group.Pods[at.Pod]
		if pod.UID == speaker.UID {
			continue
		}
		if info, err := framework.NewPodInfo(pod); err == nil {
			p.handle.AddNominatedPod(logger, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: at.Node})
		}
	}
}
