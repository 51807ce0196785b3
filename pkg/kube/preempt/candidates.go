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

// candidates are the pods that may be evicted so that the pending members of an attempt fit.
type candidates struct {
	*place.Attempt
	cache        *cache.Cache
	search       VictimSearch       // the quota check; nil without quotas
	atPermit     map[types.UID]bool // pods at Permit, whose eviction requeues them
	byNode       []onNode           // by node index
	gangs        []evict.Gang
	runningPods  [][]*v1.Pod            // by gang, all running members
	joining      map[types.UID]bool     // members that may be requeued without their gang
	subGroups    map[types.UID]gang.Ref // members of sub-groups that may be evicted by themselves
	sizes        eligible.Sizes
	standings    []eligible.Standing // by gang
	anyCandidate bool
	// blocksOthers says that a candidate or terminating pod keeps members off other nodes than its own.
	blocksOthers     bool
	quotaShort       bool // some victim set frees enough capacity on nodes, but the quota check rejects it
	slowPodsExcluded bool // a pod is no candidate only because it terminates too slowly

	budgets map[string][]budget // by namespace
}

// budget is a PodDisruptionBudget with the pods that it selects.
type budget struct {
	evict.Budget
	selects   labels.Selector
	disrupted map[string]metav1.Time // by name: disruptions that the API server has already counted
}

// onNode has the candidates and the terminating pods of one node. The latter count as gone at no cost, so that the search prefers them.
type onNode struct {
	victims     []evict.Victim
	pods        []*v1.Pod // the pod of each victim, by the same index
	terminating []*v1.Pod
}

// gone returns the terminating pods of the node and the pods of the given victims (indexes into n.victims).
func (n onNode) gone(victims []int) []*v1.Pod {
	pods := slices.Clone(n.terminating)
	for _, v := range victims {
		pods = append(pods, n.pods[v])
	}
	return pods
}

// candidates returns the pods on the attempt's nodes that may be evicted. Such a pod is not protected. It has a lower priority than every
// pending member, or the quota check allows its eviction. Pods that take longer than grace to terminate are excluded. Pods in assumed
// count as terminating; nil is none. The fields of limits restrict the candidates further.
func (p *Preemptor) candidates(
	ctx context.Context, a *place.Attempt, grace time.Duration, limits victimLimits, assumed map[types.UID]bool,
) *candidates {
	search := p.search(a.Group, grace, limits)
	c := &candidates{
		Attempt: a, cache: p.Cache, byNode: p.memory.takeSpare(len(a.Nodes)), budgets: p.listBudgets(),
		atPermit: p.podsAtPermit(), search: search, joining: map[types.UID]bool{},
	}
	c.sizes = eligible.SizesFor(c.pending())
	now := p.Clock.Now()
	slowPodsExcluded := make([]bool, len(a.Nodes))
	rule := p.rule(a, search)
	rule.Equal = limits.equal
	inLimits := func(pod *v1.Pod) bool {
		return eligible.TimeToTerminate(pod, now) <= grace && (limits.highest == nil || p.Cache.Priority(pod) <= *limits.highest)
	}
	mayEvict := func(pod *v1.Pod) bool {
		return inLimits(pod) && (limits.only[pod.UID] || limits.only == nil && rule.Allows(pod))
	}
	inBundle := func(pod *v1.Pod) bool { return mayEvict(pod) || limits.also[pod.UID] && inLimits(pod) }
	gangs := c.listGangs(a.Group.Whole(), c.onNodes(), inBundle)
	found, blocks := make([]bool, len(a.Nodes)), make([]bool, len(a.Nodes))
	a.OnEach(ctx, func(i int, n fwk.NodeInfo) {
		entry := &c.byNode[i]
		for _, info := range n.GetPods() {
			pod := info.GetPod()
			slowPodsExcluded[i] = slowPodsExcluded[i] || eligible.TimeToTerminate(pod, now) > grace
			switch {
			case pod.DeletionTimestamp != nil && eligible.TimeToTerminate(pod, now) > grace:
			case pod.DeletionTimestamp != nil, assumed[pod.UID]:
				entry.terminating = append(entry.terminating, pod)
			default:
				c.addVictim(entry, pod, gangs, mayEvict)
			}
		}
		found[i] = len(entry.victims)+len(entry.terminating) > 0
		blocks[i] = slices.ContainsFunc(entry.pods, a.KeptOffBy) || slices.ContainsFunc(entry.terminating, a.KeptOffBy)
	})
	c.anyCandidate = slices.Contains(found, true)
	c.slowPodsExcluded = slices.Contains(slowPodsExcluded, true)
	c.blocksOthers = slices.Contains(blocks, true)
	return c
}

// pending returns the pods of the attempt's pending members.
func (c *candidates) pending() (pods []*v1.Pod) {
	for _, m := range c.Group.Pending {
		pods = append(pods, c.Group.Pods[m.Pod])
	}
	return pods
}

