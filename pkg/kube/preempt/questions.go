package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

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
	if claim := p.claim(group, eligible.ForEver, extent{}); claim != nil {
		return claim.May
	}
	return nil
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
