package preempt

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// candidates are the pods that may be evicted for an attempt.
type candidates struct {
	*place.Attempt
	cache *cache.Cache
	claim Claim              // what quotas say; nil if there are none
	waits map[types.UID]bool // at Permit, so that it can be sent back to the queue
	here  []onNode           // by node index
	gangs []evict.Gang
	whole [][]*v1.Pod            // by gang, all that run
	joins map[types.UID]bool     // who can be sent back and takes nobody along
	parts map[types.UID]gang.Ref // who is in a part of a gang that may leave by itself
	sizes eligible.Sizes
	stand []eligible.Standing // by gang
	any   bool
	// keptOff says that somebody who may leave, or leaves anyway, keeps members off other nodes than his own.
	keptOff bool
	lacking bool // there is room when some have left, and the quotas have too little then
	late    bool // somebody would take longer than that to leave, and stays therefore

	limits map[string][]budget // by namespace
}

// budget is a PodDisruptionBudget and who counts towards it.
type budget struct {
	evict.Budget
	selects labels.Selector
	leaves  map[string]metav1.Time // by name: the API server has let these go already
}

// onNode are the candidates of one node, and those that leave anyway: they count as gone
// at no cost, since waiting for them beats evicting more.
type onNode struct {
	victims []evict.Victim
	pods    []*v1.Pod // of the victims
	leaving []*v1.Pod
}

// without lists who has left when some victims have.
func (n onNode) without(out []int) []*v1.Pod {
	gone := slices.Clone(n.leaving)
	for _, v := range out {
		gone = append(gone, n.pods[v])
	}
	return gone
}

// candidates looks at every pod of the snapshot. A possible victim has a lower priority
// than every pending member, or is one whose quotas allow it, and is not protected; one of a running gang leaves with all
// of its group, or of the gang if the group may run on without, or is one that it can spare. A pod with a longer grace period than grace is no victim. to is as for claim.
// Some pods count as if they had been seen terminating; nil is none.
func (p *Preemptor) candidates(ctx context.Context, a *place.Attempt, grace time.Duration, to extent, some map[types.UID]bool) *candidates {
	claim := p.claim(a.Group, grace, to)
	c := &candidates{
		Attempt: a, cache: p.Cache, here: p.vain.takeHere(len(a.Nodes)), limits: p.listBudgets(),
		waits: p.waiting(), claim: claim, joins: map[types.UID]bool{},
	}
	c.sizes = eligible.SizesFor(c.pending())
	now := p.Clock.Now()
	late := make([]bool, len(a.Nodes))
	rule := p.rule(a, claim)
	mayEvict := func(pod *v1.Pod) bool {
		return eligible.Takes(pod, now) <= grace && (to.highest == nil || p.Cache.Priority(pod) <= *to.highest) && rule.Allows(pod)
	}
	gangs := c.listGangs(a.Group.Whole(), c.onNodes(), mayEvict)
	found, keepOff := make([]bool, len(a.Nodes)), make([]bool, len(a.Nodes))
	a.OnEach(ctx, func(i int, n fwk.NodeInfo) {
		here := &c.here[i]
		for _, info := range n.GetPods() {
			pod := info.GetPod()
			late[i] = late[i] || eligible.Takes(pod, now) > grace
			switch {
			case pod.DeletionTimestamp != nil && eligible.Takes(pod, now) > grace:
			case pod.DeletionTimestamp != nil, some[pod.UID]:
				here.leaving = append(here.leaving, pod)
			default:
				c.enter(here, pod, gangs, mayEvict)
			}
		}
		found[i] = len(here.victims)+len(here.leaving) > 0
		keepOff[i] = slices.ContainsFunc(here.pods, a.KeptOffBy) || slices.ContainsFunc(here.leaving, a.KeptOffBy)
	})
	c.any, c.late, c.keptOff = slices.Contains(found, true), slices.Contains(late, true), slices.Contains(keepOff, true)
	return c
}

// pending returns the members that need room.
func (c *candidates) pending() (pods []*v1.Pod) {
	for _, m := range c.Group.Pending {
		pods = append(pods, c.Group.Pods[m.Pod])
	}
	return pods
}

// enter lists a pod of a node as a victim if it may be evicted.
func (c *candidates) enter(here *onNode, pod *v1.Pod, gangs map[gang.Ref]int, mayEvict func(*v1.Pod) bool) {
	name := source.Of(pod)
	if part, ok := c.parts[pod.UID]; ok {
		name = part
	}
	g, known := gangs[name]
	if !mayEvict(pod) || !name.IsZero() && (!known || !c.placed(pod)) {
		return
	}
	victim := c.victim(pod)
	if g > 0 && !c.joins[pod.UID] {
		stand := c.stand[g-1]
		victim.Gang, victim.Started, victim.Leads, victim.Rank = g, stand.StartedOf(pod), stand.Leads[pod.UID] > 0, eligible.Rank(pod)
	}
	here.victims, here.pods = append(here.victims, victim), append(here.pods, pod)
}

