package ordinary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// runningGang is a gang as a victim of an ordinary pod. It is looked up once in an attempt, with all of
// its group, and nothing that is asked of it for a node may take as many steps as it has members.
type runningGang struct {
	name  gang.Ref
	pods  []*v1.Pod          // all that have a node or are about to
	is    map[types.UID]bool // whether a pod is one of them, and no other
	joins map[types.UID]bool // whether it can be sent back and takes nobody along
	spare int                // how many of them it does not need
	stand eligible.Standing
	at    int // which of its group it is
	group *runningGroup
}

// runningGroup is what runs of a GangGroup: a gang mostly, alone.
type runningGroup struct {
	gangs []*runningGang
	is    []bundle.Gang
	some  bool             // it may run without some of them
	units map[string]*unit // by who leaves, those that were asked for
	after map[string]*unit // by whose loss was asked about
}

// unit is gangs of a group that leave together.
type unit struct {
	id    string
	gangs []*runningGang
	pods  []*v1.Pod // the most important first
	// priority is the highest among them: for less, they cannot leave.
	priority  int32
	protected bool
	node      string // where all of them are; "" if that is more than one node
	parts     int    // of which each might leave without the others
}

// gang returns what runs of a gang, looked up once in an attempt.
func (o *PodPreemption) gang(name gang.Ref) *runningGang {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gangs == nil {
		o.gangs, o.split = map[gang.Ref]*runningGang{}, map[types.UID]gang.Ref{}
	}
	if g := o.gangs[name]; g != nil {
		return g
	}
	group := &runningGroup{units: map[string]*unit{}, after: map[string]*unit{}}
	for _, is := range eligible.Gangs(o.evictor.Cache, o.evictor.Cache.Together(name), o.evictor.Cache.Placed) {
		g := &runningGang{name: is.Ref, pods: is.Pods, is: map[types.UID]bool{}, joins: is.Joining, at: len(group.gangs), spare: is.Spare, stand: eligible.StandingOf(is), group: group}
		for _, p := range is.Pods {
			g.is[p.UID] = !is.Joining[p.UID]
			if is.IsPart() {
				o.split[p.UID] = is.Ref
			}
		}
		group.gangs, group.some = append(group.gangs, g), group.some || len(is.Above) > 0
		is.Group = 1
		group.is = append(group.is, is.Gang)
		o.gangs[is.Ref], o.gangs[is.Ref.Whole()] = g, g
	}
	return o.gangs[name]
}

// gangOf is the gang of a pod, or the part of it that may leave by itself; zero if it is in none.
func (o *PodPreemption) gangOf(pod *v1.Pod) gang.Ref {
	name := source.Of(pod)
	if name.IsZero() {
		return name
	}
	o.gang(name) // so that it is known who is in a part
	o.mu.Lock()
	defer o.mu.Unlock()
	if part, ok := o.split[pod.UID]; ok {
		return part
	}
	return name
}

// unit is who leaves when some gangs of a group lose more members than they can spare: these, and who
// cannot run without them.
func (o *PodPreemption) unit(g *runningGroup, breaks func(*runningGang) bool) *unit {
	o.mu.Lock()
	defer o.mu.Unlock()
	var asked strings.Builder
	lost := make([]int, len(g.gangs))
	for i, of := range g.gangs {
		if g.some && breaks(of) { // else it is all of them, whoever breaks
			fmt.Fprint(&asked, i, " ")
		}
		if !g.some || breaks(of) {
			lost[i] = of.spare + 1
		}
	}
	if u := g.after[asked.String()]; u != nil {
		return u
	}
	leave := bundle.Evicted(g.is, lost)
	u := &unit{}
	for i, of := range g.gangs {
		if leave[i] {
			u.gangs, u.id = append(u.gangs, of), u.id+of.name.ID()+"\n"
		}
	}
	if known := g.units[u.id]; known != nil {
		u = known
	} else {
		g.units[u.id] = u
		u.parts = len(bundle.Apart(g.is, leave))
		o.fill(u)
	}
	g.after[asked.String()] = u
	return u
}

