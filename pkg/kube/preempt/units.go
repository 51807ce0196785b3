package preempt

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// runningGroup is a GangGroup as a victim of an ordinary pod: a gang mostly, alone. It is
// looked up once in an attempt, and nothing that is asked of it for a node may take as many
// steps as it has members.
type runningGroup struct {
	key   gang.Ref
	pods  []*v1.Pod          // all that have a node or are about to, the most important first
	is    map[types.UID]bool // whether a pod is one of them
	spare map[gang.Ref]int   // by gang, how many of them it does not need
	// priority is the highest among them: for less, the group cannot leave whole.
	priority  int32
	protected bool
	node      string // where all of them are; "" if that is more than one node
}

// group returns what runs of a gang's group, looked up once in an attempt.
func (o *PodPreemption) group(name gang.Ref) *runningGroup {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.groups == nil {
		o.groups = map[gang.Ref]*runningGroup{}
	}
	g := o.groups[name]
	if g != nil {
		return g
	}
	together := o.preemptor.Cache.Together(name)
	for _, of := range o.preemptor.spareGangs(together) {
		o.groups[of] = o.running(of, []gang.Ref{of})
	}
	for _, of := range together { // the others leave with all of them
		if o.groups[of] == nil {
			if g == nil {
				g = o.running(of, together)
			}
			o.groups[of] = g
		}
	}
	return o.groups[name]
}

// running is what runs of some gangs that leave together.
func (o *PodPreemption) running(key gang.Ref, gangs []gang.Ref) *runningGroup {
	g := &runningGroup{key: key, is: map[types.UID]bool{}, spare: map[gang.Ref]int{}}
	for _, of := range gangs {
		pods, least := o.preemptor.Cache.Placed(of)
		g.spare[of] = max(0, len(pods)-least)
		g.pods = append(g.pods, pods...)
	}
	for i, p := range g.pods {
		g.is[p.UID] = true
		if i == 0 {
			g.node, g.priority = p.Spec.NodeName, convert.Priority(p)
		}
		g.priority = max(g.priority, convert.Priority(p))
		g.protected = g.protected || o.stays(p)
		if p.Spec.NodeName != g.node {
			g.node = ""
		}
	}
	slices.SortStableFunc(g.pods, moreImportant)
	return g
}

// spareGangs are those, the last by name, which a group may run on without: all of them at once, or
// any. Only these leave alone for an ordinary pod; with the others all of the group leaves.
func (p *Preemptor) spareGangs(together []gang.Ref) (spare []gang.Ref) {
	for _, of := range slices.Backward(together) {
		if len(p.Cache.Above(of)) == 0 {
			continue
		}
		gone := map[gang.Ref]map[types.UID]bool{}
		for _, ref := range append(spare, of) {
			pods, _ := p.Cache.Placed(ref)
			gone[ref] = map[types.UID]bool{}
			for _, pod := range pods {
				gone[ref][pod.UID] = true
			}
		}
		if _, all := p.broken(together, gone); !all {
			spare = append(spare, of)
		}
	}
	return spare
}

// moreImportant orders pods as those expect who compare nodes.
func moreImportant(x, y *v1.Pod) int { return cmp.Compare(convert.Priority(y), convert.Priority(x)) }

// of leaves out the pods that do not count as running.
func (g *runningGroup) of(pods []fwk.PodInfo) (out []fwk.PodInfo) {
	for _, p := range pods {
		if g.is[p.GetPod().UID] {
			out = append(out, p)
		}
	}
	return out
}

// spared lists who may be chosen as long as every gang has enough left: whoever of a gang
// that can spare somebody.
func (o *PodPreemption) spared(all possible) []*preemption.DomainVictim {
	out := slices.Clone(all.single)
	for _, name := range sortedRefs(all.gangs) {
		if g := o.group(name); g.spare[name] > 0 {
			out = append(out, alone(g.of(all.gangs[name]))...)
		}
	}
	return out
}