// onNodes lists the pods of the nodes.
func (c *candidates) onNodes() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, n := range c.Nodes {
			if n == nil {
				continue
			}
			for _, info := range n.GetPods() {
				if !yield(info.GetPod()) {
					return
				}
			}
		}
	}
}

// waiting are those who wait at Permit.
func (p *Preemptor) waiting() map[types.UID]bool {
	waits := map[types.UID]bool{}
	p.Profile.IterateOverWaitingPods(func(w fwk.WaitingPod) { waits[w.GetPod().UID] = true })
	return waits
}

// listGangs lists the running gangs of some pods of which somebody may be evicted, with all of their
// groups, and returns the numbers of those gangs, counted from 1. It leaves out the own gangs.
func (c *candidates) listGangs(own []gang.Ref, pods iter.Seq[*v1.Pod], mayEvict func(*v1.Pod) bool) map[gang.Ref]int {
	numbers := map[gang.Ref]int{{}: 0}
	looked := map[gang.Ref]bool{{}: true}
	for _, ref := range own {
		looked[ref] = true
	}
	groups := 0
	for pod := range pods {
		if name := source.Of(pod); !looked[name] {
			groups++
			together := c.cache.Together(name)
			for _, of := range together {
				looked[of] = true
			}
			c.listGroup(groups, together, mayEvict, numbers)
		}
	}
	return numbers
}

// listGroup lists the gangs of one group that run, if somebody of them may be evicted.
func (c *candidates) listGroup(group int, together []gang.Ref, mayEvict func(*v1.Pod) bool, numbers map[gang.Ref]int) {
	var gangs []evict.Gang
	var names []gang.Ref
	var runs [][]*v1.Pod
	var stand []eligible.Standing
	var joined []bool          // whether others are about to join them, who may be sent back
	whole, some := true, false // all may leave; some may without the others
	for _, is := range eligible.Gangs(c.cache, together, c.running) {
		if len(is.Pods) == 0 {
			continue
		}
		maps.Copy(c.joins, is.Joining)
		back := slices.ContainsFunc(is.Pods, func(p *v1.Pod) bool { return is.Joining[p.UID] && mayEvict(p) })
		g := evict.Gang{Gang: is.Gang, Whole: !slices.ContainsFunc(is.Pods, func(p *v1.Pod) bool { return !mayEvict(p) }) && c.mayAll(is.Pods)}
		g.Group = group
		whole, some = whole && g.Whole, some || g.Spare > 0 || back || g.Whole && len(g.Above) > 0
		gangs, names, runs, joined = append(gangs, g), append(names, is.Ref), append(runs, is.Pods), append(joined, back)
		stand = append(stand, eligible.StandingOf(is))
		if is.IsPart() {
			c.split(is)
		}
	}
	if !whole && !some {
		return
	}
	for i, g := range gangs {
		for _, p := range runs[i] {
			v := c.unshaped(p, convert.Requests(p))
			g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
		}
		c.gangs, c.whole, c.stand = append(c.gangs, g), append(c.whole, runs[i]), append(c.stand, stand[i])
		if whole || g.Spare > 0 || joined[i] || g.Whole && len(g.Above) > 0 {
			numbers[names[i]] = len(c.gangs)
		}
	}
}

// mayAll returns whether quotas allow the eviction of all of some pods together, each of which they allow.
func (c *candidates) mayAll(pods []*v1.Pod) bool {
	if c.claim == nil {
		return true
	}
	may, _ := c.claim.Turns()
	return may(pods)
}

// split notes that some members of a gang are victims by themselves.
func (c *candidates) split(part eligible.Gang) {
	if c.parts == nil {
		c.parts = map[types.UID]gang.Ref{}
	}
	for _, p := range part.Pods {
		c.parts[p.UID] = part.Ref
	}
}

// running is Cache.Running with the members that wait at Permit, who can be sent back to the
// queue. While others are on their way to their node, nobody can be: they are awaited.
func (c *candidates) running(name gang.Ref) (pods []*v1.Pod, least int) {
	if pods, least = c.cache.Placed(name); !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return !c.placed(p) }) {
		return pods, least
	}
	return c.cache.Running(name)
}

