package plugin

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// candidates are the pods that may be evicted for an attempt.
type candidates struct {
	*attempt
	here  []onNode // by node index
	gangs []evict.Gang
	whole [][]*v1.Pod // by gang, all that run
	any   bool

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
// than every pending member and is not protected; one of a running gang leaves with all
// of it, or is one that it can spare.
func (a *attempt) candidates(ctx context.Context) *candidates {
	c := &candidates{attempt: a, here: make([]onNode, len(a.nodes)), limits: a.listBudgets()}
	ceiling := convert.Priority(a.lowest())
	mayEvict := func(pod *v1.Pod) bool { return convert.Priority(pod) < ceiling && !convert.Protected(pod) }
	gangs := c.listGangs(mayEvict)
	found := make([]bool, len(a.nodes))
	a.onEach(ctx, func(i int, n fwk.NodeInfo) {
		here := &c.here[i]
		for _, info := range n.GetPods() {
			pod := info.GetPod()
			name := convert.GangOf(pod)
			switch g, known := gangs[name]; {
			case pod.DeletionTimestamp != nil:
				here.leaving = append(here.leaving, pod)
			case !mayEvict(pod), name != "" && (!known || !c.placed(pod)):
			default:
				victim := c.victim(pod)
				victim.Gang = g
				here.victims, here.pods = append(here.victims, victim), append(here.pods, pod)
			}
		}
		found[i] = len(here.victims)+len(here.leaving) > 0
	})
	c.any = slices.Contains(found, true)
	return c
}

// listGangs lists the running gangs of which somebody may be evicted, and returns their
// numbers, counted from 1.
func (c *candidates) listGangs(mayEvict func(*v1.Pod) bool) map[string]int {
	numbers := map[string]int{"": 0}
	looked := map[string]bool{"": true}
	for _, g := range c.group.Gangs {
		looked[g.Name] = true
	}
	for _, n := range c.nodes {
		if n == nil {
			continue
		}
		for _, info := range n.GetPods() {
			name := convert.GangOf(info.GetPod())
			if looked[name] {
				continue
			}
			looked[name] = true
			running, least := c.running(name)
			g := evict.Gang{Spare: max(0, len(running)-least), Whole: !slices.ContainsFunc(running, func(p *v1.Pod) bool { return !mayEvict(p) })}
			if len(running) == 0 || g.Spare == 0 && !g.Whole {
				continue
			}
			for _, p := range running {
				v := c.victim(p)
				g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
			}
			c.gangs, c.whole = append(c.gangs, g), append(c.whole, running)
			numbers[name] = len(c.gangs)
		}
	}
	return numbers
}

// running is Cache.Running with the members that wait at Permit, who can be sent back to the
// queue. While others are on their way to their node, nobody can be: they are awaited.
func (c *candidates) running(name string) (pods []*v1.Pod, least int) {
	if pods, least = c.Cache.Placed(name); !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return !c.placed(p) }) {
		return pods, least
	}
	return c.Cache.Running(name)
}

// placed says whether a member runs, or waits at Permit for others.
func (c *candidates) placed(pod *v1.Pod) bool {
	return c.Cache.Bound(pod) || c.handle.GetWaitingPod(pod.UID) != nil
}

// raw is what each node takes without some of its victims.
func (c *candidates) raw(ctx context.Context) []evict.RawNode {
	raw := make([]evict.RawNode, len(c.nodes))
	for i, here := range c.here {
		raw[i] = evict.RawNode{Victims: here.victims, Slots: func(gone []int) offer.Slots {
			if c.nodes[i] == nil {
				return 0
			}
			return c.countWithout(ctx, i, here.without(gone))
		}}
	}
	return raw
}

// victims are the pods that were picked; of a gang of which more are picked than it can
// spare, all that run.
func (c *candidates) victims(picks []evict.Pick) (gone []*v1.Pod) {
	of := make([]int, len(c.gangs)+1)
	for _, p := range picks {
		of[c.here[p.Node].victims[p.Victim].Gang]++
	}
	for _, p := range picks {
		if g := c.here[p.Node].victims[p.Victim].Gang; g == 0 || of[g] <= c.gangs[g-1].Spare {
			gone = append(gone, c.here[p.Node].pods[p.Victim])
		}
	}
	for g, all := range c.whole {
		if of[g+1] > c.gangs[g].Spare {
			gone = append(gone, all...)
		}
	}
	return gone
}

func (c *candidates) noHelp() string {
	if c.any {
		return saysNoHelp
	}
	return saysNobody
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

// withoutGangs are the candidates that belong to no gang.
func (c *candidates) withoutGangs() *candidates {
	alone := *c
	alone.gangs, alone.whole, alone.here = nil, nil, make([]onNode, len(c.here))
	for i, here := range c.here {
		alone.here[i].leaving = here.leaving
		for v, victim := range here.victims {
			if victim.Gang == 0 {
				alone.here[i].victims = append(alone.here[i].victims, victim)
				alone.here[i].pods = append(alone.here[i].pods, here.pods[v])
			}
		}
	}
	return &alone
}

// translate returns picks of c's victims as picks of another's that have them, too.
func (c *candidates) translate(to *candidates, picks []evict.Pick) []evict.Pick {
	out := make([]evict.Pick, len(picks))
	for i, p := range picks {
		out[i] = evict.Pick{Node: p.Node, Victim: slices.Index(to.here[p.Node].pods, c.here[p.Node].pods[p.Victim])}
	}
	return out
}

func (c *candidates) victim(pod *v1.Pod) evict.Victim {
	return evict.Victim{
		Name: convert.PodKey(pod), Priority: convert.Priority(pod),
		Started: convert.Started(pod), Budgets: c.budgetsOf(pod), Shape: convert.Template(pod),
	}
}

// listBudgets lists the disruption budgets by namespace. One without a selector selects
// nobody, and one with an empty selector everybody, as policy/v1 has it (the scheduler's
// own preemption takes both for nobody).
func (a *attempt) listBudgets() map[string][]budget {
	all, err := a.budgets.List(labels.Everything())
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

// countWithout is how many members a node takes, whichever they are, when some pods have
// left.
func (a *attempt) countWithout(ctx context.Context, node int, gone []*v1.Pod) (least offer.Slots) {
	for k := range a.kinds {
		if slots := a.take(ctx, question{node: node, kind: k, gone: gone}); k == 0 || slots < least {
			least = slots
		}
	}
	return least
}