// units lists who may be chosen when groups may leave whole: of each gang the least important
// that it can spare, and the rest of its group as one victim. Of those that leave anyway
// all are one.
func (o *PodPreemption) units(all possible, broken map[gang.Ref]bool, node string) []*preemption.DomainVictim {
	out := slices.Clone(all.single)
	whole := map[gang.Ref][]fwk.PodInfo{} // by group
	for _, name := range sortedRefs(all.gangs) {
		g := o.group(name)
		here := g.of(all.gangs[name])
		spare := min(g.spare[name], len(here))
		if broken[g.key] {
			spare = 0
		}
		whole[g.key] = append(whole[g.key], here[:len(here)-spare]...)
		out = append(out, alone(here[len(here)-spare:])...)
	}
	asks := o.asksExtenders()
	for _, key := range sortedRefs(whole) {
		g, unit := o.group(key), whole[key]
		if len(unit) == 0 || g.protected || asks && g.node != node {
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

// sortedRefs are the keys by name.
func sortedRefs[V any](of map[gang.Ref]V) []gang.Ref {
	return slices.SortedFunc(maps.Keys(of), func(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) })
}

// asksExtenders says whether extenders have a say: they know only victims that are on the
// node.
func (o *PodPreemption) asksExtenders() bool {
	return slices.ContainsFunc(o.preemptor.Profile.Extenders(), func(e fwk.Extender) bool { return e.SupportsPreemption() })
}

// breaks adds the groups of which a gang would lose more than it can spare, and says whether
// there are any that were not known.
func (o *PodPreemption) breaks(victims []*v1.Pod, broken map[gang.Ref]bool) (more bool) {
	leave := map[gang.Ref]int{}
	for _, p := range victims {
		if name := source.Of(p); !name.IsZero() && p.DeletionTimestamp == nil {
			leave[name]++
		}
	}
	for name, n := range leave {
		if g := o.group(name); n > g.spare[name] && !broken[g.key] {
			broken[g.key], more = true, true
		}
	}
	return more
}

// leavers are who leaves a node, with all that leave because of them.
type leavers struct {
	pods       []*v1.Pod // the most important first
	violations int       // of disruption budgets
}

// whole adds the rest of the groups of which some leave that a gang cannot spare. Where
// nobody else leaves, the answer is the same for all nodes of these groups, and is shared.
func (o *PodPreemption) whole(victims []*v1.Pod, broken map[gang.Ref]bool, budgets []*policy.PodDisruptionBudget) *leavers {
	some, others := map[gang.Ref]bool{}, []*v1.Pod(nil)
	for _, p := range victims {
		name := source.Of(p)
		if !name.IsZero() && p.DeletionTimestamp == nil {
			if g := o.group(name); broken[g.key] && g.is[p.UID] {
				some[g.key] = true
				continue
			}
		}
		others = append(others, p)
	}
	all := sortedRefs(some)
	var id strings.Builder
	for _, key := range all {
		id.WriteString(key.ID() + "\n")
	}
	shared := len(others) == 0
	if shared {
		o.mu.Lock()
		known := o.shared[id.String()]
		o.mu.Unlock()
		if known != nil {
			return known
		}
	}
	pods, there := others, map[types.UID]bool{} // a gang may leave alone, and with its group
	for _, key := range all {
		for _, pod := range o.group(key).pods {
			if !there[pod.UID] {
				there[pod.UID] = true
				pods = append(pods, pod)
			}
		}
	}
	if !slices.IsSortedFunc(pods, moreImportant) {
		slices.SortStableFunc(pods, moreImportant)
	}
	out := &leavers{pods: pods, violations: o.violating(pods, budgets)}
	if shared {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.shared != nil {
			o.shared[id.String()] = out
		}
	}
	return out
}

// selecting is a disruption budget whose selector was read once.
type selecting struct {
	*policy.PodDisruptionBudget
	selects labels.Selector
}

// violating counts the victims that disruption budgets do not allow to evict, as
// DefaultPreemption does: in the order of the victims, and a budget without a selector
// selects nobody.
func (o *PodPreemption) violating(victims []*v1.Pod, budgets []*policy.PodDisruptionBudget) (n int) {
	if len(budgets) == 0 {
		return 0
	}
	by := map[string][]selecting{} // namespace
	for _, b := range budgets {
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !s.Empty() {
			by[b.Namespace] = append(by[b.Namespace], selecting{b, s})
		}
	}
	left := map[*policy.PodDisruptionBudget]int32{}
	for _, b := range budgets {
		left[b] = b.Status.DisruptionsAllowed
	}
	for _, p := range victims {
		for _, b := range by[p.Namespace] {
			if _, processed := b.Status.DisruptedPods[p.Name]; processed || len(p.Labels) == 0 || !b.selects.Matches(labels.Set(p.Labels)) {
				continue
			}
			if left[b.PodDisruptionBudget]--; left[b.PodDisruptionBudget] < 0 {
				n++
				break
			}
		}
	}
	return n
}