// addVictim adds a pod to the victims of its node if it may be evicted. gangs has the number of each gang with candidates, from listGangs.
func (c *candidates) addVictim(entry *onNode, pod *v1.Pod, gangs map[gang.Ref]int, mayEvict func(*v1.Pod) bool) {
	name := source.GangOf(pod)
	if part, ok := c.subGroups[pod.UID]; ok {
		name = part
	}
	g, known := gangs[name]
	if !mayEvict(pod) || !name.IsZero() && (!known || !c.placed(pod)) {
		return
	}
	victim := c.victim(pod)
	if g > 0 && !c.joining[pod.UID] {
		standing := c.standings[g-1]
		victim.Gang = g
		victim.Started = standing.StartedOf(pod)
		victim.Leads = standing.Leads[pod.UID] > 0
		victim.Rank = eligible.Rank(pod)
	}
	entry.victims, entry.pods = append(entry.victims, victim), append(entry.pods, pod)
}

// onNodes iterates over all pods on the attempt's nodes.
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

// podsAtPermit returns the UIDs of the profile's pods that wait at Permit.
func (p *Preemptor) podsAtPermit() map[types.UID]bool {
	pods := map[types.UID]bool{}
	p.Profile.IterateOverWaitingPods(func(w fwk.WaitingPod) { pods[w.GetPod().UID] = true })
	return pods
}

// listGangs fills c.gangs with the gangs of the given pods, and with all gangs of their groups, if a member may be evicted. It returns the
// gangs' numbers: 1 + the index in c.gangs. The gangs in own are skipped; 0 is the number of pods without a gang.
func (c *candidates) listGangs(own []gang.Ref, pods iter.Seq[*v1.Pod], mayEvict func(*v1.Pod) bool) map[gang.Ref]int {
	numbers := map[gang.Ref]int{{}: 0}
	listed := map[gang.Ref]bool{{}: true}
	for _, ref := range own {
		listed[ref] = true
	}
	groups := 0
	for pod := range pods {
		if name := source.GangOf(pod); !listed[name] {
			groups++
			together := c.cache.Together(name)
			for _, member := range together {
				listed[member] = true
			}
			c.listGroup(groups, together, mayEvict, numbers)
		}
	}
	return numbers
}

// listGroup adds the running gangs of one group to c.gangs and to numbers if one of their members may be evicted. group is the number of
// the group, and together are all its gangs.
func (c *candidates) listGroup(group int, together []gang.Ref, mayEvict func(*v1.Pod) bool, numbers map[gang.Ref]int) {
	var gangs []evict.Gang
	var names []gang.Ref
	var runs [][]*v1.Pod
	var standings []eligible.Standing
	var joined []bool                      // by gang: it has members at Permit that may be requeued alone
	allVictims, someVictims := true, false // all members may be evicted; some may be evicted without the other gangs of the group
	for _, running := range eligible.Gangs(c.cache, together, c.running) {
		if len(running.Pods) == 0 {
			continue
		}
		maps.Copy(c.joining, running.Joining)
		requeues := slices.ContainsFunc(running.Pods, func(p *v1.Pod) bool { return running.Joining[p.UID] && mayEvict(p) })
		g := evict.Gang{
			Gang: running.Gang, Whole: !slices.ContainsFunc(running.Pods, func(p *v1.Pod) bool { return !mayEvict(p) }) && c.mayAll(running.Pods),
		}
		g.Group = group
		allVictims, someVictims = allVictims && g.Whole, someVictims || g.Spare > 0 || requeues || g.Whole && len(g.Above) > 0
		gangs = append(gangs, g)
		names = append(names, running.Ref)
		runs = append(runs, running.Pods)
		joined = append(joined, requeues)
		standings = append(standings, eligible.StandingOf(running))
		if running.IsPart() {
			c.split(running)
		}
	}
	if !allVictims && !someVictims {
		return
	}
	for i, g := range gangs {
		for _, p := range runs[i] {
			v := c.victimWithoutShape(p, convert.Requests(p))
			g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
		}
		c.gangs = append(c.gangs, g)
		c.runningPods = append(c.runningPods, runs[i])
		c.standings = append(c.standings, standings[i])
		if allVictims || g.Spare > 0 || joined[i] || g.Whole && len(g.Above) > 0 {
			numbers[names[i]] = len(c.gangs)
		}
	}
}

// mayAll returns whether the quotas allow the eviction of all these pods together, if they allow the eviction of each one.
func (c *candidates) mayAll(pods []*v1.Pod) bool {
	if c.search == nil {
		return true
	}
	may, _ := c.search.Turns()
	return may(pods)
}

// split records the members of a sub-group in c.subGroups. A sub-group may be evicted without the rest of its gang.
func (c *candidates) split(part eligible.Gang) {
	if c.subGroups == nil {
		c.subGroups = map[types.UID]gang.Ref{}
	}
	for _, p := range part.Pods {
		c.subGroups[p.UID] = part.Ref
	}
}

