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

// VictimSearch is eligible's.
type VictimSearch = eligible.VictimSearch

// victimLimits restricts the victims of one search further than eligible.Rule does. The zero value restricts priorities not at all, and
// allows only victims from gangs that borrow.
type victimLimits struct {
	// highest is the highest priority of a victim; nil is any.
	highest *int32
	// maxLack adds gangs that do not borrow, as VictimSearch.BelowMin does. 0 adds none.
	maxLack quota.Share
	// onlyOverdue allows only pods of overdue quotas (monitorAllQuotas), whatever their priority.
	onlyOverdue bool
	// equal has pods of the preemptor's priority that may be victims as if their priority were lower; nil is none. See forcefit.go.
	equal map[types.UID]bool
	// only has the pods that may be victims, whatever their priority and quota; nil is any. See swap.go.
	only map[types.UID]bool
	// also has pods that may be evicted with a pod in only, if they are in its bundle, and not without one.
	also map[types.UID]bool
}

// search returns a new quota check of victims for a group. Pods that terminate within the given time count as gone. It returns nil without
// quotas, and with limits.onlyOverdue if no quota is overdue.
func (p *Preemptor) search(group *cache.Group, within time.Duration, limits victimLimits) VictimSearch {
	if p.Quotas == nil || limits.only != nil {
		return nil
	}
	var search VictimSearch
	if limits.onlyOverdue {
		search = p.Quotas.SearchOverdueVictims(group)
	} else {
		search = p.Quotas.SearchVictims(group, within)
	}
	if search == nil {
		return nil
	}
	if limits.equal != nil {
		search.EqualPriority()
	}
	if !limits.onlyOverdue {
		search.OwnFirst()
	}
	if limits.maxLack > 0 {
		search.BelowMin(limits.maxLack)
	}
	return search
}

// mayRevoke returns whether a quota is overdue, so that its pods may be evicted for the group.
func (p *Preemptor) mayRevoke(group *cache.Group) bool {
	return p.search(group, eligible.NoTimeLimit, victimLimits{onlyOverdue: true}) != nil
}

// With keepsEveryMin each quota keeps its min despite the evictions. With ignoresMins all gangs that the quotas allow are candidates.
var (
	keepsEveryMin = victimLimits{maxLack: 1}
	ignoresMins   = victimLimits{maxLack: math.MaxUint64}
)

// recordQuotaOwners replaces c.Attempt if its members have several quotas and some of these may not use the capacity of some candidate. The
// new attempt knows which quotas may use the capacity of which candidate.
func (c *candidates) recordQuotaOwners(ctx context.Context) (err error) {
	if c.search == nil {
		return nil
	}
	var quotas []string
	for _, m := range c.Group.Pending {
		if name := c.search.QuotaOf(c.Group.Pods[m.Pod]); !slices.Contains(quotas, name) {
			quotas = append(quotas, name)
		}
	}
	if len(quotas) == 1 {
		return nil
	}
	excluded := map[types.UID][]string{} // by pod, the quotas that may not use its capacity
	for _, entry := range c.byNode {
		for _, pod := range entry.pods {
			if without := slices.DeleteFunc(slices.Clone(quotas), func(name string) bool { return c.search.Uses(name, pod) }); len(without) > 0 {
				excluded[pod.UID] = without
			}
		}
	}
	if len(excluded) > 0 {
		uses := func(name string, gone *v1.Pod) bool { return !slices.Contains(excluded[gone.UID], name) }
		c.Attempt, err = c.WithOwners(ctx, &place.Owners{Of: c.search.QuotaOf, Uses: uses})
	}
	return err
}
