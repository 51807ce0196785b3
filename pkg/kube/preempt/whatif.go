package preempt

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
)

// after are the candidates when some have left, whole groups or members whom a gang can spare.
func (c *candidates) after(gone []*v1.Pod) *candidates {
	left := eligible.UIDs([][]*v1.Pod{gone}) // of a gang other objects are known than those on the nodes
	some := c.only(func(pod *v1.Pod) bool { return !left[pod.UID] })
	some.any = true
	some.gangs, some.whole = slices.Clone(c.gangs), slices.Clone(c.whole)
	for i := range some.here {
		leaving := slices.Clone(c.here[i].leaving)
		for v, pod := range c.here[i].pods {
			if left[pod.UID] {
				leaving = append(leaving, pod)
				some.spare(c.here[i].victims[v].Gang, left)
			}
		}
		some.here[i].leaving = leaving
	}
	return some
}

// spare takes from a gang one of those whom it can spare, and those who have left from all who leave with it; 0 is no gang.
func (c *candidates) spare(of int, left map[types.UID]bool) {
	if of == 0 {
		return
	}
	g := &c.gangs[of-1]
	g.Spare = max(0, g.Spare-1)
	c.whole[of-1] = slices.DeleteFunc(slices.Clone(c.whole[of-1]), func(pod *v1.Pod) bool { return left[pod.UID] })
	g.Cost, g.Budgets = evict.Cost{}, nil
	for _, pod := range c.whole[of-1] {
		v := c.unshaped(pod)
		g.Cost, g.Budgets = g.Cost.Add(evict.CostOf(v)), append(g.Budgets, v.Budgets...)
	}
}

// only are the candidates of whom something is true.
func (c *candidates) only(is func(*v1.Pod) bool) *candidates {
	some := *c
	some.here = make([]onNode, len(c.here))
	for i, here := range c.here {
		some.here[i].leaving = here.leaving
		for v, pod := range here.pods {
			if is(pod) {
				some.here[i].victims, some.here[i].pods = append(some.here[i].victims, here.victims[v]), append(some.here[i].pods, pod)
			}
		}
	}
	return &some
}

// keeping are the candidates if some stay: so does, of a gang that would leave whole with one of them, everybody.
func (c *candidates) keeping(stays func(*v1.Pod) bool) *candidates {
	some := c.only(func(pod *v1.Pod) bool { return !stays(pod) })
	some.gangs = slices.Clone(c.gangs)
	for g, all := range c.whole {
		some.gangs[g].Whole = some.gangs[g].Whole && !slices.ContainsFunc(all, stays)
	}
	return some
}
