package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Candidates returns, by node index, the pods that may be evicted for an attempt and the terminating pods, whatever their grace periods.
// noVictims says that there are none.
func (p *Preemptor) Candidates(ctx context.Context, a *place.Attempt) (gone [][]*v1.Pod, noVictims bool) {
	c := p.candidates(ctx, a, eligible.NoTimeLimit, ignoresMins, nil)
	return c.goneAfter(c.allPicks()), !c.anyCandidate
}

// May returns Evicts if victims may be searched for the attempt; else the verdict says why not.
func (p *Preemptor) May(a *place.Attempt) Verdict { return p.may(a) }

// QuotaCheck returns a function that returns whether the quotas allow the eviction of a pod for the group. lower says that the pod's
// priority is lower than the group's. QuotaCheck returns nil if the group has no quotas.
func (p *Preemptor) QuotaCheck(group *cache.Group) func(pod *v1.Pod, lower bool) bool {
	if search := p.search(group, eligible.NoTimeLimit, victimLimits{}); search != nil {
		return search.May
	}
	return nil
}

// violated returns the sorted names of the disruption budgets that do not allow the eviction of all these pods.
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
