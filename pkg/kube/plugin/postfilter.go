package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/offer"
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
		p.refuse(a.group.Key, c.why+". "+preemptPrefix+message)
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
	p.Cache.Handle(gang.Dropped{Group: group.Key, Why: fmt.Sprintf("member %s was refused on %s", convert.PodKey(pod), node)})
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
	candidates := a.candidates(ctx)
	choice := evict.Choose(a.world, a.request, candidates.nodes)
	if choice == nil {
		if !candidates.any {
			return "", saysNobody
		}
		return "", saysNoHelp
	}
	places := a.assign(choice.Plan)
	var gone []*v1.Pod
	for _, v := range choice.Victims {
		gone = append(gone, candidates.pods[v.Node][v.Victim])
	}
	p.victims.set(a.group.Key, gone)
	p.Cache.Handle(gang.Planned{
		Group: a.group.Key, Places: places, Reserved: true,
		Until: p.options.Clock.Now().Add(longestGrace(gone) + p.args.PreemptionTimeout),
	})
	p.nominate(ctx, a, places, speaker)
	status.ObservePreemption(len(gone))
	go p.evict(context.WithoutCancel(ctx), a, gone, speaker)

	for _, at := range places {
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

// candidates are the pods that may be evicted, and what each node takes without them.
type candidates struct {
	nodes []evict.Node
	pods  [][]*v1.Pod // by node index; evict.Victim's order
	any   bool
}

// candidates asks the Filters what each node takes without some of its victims. Pods
// that are leaving anyway count as gone at no cost: waiting for them beats evicting
// more.
func (a *attempt) candidates(ctx context.Context) candidates {
	c := candidates{nodes: make([]evict.Node, len(a.nodes)), pods: make([][]*v1.Pod, len(a.nodes))}
	for i := range c.nodes {
		c.nodes[i].Options = []evict.Option{{}}
	}
	ceiling := convert.Priority(a.lowest())
	found := make([]bool, len(a.nodes))
	a.each(ctx, func(i int, n fwk.NodeInfo) {
		var leaving []*v1.Pod
		var victims []evict.Victim
		for _, info := range n.GetPods() {
			switch pod := info.GetPod(); {
			case pod.DeletionTimestamp != nil:
				leaving = append(leaving, pod)
			case a.mayEvict(pod, ceiling):
				c.pods[i] = append(c.pods[i], pod)
				victims = append(victims, a.victim(pod))
			}
		}
		found[i] = len(victims)+len(leaving) > 0
		c.nodes[i] = evict.NewNode(victims, a.request.Want, func(gone []int) offer.Slots {
			out := slices.Clone(leaving)
			for _, v := range gone {
				out = append(out, c.pods[i][v])
			}
			return a.countWithout(ctx, n, out)
		})
	})
	c.any = slices.Contains(found, true)
	return c
}

// mayEvict says whether a pod is a possible victim: of lower priority than every
// pending member, not protected, and alone. Members of gangs are left alone: a gang
// could not run without them, and counting it whole is not done yet.
func (a *attempt) mayEvict(pod *v1.Pod, ceiling int32) bool {
	return convert.Priority(pod) < ceiling && !convert.Protected(pod) && convert.GangOf(pod) == ""
}

func (a *attempt) victim(pod *v1.Pod) evict.Victim {
	return evict.Victim{
		Name: convert.PodKey(pod), Priority: convert.Priority(pod),
		Started: convert.Started(pod), Violates: a.violates(pod), Shape: convert.Template(pod),
	}
}

// violates says whether a disruption budget forbids to evict the pod.
func (a *attempt) violates(pod *v1.Pod) bool {
	budgets, err := a.budgets.PodDisruptionBudgets(pod.Namespace).List(labels.Everything())
	if err != nil || len(budgets) == 0 {
		return false
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return false
	}
	violating, _ := preemption.FilterVictimsWithPDBViolation([]preemption.Victim{preemption.NewPodVictim(info, nil, nil)}, budgets)
	return len(violating) > 0
}

func (a *attempt) countWithout(ctx context.Context, n fwk.NodeInfo, gone []*v1.Pod) (least offer.Slots) {
	first := true
	for _, c := range a.counters {
		if slots, _ := c.CountWithout(ctx, n, a.others(n), gone); slots < least || first {
			least, first = slots, false
		}
	}
	return least
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

// evict has the victims leave and then wakes the speaker, who sees them leave. What
// the API server did not take is not counted as asked: the next attempt asks again.
func (p *Plugin) evict(ctx context.Context, a *attempt, gone []*v1.Pod, speaker *v1.Pod) {
	logger := klog.FromContext(ctx)
	by := preemptor{group: a.group.Key, pod: speaker, members: a.group.Pods}
	var asked []*v1.Pod
	for _, victim := range gone {
		if _, err := p.executor.PreemptPod(ctx, onNode(victim.Spec.NodeName), by, victim, Name); err != nil {
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

// onNode is the executor's candidate, of which it reads only the name.
type onNode string

func (n onNode) Name() string                 { return string(n) }
func (n onNode) Victims() *extenderv1.Victims { return &extenderv1.Victims{} }
func (n onNode) NumPodGroupDisruptions() int  { return 0 }
