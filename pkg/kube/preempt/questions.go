package preempt

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Leavers are, by node index, the pods that may be evicted for an attempt and those that leave
// anyway, however long they take. nobody says that there is no such pod. It is what a search for victims begins
// with; which of them it would choose is not said.
func (p *Preemptor) Leavers(ctx context.Context, a *place.Attempt) (gone [][]*v1.Pod, nobody bool) {
	c := p.candidates(ctx, a, eligible.ForEver, allBelow, nil)
	return c.gone(c.everybody()), !c.any
}

// May says whether victims are looked for at all for an attempt, and if not, why: Evicts means that
// they are.
func (p *Preemptor) May(a *place.Attempt) Verdict { return p.may(a) }

// MayLeave is what quotas say of who may be evicted for a group: of a pod, and whether its priority is lower. nil is that they
// have no say.
func (p *Preemptor) MayLeave(group *cache.Group) func(pod *v1.Pod, lower bool) bool {
	if claim := p.claim(group, eligible.ForEver, 0); claim != nil {
		return claim.May
	}
	return nil
}

// Revoked returns the cheapest of some pods, with all pods that are evicted with them, whose eviction gives a gang or pod what it claims of its quotas,
// and the disruption budgets that do not allow all of it. The pods are listed in the order in which they got their nodes. It evicts nothing, and asks no node.
func (p *Preemptor) Revoked(claim Claim, pods []*v1.Pod) (gone []*v1.Pod, budgets []string) {
	c := &candidates{cache: p.Cache, claim: claim, here: make([]onNode, 1), limits: p.listBudgets(), waits: p.waiting(), joins: map[types.UID]bool{}}
	vetoed, _ := p.Victims.Barred(p.Clock.Now())
	rule := eligible.RuleOf(p.Cache, math.MinInt32, claim, vetoed) // quotas decide alone
	terminating := eligible.UIDs([][]*v1.Pod{claim.Leaving()})
	mayEvict := func(pod *v1.Pod) bool {
		return pod.Spec.NodeName != "" && !terminating[pod.UID] && rule.Allows(pod)
	}
	gangs := c.listGangs(nil, slices.Values(pods), mayEvict)
	for _, pod := range pods {
		c.enter(&c.here[0], pod, gangs, mayEvict)
	}
	c.rankInOrder()
	found := evict.Cheapest(evict.Anywhere(c.here[0].victims, c.gangs, quotaCheck{c}))
	gone = c.victims(found.Victims)
	return gone, c.violated(gone)
}

// rankInOrder has victims and gangs that started in the same second stand in the order in which they are listed: the later ones are evicted first.
// Within a gang the ranks of its members count.
func (c *candidates) rankInOrder() {
	const ranks = 1 << 20
	last := map[int]int{} // by gang, where its last victim is listed
	victims := c.here[0].victims
	for i := range victims {
		last[victims[i].Gang] = i
	}
	for i := range victims {
		at := i
		if g := victims[i].Gang; g > 0 {
			at = last[g]
		}
		victims[i].Rank = at*ranks + min(victims[i].Rank, ranks-1)
	}
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
