package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
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
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable) // not a member: DefaultPreemption's turn
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
	places, gone, message := a.evict(ctx)
	if message != "" {
		return "", message
	}
	p.victims.set(a.group.Key, gone)
	p.Cache.Handle(gang.Planned{
		Group: a.group.Key, Places: places.places, Reserved: true, InOrder: places.inOrder,
		Until: p.options.Clock.Now().Add(longestGrace(gone) + p.args.PreemptionTimeout),
	})
	p.nominate(ctx, a, places.places, speaker)
	status.ObservePreemption(len(gone))
	go p.evict(context.WithoutCancel(ctx), a, gone, speaker)

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

// writers bounds the requests at a time to write nominations.
const writers = 16

// writeNominations writes the node of each member that has a place. Victims leave only
// when all are written: who comes after this process must know what they left for.
func (p *Plugin) writeNominations(ctx context.Context, a *attempt) {
	group, err := p.Cache.Group(a.group.Pods[a.group.Pending[0].Pod])
	if err != nil {
		return
	}
	workqueue.ParallelizeUntil(ctx, writers, len(group.Pending), func(i int) {
		m := group.Pending[i]
		if node := group.Places[m.Pod]; node != "" {
			if err := p.Writer.Pod(ctx, group.Pods[m.Pod], status.Waiting{Node: &node}); err != nil {
				klog.FromContext(ctx).Error(err, "cannot write the nominated node", "pod", m.Pod, "node", node)
			}
		}
	})
}

// evict has the victims leave and then wakes the speaker, who sees them leave. What
// the API server did not take is not counted as asked: the next attempt asks again.
func (p *Plugin) evict(ctx context.Context, a *attempt, gone []*v1.Pod, speaker *v1.Pod) {
	logger := klog.FromContext(ctx)
	by := preemptor{group: a.group.Key, pod: speaker, members: a.group.Pods}
	p.writeNominations(ctx, a)
	var asked []*v1.Pod
	for _, victim := range gone {
		if group, err := p.Cache.Group(speaker); err != nil || !group.Waiting {
			break // the reservation is carried out, or was given up to somebody more important
		}
		if _, err := p.executor.PreemptPod(ctx, nodeName(victim.Spec.NodeName), by, victim, Name); err != nil {
			logger.Error(err, "cannot evict", "victim", klog.KObj(victim), "gang", a.group.Key)
			continue
		}
		asked = append(asked, victim)
	}
	if len(asked) < len(gone) {
		p.victims.set(a.group.Key, asked)
	}
	p.handle.Activate(logger, map[string]*v1.Pod{convert.PodKey(speaker): speaker})
}

// preemptor tells the scheduler's executor for whom pods are evicted.
type preemptor struct {
	group   string
	pod     *v1.Pod
	members map[string]*v1.Pod
}

func (p preemptor) GetName() string          { return p.pod.Name }
func (p preemptor) GetNamespace() string     { return p.pod.Namespace }
func (p preemptor) UID() types.UID           { return types.UID(p.group) }
func (p preemptor) SchedulerName() string    { return p.pod.Spec.SchedulerName }
func (p preemptor) Obj() runtime.Object      { return p.pod }
func (p preemptor) Pods() map[string]*v1.Pod { return p.members }
func (p preemptor) Priority() int32          { return convert.Priority(p.pod) }
func (p preemptor) Type() string             { return "gang" }

// nodeName is the executor's candidate, of which it reads only the name.
type nodeName string

func (n nodeName) Name() string                 { return string(n) }
func (n nodeName) Victims() *extenderv1.Victims { return &extenderv1.Victims{} }
func (n nodeName) NumPodGroupDisruptions() int  { return 0 }
