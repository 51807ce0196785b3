package plugin

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// ordinary is DefaultPreemption of one profile, which evicts for pods without a gang. All
// that it does stays; only what a victim is differs: a member that its gang can spare is
// one like any other pod, and the rest of a gang is one victim, which leaves and counts
// whole. Protected pods are none.
type ordinary struct {
	preemption.Interface // DefaultPreemption's own rules
	plugin               *Plugin
	stock                *defaultpreemption.DefaultPreemption
	runs                 bool // the profile has it evict

	mu     sync.Mutex // nodes are looked at in parallel
	gangs  map[string]*runningGang
	chosen map[string][]*v1.Pod // victims, by node
	broken map[string]int       // gangs that leave whole, by node, if any do
}

// runningGang is a gang as a victim of an ordinary pod.
type runningGang struct {
	pods  []*v1.Pod // all that have a node or are about to
	spare int       // how many of them it does not need
	// priority is the highest among them: for less, the gang cannot leave whole.
	priority  int32
	protected bool
}

// guard puts itself between the profile's DefaultPreemption and its rules. It is called
// when all plugins of the profile exist and nothing is scheduled yet.
func (p *Plugin) guard() {
	for _, e := range p.profile.EnqueueExtensions() {
		stock, ok := e.(*defaultpreemption.DefaultPreemption)
		if !ok || p.ordinary.stock != nil {
			continue
		}
		p.ordinary.Interface, p.ordinary.stock = stock.Evaluator.Interface, stock
		p.ordinary.runs = slices.ContainsFunc(p.profile.ListPlugins().PostFilter.Enabled, func(pl config.Plugin) bool { return pl.Name == stock.Name() })
		stock.Evaluator.Interface = &p.ordinary
		stock.Executor.PreemptPod = p.gently(stock.Executor.PreemptPod)
	}
}

// unseenFor is how long DefaultPreemption's victims count as leaving without being seen to.
const unseenFor = 10 * time.Second

// postFilter has DefaultPreemption's turn and remembers who leaves: until they are seen
// leaving, the next attempt must not count on them. What comes of it is final, or
// DefaultPreemption would have another turn.
func (o *ordinary) postFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	o.begin()
	result, status := o.stock.PostFilter(ctx, state, pod, m)
	switch {
	case status.IsSuccess() && result != nil && result.NominatingInfo != nil:
		o.plugin.victims.expect(o.chosen[result.NominatedNodeName], o.plugin.options.Clock.Now().Add(unseenFor))
		o.plugin.Cache.Nominate(pod, result.NominatedNodeName)
	case status.Code() == fwk.Unschedulable:
		status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Reasons()...)
	}
	return result, status
}

// begin forgets what was found out in the attempt before.
func (o *ordinary) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gangs, o.chosen, o.broken = map[string]*runningGang{}, map[string][]*v1.Pod{}, map[string]int{}
}

// PodEligibleToPreemptOthers implements preemption.Interface. It is the first question of
// an attempt.
func (o *ordinary) PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, nominated *fwk.Status) (bool, string) {
	o.begin()
	return o.Interface.PodEligibleToPreemptOthers(ctx, pod, nominated)
}

// gang returns what runs of a gang, looked up once in an attempt.
func (o *ordinary) gang(name string) *runningGang {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gangs == nil {
		o.gangs = map[string]*runningGang{}
	}
	g := o.gangs[name]
	if g == nil {
		pods, least := o.plugin.Cache.Placed(name)
		g = &runningGang{pods: pods, spare: max(0, len(pods)-least)}
		for i, p := range pods {
			if priority := convert.Priority(p); i == 0 || priority > g.priority {
				g.priority = priority
			}
			g.protected = g.protected || convert.Protected(p)
		}
		o.gangs[name] = g
	}
	return g
}

// possible are the victims of one node.
type possible struct {
	single []*preemption.DomainVictim
	gangs  map[string][]fwk.PodInfo // members here, the least important last
}