// fill looks at all pods of a unit.
func (o *PodPreemption) fill(u *unit) {
	for _, g := range u.gangs {
		u.pods = append(u.pods, g.pods...)
	}
	for i, p := range u.pods {
		if i == 0 {
			u.node, u.priority = p.Spec.NodeName, o.evictor.Cache.Priority(p)
		}
		u.priority = max(u.priority, o.evictor.Cache.Priority(p))
		u.protected = u.protected || o.stays(p)
		if p.Spec.NodeName != u.node {
			u.node = ""
		}
	}
	slices.SortStableFunc(u.pods, o.moreImportant)
}

// has says whether a gang is in a unit.
func (u *unit) has(g *runningGang) bool { return slices.Contains(u.gangs, g) }

// alone is who leaves when only one gang loses more members than it can spare.
func (o *PodPreemption) alone(g *runningGang) *unit {
	return o.unit(g.group, func(of *runningGang) bool { return of == g })
}

// choice is what is known, while victims are looked for on a node, of gangs that lose members.
type choice struct {
	node string
	pod  *v1.Pod
	// broken are those that lose more than they can spare, and kept those who must not: not all may
	// leave who would have to.
	broken, kept map[gang.Ref]bool
}

// broken is who leaves of a gang's group because of gangs that are broken.
func (o *PodPreemption) broken(g *runningGang, c *choice) *unit {
	return o.unit(g.group, func(of *runningGang) bool { return c.broken[of.name] })
}

// may says whether a unit may leave for a pod.
func (o *PodPreemption) may(u *unit, c *choice) bool {
	return !u.protected && u.priority < o.evictor.Cache.Priority(c.pod) && (!o.asksExtenders() || u.node == c.node)
}

// moreImportant puts pods of higher priority first, as the order of nodes expects.
func (o *PodPreemption) moreImportant(x, y *v1.Pod) int {
	return cmp.Compare(o.evictor.Cache.Priority(y), o.evictor.Cache.Priority(x))
}

// of leaves out the pods that do not count as running.
func (g *runningGang) of(pods []fwk.PodInfo) (out []fwk.PodInfo) {
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
	for _, name := range eligible.SortedRefs(all.gangs) {
		if g := o.gang(name); g.spare > 0 {
			out = append(out, o.each(g.of(all.gangs[name]))...)
		}
	}
	return out
}

// units lists who may be chosen when gangs may leave whole: of each gang the least important
// that it can spare, and the rest as one victim, with that of others which leave because of the same.
// Of those that leave anyway all are one.
func (o *PodPreemption) units(all possible, c *choice) []*preemption.DomainVictim {
	out := slices.Clone(all.single)
	whole := map[*unit][]fwk.PodInfo{}
	var order []*unit
	for _, name := range eligible.SortedRefs(all.gangs) {
		g := o.gang(name)
		here := g.of(all.gangs[name])
		u, spare := o.broken(g, c), min(g.spare, len(here))
		leaves := u.has(g)
		if leaves {
			spare = 0
		} else {
			u = o.alone(g)
		}
		out = append(out, o.each(here[len(here)-spare:])...)
		if rest := here[:len(here)-spare]; len(rest) > 0 && (leaves || !c.kept[name]) {
			if whole[u] == nil {
				order = append(order, u)
			}
			whole[u] = append(whole[u], rest...)
		}
	}
	for _, u := range order {
		if !o.may(u, c) {
			continue
		}
		kind := fwk.PodGroupKeyType
		if g := u.gangs[0].group; g.some && len(u.gangs) > 1 {
			kind = fwk.CompositePodGroupKeyType // these leave after those of one gang
		}
		if v, err := preemption.NewVictim(whole[u], u.priority, kind); err == nil {
			out = append(out, &preemption.DomainVictim{Victim: v})
		}
	}
	return out
}