// placed says whether a member runs, or waits at Permit for others.
func (c *candidates) placed(pod *v1.Pod) bool {
	return c.waits[pod.UID] || c.cache.Bound(pod)
}

// raw is what each node takes without some of its victims.
func (c *candidates) raw(ctx context.Context) []evict.RawNode {
	raw := make([]evict.RawNode, len(c.Nodes))
	for i, here := range c.here {
		raw[i] = evict.RawNode{Victims: here.victims, Slots: func(gone []int) offer.Slots {
			if c.Nodes[i] == nil {
				return 0
			}
			return c.CountWithout(ctx, i, here.without(gone))
		}}
	}
	return raw
}

// victims are the pods that were picked; of gangs that leave whole, all that run.
func (c *candidates) victims(picks []evict.Pick) (gone []*v1.Pod) {
	of := make([]int, len(c.gangs)+1)
	for _, p := range picks {
		of[c.here[p.Node].victims[p.Victim].Gang]++
	}
	gangs := make([]bundle.Gang, len(c.gangs))
	for i, g := range c.gangs {
		gangs[i] = g.Gang
	}
	whole := bundle.Evicted(gangs, of[1:])
	for _, p := range picks {
		if g := c.here[p.Node].victims[p.Victim].Gang; g == 0 || !whole[g-1] {
			gone = append(gone, c.here[p.Node].pods[p.Victim])
		}
	}
	for g, all := range c.whole {
		if whole[g] {
			is := eligible.UIDs([][]*v1.Pod{all})
			gone = slices.DeleteFunc(gone, func(p *v1.Pod) bool { return c.joins[p.UID] && is[p.UID] })
			gone = append(gone, all...)
		}
	}
	return gone
}

func (c *candidates) noHelp() Verdict {
	if c.any {
		return NoHelp
	}
	return Nobody
}

// everybody lists all possible victims.
func (c *candidates) everybody() (out []evict.Pick) {
	for i, here := range c.here {
		for v := range here.pods {
			out = append(out, evict.Pick{Node: i, Victim: v})
		}
	}
	return out
}

// gone lists, by node index, who has left when the victims have.
func (c *candidates) gone(victims []evict.Pick) [][]*v1.Pod {
	gone := make([][]*v1.Pod, len(c.here))
	for i, here := range c.here {
		gone[i] = here.without(nil)
	}
	for _, v := range victims {
		gone[v.Node] = append(gone[v.Node], c.here[v.Node].pods[v.Victim])
	}
	return gone
}

// victim is a pod as package evict sees it.
func (c *candidates) victim(pod *v1.Pod) evict.Victim {
	requests := convert.Requests(pod)
	v := c.unshaped(pod, requests)
	v.Shape = convert.Occupies(pod, requests)
	return v
}

// unshaped is a victim of which only the costs count. Who waits at Permit is not healthy yet: no budget counts
// on it.
func (c *candidates) unshaped(pod *v1.Pod, requests quota.List) evict.Victim {
	v := evict.Victim{
		Name: convert.PodKey(pod), Priority: c.cache.Priority(pod), Waits: c.waits[pod.UID], Started: convert.Started(pod), Size: c.sizes.Of(requests),
	}
	if !v.Waits {
		v.Budgets = c.budgetsOf(pod)
	}
	return v
}

// listBudgets lists the disruption budgets by namespace. One without a selector selects
// nobody, and one with an empty selector everybody, as policy/v1 has it (the scheduler's
// own preemption takes both for nobody).
func (p *Preemptor) listBudgets() map[string][]budget {
	all, err := p.budgets.List(labels.Everything())
	if err != nil {
		return nil
	}
	budgets := map[string][]budget{}
	for _, b := range all {
		selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		budgets[b.Namespace] = append(budgets[b.Namespace], budget{
			Budget:  evict.Budget{Name: b.Namespace + "/" + b.Name, Allowed: max(0, int(b.Status.DisruptionsAllowed))},
			selects: selects, leaves: b.Status.DisruptedPods,
		})
	}
	for _, some := range budgets {
		slices.SortFunc(some, func(x, y budget) int { return cmp.Compare(x.Name, y.Name) })
	}
	return budgets
}

// budgetsOf lists the budgets that a pod counts towards.
func (c *candidates) budgetsOf(pod *v1.Pod) (out []evict.Budget) {
	for _, b := range c.limits[pod.Namespace] {
		if _, leaves := b.leaves[pod.Name]; !leaves && b.selects.Matches(labels.Set(pod.Labels)) {
			out = append(out, b.Budget)
		}
	}
	return out
}