// sort tells victims apart. Pods that are to leave count as leaving, seen or not.
func (o *ordinary) sort(all []*preemption.DomainVictim) possible {
	out := possible{gangs: map[string][]fwk.PodInfo{}}
	members := map[string][]*preemption.DomainVictim{}
	now := o.plugin.options.Clock.Now()
	for _, v := range all {
		pod := v.Pods()[0].GetPod()
		name := convert.GangOf(pod)
		switch {
		case pod.DeletionTimestamp != nil || len(v.Pods()) > 1:
			out.single = append(out.single, v)
		case o.plugin.victims.leaves(pod, now):
			if info, err := framework.NewPodInfo(marked(pod)); err == nil {
				out.single = append(out.single, &preemption.DomainVictim{Victim: preemption.NewPodVictim(info, nil, nil)})
			}
		case convert.Protected(pod):
		case name == "":
			out.single = append(out.single, v)
		default:
			members[name] = append(members[name], v)
		}
	}
	slices.SortStableFunc(out.single, byName)
	for name, here := range members {
		slices.SortStableFunc(here, byName)
		slices.SortStableFunc(here, func(x, y *preemption.DomainVictim) int {
			switch {
			case o.stock.MoreImportantVictim(x, y):
				return -1
			case o.stock.MoreImportantVictim(y, x):
				return 1
			}
			return 0
		})
		for _, v := range here {
			out.gangs[name] = append(out.gangs[name], v.Pods()...)
		}
	}
	return out
}

// byName is the order of victims that are equal otherwise.
func byName(x, y *preemption.DomainVictim) int {
	return topology.CompareNames(convert.PodKey(x.Pods()[0].GetPod()), convert.PodKey(y.Pods()[0].GetPod()))
}

// spared lists who may be chosen as long as every gang has enough left: whoever of a gang
// that can spare somebody.
func (o *ordinary) spared(all possible) []*preemption.DomainVictim {
	out := slices.Clone(all.single)
	for _, name := range slices.Sorted(maps.Keys(all.gangs)) {
		if g := o.gang(name); g.spare > 0 {
			out = append(out, alone(g.of(all.gangs[name]))...)
		}
	}
	return out
}

// units lists who may be chosen when gangs may leave whole: of each the least important
// that it can spare, and the rest as one victim. Of those that leave anyway all are one.
func (o *ordinary) units(all possible, broken map[string]bool, node string) []*preemption.DomainVictim {
	out := slices.Clone(all.single)
	for _, name := range slices.Sorted(maps.Keys(all.gangs)) {
		g := o.gang(name)
		here := g.of(all.gangs[name])
		spare := min(g.spare, len(here))
		if broken[name] {
			spare = 0
		}
		unit, spared := here[:len(here)-spare], here[len(here)-spare:]
		out = append(out, alone(spared)...)
		if len(unit) == 0 || g.protected || o.asksExtenders() && !g.allOn(node) {
			continue
		}
		if v, err := preemption.NewVictim(unit, g.priority, fwk.PodGroupKeyType); err == nil {
			out = append(out, &preemption.DomainVictim{Victim: v})
		}
	}
	return out
}

// alone makes each pod a victim of its own.
func alone(pods []fwk.PodInfo) (out []*preemption.DomainVictim) {
	for _, p := range pods {
		out = append(out, &preemption.DomainVictim{Victim: preemption.NewPodVictim(p, nil, nil)})
	}
	return out
}

// of leaves out the pods that do not count as running.
func (g *runningGang) of(pods []fwk.PodInfo) (out []fwk.PodInfo) {
	for _, p := range pods {
		if slices.ContainsFunc(g.pods, func(q *v1.Pod) bool { return q.UID == p.GetPod().UID }) {
			out = append(out, p)
		}
	}
	return out
}

// asksExtenders says whether extenders have a say: they know only victims that are on the
// node.
func (o *ordinary) asksExtenders() bool {
	return slices.ContainsFunc(o.plugin.profile.Extenders(), func(e fwk.Extender) bool { return e.SupportsPreemption() })
}

func (g *runningGang) allOn(node string) bool {
	return !slices.ContainsFunc(g.pods, func(p *v1.Pod) bool { return p.Spec.NodeName != node })
}