// each makes each pod a victim of its own.
func (o *PodPreemption) each(pods []fwk.PodInfo) (out []*preemption.DomainVictim) {
	for _, p := range pods {
		out = append(out, o.victimOf(p))
	}
	return out
}

// victimOf returns a pod as a victim that is evicted alone, with the priority that its PodGroup gives it.
func (o *PodPreemption) victimOf(pod fwk.PodInfo) *preemption.DomainVictim {
	v, _ := preemption.NewVictim([]fwk.PodInfo{pod}, o.evictor.Cache.Priority(pod.GetPod()), fwk.PodKeyType) // an error needs no pod
	return &preemption.DomainVictim{Victim: v}
}

// asksExtenders says whether extenders have a say: they know only victims that are on the
// node.
func (o *PodPreemption) asksExtenders() bool {
	return slices.ContainsFunc(o.evictor.Profile.Extenders(), func(e fwk.Extender) bool { return e.SupportsPreemption() })
}

// lost lists the gangs that would lose more than they can spare, by name.
func (o *PodPreemption) lost(victims []*v1.Pod) (lost []*runningGang) {
	leave := map[gang.Ref]int{}
	for _, p := range victims {
		if name := o.gangOf(p); !name.IsZero() && p.DeletionTimestamp == nil && !o.gang(name).joins[p.UID] {
			leave[name]++
		}
	}
	for _, name := range eligible.SortedRefs(leave) {
		if g := o.gang(name); leave[name] > g.spare {
			lost = append(lost, g)
		}
	}
	return lost
}

// breaks adds the gangs that would lose more than they can spare, and says whether there are any
// that do not leave because of others that were known. Those come first that are last by name: where
// not all may leave who would have to, the others are kept.
func (o *PodPreemption) breaks(victims []*v1.Pod, c *choice) (more bool) {
	for _, g := range slices.Backward(o.lost(victims)) {
		if o.broken(g, c).has(g) {
			continue
		}
		c.broken[g.name], more = true, true
		if !o.may(o.broken(g, c), c) {
			delete(c.broken, g.name)
			c.kept[g.name] = true
		}
	}
	return more
}

// leavers are who leaves a node, with all that leave because of them.
type leavers struct {
	pods       []*v1.Pod // the most important first
	violations int       // of disruption budgets
	parts      int       // of groups that leave whole
}

// whole adds the rest of the gangs of which more leave than they can spare, and all that cannot run
// without those. Where nobody else leaves, the answer is the same for all nodes of these gangs, and is
// shared.
func (o *PodPreemption) whole(victims []*v1.Pod, budgets []*policy.PodDisruptionBudget) *leavers {
	lost := o.lost(victims)
	var units []*unit
	of := map[*runningGroup]*unit{}
	for _, g := range lost {
		if of[g.group] == nil {
			of[g.group] = o.unit(g.group, func(other *runningGang) bool { return slices.Contains(lost, other) })
			units = append(units, of[g.group])
		}
	}
	var others []*v1.Pod
	for _, p := range victims {
		if name := o.gangOf(p); !name.IsZero() && p.DeletionTimestamp == nil {
			if g := o.gang(name); of[g.group] != nil && of[g.group].has(g) && (g.is[p.UID] || g.joins[p.UID]) {
				continue
			}
		}
		others = append(others, p)
	}
	var id strings.Builder
	for _, u := range units {
		id.WriteString(u.id + "\n")
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
	out := &leavers{pods: others}
	for _, u := range units {
		out.pods, out.parts = append(out.pods, u.pods...), out.parts+u.parts
	}
	if !slices.IsSortedFunc(out.pods, o.moreImportant) {
		slices.SortStableFunc(out.pods, o.moreImportant)
	}
	out.violations = o.violating(out.pods, budgets)
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