// running returns the running members of a gang and its minMember, as Cache.Running does. Members at Permit are included, since they can
// be requeued. They are excluded if another member is past Permit and not bound yet.
func (c *candidates) running(name gang.Ref) (pods []*v1.Pod, least int) {
	if pods, least = c.cache.Placed(name); !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return !c.placed(p) }) {
		return pods, least
	}
	return c.cache.Running(name)
}

// placed returns whether a member is bound or waits at Permit.
func (c *candidates) placed(pod *v1.Pod) bool {
	return c.atPermit[pod.UID] || c.cache.Bound(pod)
}

// evictNodes returns by node index the victims, and a function that counts the node's slots after the eviction of given victims.
func (c *candidates) evictNodes(ctx context.Context) []evict.RawNode {
	evictNodes := make([]evict.RawNode, len(c.Nodes))
	for i, entry := range c.byNode {
		evictNodes[i] = evict.RawNode{Victims: entry.victims, Slots: func(victims []int) offer.Slots {
			if c.Nodes[i] == nil {
				return 0
			}
			return c.CountWithout(ctx, i, entry.gone(victims))
		}}
	}
	return evictNodes
}

// victims returns the pods to evict for some picks: the picked pods, and all running members of gangs that are evicted whole.
func (c *candidates) victims(picks []evict.Pick) (gone []*v1.Pod) {
	picked := make([]int, len(c.gangs)+1)
	for _, p := range picks {
		picked[c.byNode[p.Node].victims[p.Victim].Gang]++
	}
	gangs := make([]bundle.Gang, len(c.gangs))
	for i, g := range c.gangs {
		gangs[i] = g.Gang
	}
	whole := bundle.Evicted(gangs, picked[1:])
	for _, p := range picks {
		if g := c.byNode[p.Node].victims[p.Victim].Gang; g == 0 || !whole[g-1] {
			gone = append(gone, c.byNode[p.Node].pods[p.Victim])
		}
	}
	for g, all := range c.runningPods {
		if whole[g] {
			members := eligible.UIDs([][]*v1.Pod{all})
			gone = slices.DeleteFunc(gone, func(p *v1.Pod) bool { return c.joining[p.UID] && members[p.UID] })
			gone = append(gone, all...)
		}
	}
	return gone
}

// noHelp returns the verdict if no victim set suffices: NoHelp if there are candidates, else NoVictims.
func (c *candidates) noHelp() Verdict {
	if c.anyCandidate {
		return NoHelp
	}
	return NoVictims
}

// allPicks returns a pick for every candidate of every node.
func (c *candidates) allPicks() (out []evict.Pick) {
	for i, entry := range c.byNode {
		for v := range entry.pods {
			out = append(out, evict.Pick{Node: i, Victim: v})
		}
	}
	return out
}

// goneAfter returns, by node index, the terminating pods and the pods of the given victims.
func (c *candidates) goneAfter(victims []evict.Pick) [][]*v1.Pod {
	gone := make([][]*v1.Pod, len(c.byNode))
	for i, entry := range c.byNode {
		gone[i] = entry.gone(nil)
	}
	for _, v := range victims {
		gone[v.Node] = append(gone[v.Node], c.byNode[v.Node].pods[v.Victim])
	}
	return gone
}

// victim translates a pod to package evict, without its gang.
func (c *candidates) victim(pod *v1.Pod) evict.Victim {
	requests := convert.Requests(pod)
	v := c.victimWithoutShape(pod, requests)
	v.Shape = convert.Occupies(pod, requests)
	return v
}

// victimWithoutShape translates what decides about the cost of a pod's eviction, except its Shape. A pod at Permit has no budgets yet.
func (c *candidates) victimWithoutShape(pod *v1.Pod, requests quota.List) evict.Victim {
	v := evict.Victim{
		Name: convert.PodKey(pod), Priority: c.cache.Priority(pod), Pending: c.atPermit[pod.UID],
		Started: convert.Started(pod), Size: c.sizes.Of(requests),
	}
	if !v.Pending {
		v.Budgets = c.budgetsOf(pod)
	}
	return v
}

// listBudgets returns the disruption budgets by namespace, sorted by name. As in policy/v1, a budget without a selector selects no pod,
// and one with an empty selector selects all pods. (In DefaultPreemption an empty selector selects no pod.)
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
			selects: selects, disrupted: b.Status.DisruptedPods,
		})
	}
	for _, inNamespace := range budgets {
		slices.SortFunc(inNamespace, func(x, y budget) int { return cmp.Compare(x.Name, y.Name) })
	}
	return budgets
}

// budgetsOf returns the disruption budgets that select a pod, except budgets that already count its disruption.
func (c *candidates) budgetsOf(pod *v1.Pod) (out []evict.Budget) {
	for _, b := range c.budgets[pod.Namespace] {
		if _, isDisrupted := b.disrupted[pod.Name]; !isDisrupted && b.selects.Matches(labels.Set(pod.Labels)) {
			out = append(out, b.Budget)
		}
	}
	return out
}
