package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Candidates returns, by node index, the candidates for an attempt and the terminating pods, however long these take. noVictims says that
// there are none. A search for victims starts from them; its choice is not predicted.
func (p *Preemptor) Candidates(ctx context.Context, a *place.Attempt) (gone [][]*v1.Pod, noVictims bool) {
	c := p.candidates(ctx, a, eligible.NoTimeLimit, allBelow, nil)
	return c.goneWith(c.allPicks()), !c.exist
}

// May returns whether victims are looked for at all for an attempt: Evicts, or why not.
func (p *Preemptor) May(a *place.Attempt) Verdict { return p.may(a) }

// QuotaCheck returns the quota check of single pods for a group, given whether the pod's priority is lower; nil without quotas.
func (p *Preemptor) QuotaCheck(group *cache.Group) func(pod *v1.Pod, lower bool) bool {
	if claim := p.claim(group, eligible.NoTimeLimit, extent{}); claim != nil {
		return claim.May
	}
	return nil
}

// violated returns the disruption budgets that forbid evicting all these pods.
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