// SelectVictimsOnNode implements preemption.Interface.
func (o *ordinary) SelectVictimsOnNode(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, all []*preemption.DomainVictim, budgets []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	name := node.Node().Name
	here := o.sort(all)
	choose := func(among []*preemption.DomainVictim) ([]*v1.Pod, int, *fwk.Status) {
		return o.Interface.SelectVictimsOnNode(ctx, state.Clone(), pod, node.Snapshot(), among, budgets)
	}
	victims, violations, status := choose(o.spared(here))
	broken := map[string]bool{}
	if len(here.gangs) > 0 && (!status.IsSuccess() || o.breaks(victims, broken)) {
		clear(broken) // those of another choice
		for {
			if victims, violations, status = choose(o.units(here, broken, name)); !status.IsSuccess() {
				return nil, 0, status
			}
			if !o.breaks(victims, broken) {
				break
			}
			// Once more: with those who leave anyway, others need not.
		}
		if len(broken) > 0 {
			victims = o.whole(victims, broken)
			violations = violating(victims, budgets)
		}
	}
	if !status.IsSuccess() {
		return nil, 0, status
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chosen != nil {
		o.chosen[name] = victims
	}
	if o.broken != nil && len(broken) > 0 {
		o.broken[name] = len(broken)
	}
	return victims, violations, nil
}

// OrderedScoreFuncs implements preemption.Interface. Nodes are compared as ever, but for two
// things: among victims of equal priority those come first that are no gang, which would
// leave whole, and names decide at last.
func (o *ordinary) OrderedScoreFuncs(_ context.Context, victims map[string]*extenderv1.Victims) []func(string) int64 {
	o.mu.Lock()
	broken := maps.Clone(o.broken)
	o.mu.Unlock()
	rank := map[string]int{}
	for i, node := range slices.SortedFunc(maps.Keys(victims), topology.CompareNames) {
		rank[node] = i
	}
	return []func(string) int64{
		func(node string) int64 { return -victims[node].NumPDBViolations },
		func(node string) int64 { return -int64(convert.Priority(victims[node].Pods[0])) },
		func(node string) int64 { return -int64(broken[node]) },
		func(node string) (sum int64) {
			for _, p := range victims[node].Pods {
				sum -= int64(convert.Priority(p)) + math.MaxInt32 + 1 // so that each one counts
			}
			return sum
		},
		func(node string) int64 { return -int64(len(victims[node].Pods)) },
		func(node string) int64 {
			if start := schedutil.GetEarliestPodStartTime(victims[node]); start != nil {
				return start.UnixNano()
			}
			return math.MinInt64
		},
		func(node string) int64 { return -int64(rank[node]) },
	}
}

// breaks adds the gangs of which more leave than they can spare, and says whether there
// are any that were not known.
func (o *ordinary) breaks(victims []*v1.Pod, broken map[string]bool) (more bool) {
	leave := map[string]int{}
	for _, p := range victims {
		if name := convert.GangOf(p); name != "" && p.DeletionTimestamp == nil {
			leave[name]++
		}
	}
	for name, n := range leave {
		if n > o.gang(name).spare && !broken[name] {
			broken[name], more = true, true
		}
	}
	return more
}

// whole adds the rest of the gangs of which some leave that they cannot spare. The most
// important come first, as those expect who compare nodes.
func (o *ordinary) whole(victims []*v1.Pod, broken map[string]bool) []*v1.Pod {
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		some := slices.ContainsFunc(victims, func(p *v1.Pod) bool { return convert.GangOf(p) == name && p.DeletionTimestamp == nil })
		if !some {
			continue // others of the node are enough
		}
		for _, p := range o.gang(name).pods {
			if !slices.ContainsFunc(victims, func(v *v1.Pod) bool { return v.UID == p.UID }) {
				victims = append(victims, p)
			}
		}
	}
	slices.SortStableFunc(victims, func(x, y *v1.Pod) int { return int(int64(convert.Priority(y)) - int64(convert.Priority(x))) })
	return victims
}

// violating counts the victims that disruption budgets do not allow to evict.
func violating(victims []*v1.Pod, budgets []*policy.PodDisruptionBudget) (n int) {
	var all []preemption.Victim
	for _, p := range victims {
		if info, err := framework.NewPodInfo(p); err == nil {
			all = append(all, preemption.NewPodVictim(info, nil, nil))
		}
	}
	violates, _ := preemption.FilterVictimsWithPDBViolation(all, budgets)
	for _, v := range violates {
		n += v.ViolateCount
	}
	return n
}
