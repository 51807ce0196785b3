package preempt

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
)

// Revoked returns the cheapest of some pods, with all pods that are evicted with them, whose eviction gives a gang or pod what it claims of its quotas,
// and the disruption budgets that do not allow all of it. It evicts nothing, and asks no node.
func (p *Preemptor) Revoked(claim Claim, pods []*v1.Pod) (gone []*v1.Pod, budgets []string) {
	c := &candidates{cache: p.Cache, claim: claim, here: make([]onNode, 1), limits: p.listBudgets(), waits: p.waiting(), joins: map[types.UID]bool{}}
	barred, _ := p.Victims.Barred(p.Clock.Now())
	terminating := eligible.UIDs([][]*v1.Pod{claim.Leaving()})
	mayEvict := func(pod *v1.Pod) bool {
		return pod.Spec.NodeName != "" && !convert.Protected(pod) && !barred[pod.UID] && !terminating[pod.UID] && claim.May(pod, false)
	}
	gangs := c.listGangs(nil, slices.Values(pods), mayEvict)
	for _, pod := range pods {
		c.enter(&c.here[0], pod, gangs, mayEvict)
	}
	found := evict.Cheapest(evict.Anywhere(c.here[0].victims, c.gangs, quotaCheck{c}))
	gone = c.victims(found.Victims)
	return gone, c.violated(gone)
}

// violated returns the disruption budgets that do not allow the eviction of all of some pods.
func (c *candidates) violated(pods []*v1.Pod) (names []string) {
	left := map[string]int{}
	for _, pod := range pods {
		for _, b := range c.budgetsOf(pod) {
			if _, known := left[b.Name]; !known {
				left[b.Name] = b.Allowed
			}
			if left[b.Name]--; left[b.Name] == -1 {
				names = append(names, b.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
