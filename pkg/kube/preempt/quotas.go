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

type (
	// Quotas is eligible's.
	Quotas = eligible.Quotas
	// VictimSearch is eligible's.
	VictimSearch = eligible.VictimSearch
)

// extent bounds the victims of a search, besides the rule of eligibility.
type extent struct {
	// highest is the highest priority of a victim; nil is any.
	highest *int32
	// lacks is as for BelowMin; 0 is borrowing gangs alone.
	lacks quota.Share
	// revokes selects pods of overdue quotas (monitorAllQuotas), whatever their priority, and no other pods.
	revokes bool
}

// claim returns the quota check for a group; nil without quotas. With revokes it is also nil if no quota is overdue.
func (p *Preemptor) claim(group *cache.Group, within time.Duration, limits extent) VictimSearch {
	if p.Quotas == nil {
		return nil
	}
	if limits.revokes {
		return p.Quotas.SearchOverdueVictims(group)
	}
	claim := p.Quotas.SearchVictims(group, within)
	if claim == nil {
		return nil
	}
	claim.OwnFirst()
	if limits.lacks > 0 {
		claim.BelowMin(limits.lacks)
	}
	return claim
}

// revokes returns whether pods of overdue quotas may be evicted for a group.
func (p *Preemptor) revokes(group *cache.Group) bool {
	return p.claim(group, eligible.NoTimeLimit, extent{revokes: true}) != nil
}

// The extents of a claim: each quota keeps its min; every gang counts that may be evicted at all.
var (
	noneBelow = extent{lacks: 1}
	allBelow  = extent{lacks: math.MaxUint64}
)

// own replaces the attempt if its members are of several quotas and some victims free capacity for only some of these. The new attempt
// records which quotas may use the capacity of which victim.
func (c *candidates) own(ctx context.Context) (err error) {
	if c.claim == nil {
		return nil
	}
	var quotas []string
	for _, m := range c.Group.Pending {
		if name := c.claim.QuotaOf(c.Group.Pods[m.Pod]); !slices.Contains(quotas, name) {
			quotas = append(quotas, name)
		}
	}
	if len(quotas) == 1 {
		return nil
	}
	excluded := map[types.UID][]string{} // by pod, the quotas that may not use its capacity
	for _, entry := range c.byNode {
		for _, pod := range entry.pods {
			if without := slices.DeleteFunc(slices.Clone(quotas), func(name string) bool { return c.claim.Uses(name, pod) }); len(without) > 0 {
				excluded[pod.UID] = without
			}
		}
	}
	if len(excluded) > 0 {
		uses := func(name string, gone *v1.Pod) bool { return !slices.Contains(excluded[gone.UID], name) }
		c.Attempt, err = c.WithOwners(ctx, &place.Owners{Of: c.claim.QuotaOf, Uses: uses})
	}
	return err
}
