package preempt

import (
	"context"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Quotas and Claim are eligible's.
type (
	Quotas = eligible.Quotas
	Claim  = eligible.Claim
)

// claim asks the quotas about a group. The claim counts gangs of so many shortfalls that leave their quotas less than their min.
func (p *Preemptor) claim(group *cache.Group, within time.Duration, below int) Claim {
	if p.Quotas == nil {
		return nil
	}
	claim := p.Quotas.Claim(group, within)
	if claim == nil {
		return nil
	}
	claim.OwnFirst()
	for ; below > 0 && claim.BelowMin(); below-- {
	}
	return claim
}

// allBelow is more shortfalls than a claim tells apart: all gangs count that may be evicted at all.
const allBelow = math.MaxInt

// own has the attempt tell members of several quotas apart where they may not all use what those leave who may leave for any of them.
func (c *candidates) own(ctx context.Context) (err error) {
	if c.claim == nil {
		return nil
	}
	var quotas []string
	for _, m := range c.Group.Pending {
		if of := c.claim.QuotaOf(c.Group.Pods[m.Pod]); !slices.Contains(quotas, of) {
			quotas = append(quotas, of)
		}
	}
	if len(quotas) == 1 {
		return nil
	}
	kept := map[types.UID][]string{} // from members of which quotas
	for _, here := range c.here {
		for _, pod := range here.pods {
			if from := slices.DeleteFunc(slices.Clone(quotas), func(of string) bool { return c.claim.Uses(of, pod) }); len(from) > 0 {
				kept[pod.UID] = from
			}
		}
	}
	if len(kept) > 0 {
		uses := func(of string, gone *v1.Pod) bool { return !slices.Contains(kept[gone.UID], of) }
		c.Attempt, err = c.Owned(ctx, &place.Owners{Of: c.claim.QuotaOf, Uses: uses})
	}
	return err
}
