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
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Quotas and Claim are eligible's.
type (
	Quotas = eligible.Quotas
	Claim  = eligible.Claim
)

// extent says which victims a search may take, besides the rule of eligibility.
type extent struct {
	// highest is the highest priority of a victim; nil is any.
	highest *int32
	// lacks is as for BelowMin; 0 is gangs that borrow alone.
	lacks quota.Share
	// revokes is for pods of quotas that have had too much for long, whatever their priority, and for no other pods.
	revokes bool
}

// claim asks the quotas about a group; nil if they have no say. With revokes it is nil, too, if no quota has had too much for long.
func (p *Preemptor) claim(group *cache.Group, within time.Duration, to extent) Claim {
	if p.Quotas == nil {
		return nil
	}
	if to.revokes {
		return p.Quotas.Revoke(group)
	}
	claim := p.Quotas.Claim(group, within)
	if claim == nil {
		return nil
	}
	claim.OwnFirst()
	if to.lacks > 0 {
		claim.BelowMin(to.lacks)
	}
	return claim
}

// revokes returns whether pods may be evicted for a group since their quotas have had too much for long.
func (p *Preemptor) revokes(group *cache.Group) bool {
	return p.claim(group, eligible.ForEver, extent{revokes: true}) != nil
}

// The extents of a claim: each quota keeps its min; and all gangs count that may be evicted at all.
var (
	noneBelow = extent{lacks: 1}
	allBelow  = extent{lacks: math.MaxUint64}
)

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
