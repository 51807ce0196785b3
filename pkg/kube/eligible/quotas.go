package eligible

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Quotas decide which pods may be evicted for a group, in addition to priorities.
type Quotas interface {
	// SearchVictims begins a search for pods that may be evicted for a group; nil without quotas. A pod counts as gone if it terminates within
	// timeLimit.
	SearchVictims(group *cache.Group, timeLimit time.Duration) VictimSearch
	// SearchOverdueVictims begins a search for pods of quotas that exceed their fair share for long; nil if there are no such quotas.
	SearchOverdueVictims(group *cache.Group) VictimSearch
	// Fits returns whether the quotas suffice for a group's reservation after the terminating pods are gone.
	Fits(group *cache.Group, terminates func(*v1.Pod) bool) bool
	// Revision returns another number after each change of the quotas.
	Revision() uint64
}

// VictimSearch is the quota check of one search.
type VictimSearch interface {
	// May returns whether a pod and its gang may be evicted; lowerPriority says that the pod's priority is lower.
	May(pod *v1.Pod, lowerPriority bool) bool
	// QuotaOf returns the quota of a member of the group. Uses returns whether members of a quota may use a victim's capacity: a victim may
	// be evicted for some members of the group only.
	QuotaOf(member *v1.Pod) string
	Uses(quotaName string, victim *v1.Pod) bool
	// SameQuota returns whether a pod is of the first member's quota.
	SameQuota(pod *v1.Pod) bool
	// OwnFirst adds pods that may be evicted after victims of the own quotas; it returns whether there are any.
	OwnFirst() bool
	// BelowMin adds members of gangs that do not borrow as a whole, as long as each quota lacks less than limit of its min; with 1 each
	// keeps its min. It returns whether there are any. Shortfall returns the largest part that a quota lacks without some pods.
	BelowMin(limit quota.Share) bool
	Shortfall(victims []*v1.Pod) quota.Share
	// SeveralQuotas returns whether members of several quotas ask.
	SeveralQuotas() bool
	// Short returns whether a quota must free capacity. Frees returns whether the eviction of a pod does that.
	Short() bool
	Frees(*v1.Pod) bool
	// RequestKey is equal for groups with the same requests to the same quotas.
	RequestKey() string
	// CountedAsGone returns the terminating pods, which count as gone.
	CountedAsGone() []*v1.Pod
	// Check returns the quota check of a whole victim set.
	Check(victims []*v1.Pod) quota.Verdict
	// Revoked records evictions from overdue quotas, and returns the reason. NotRevoked records why no pod of them is evicted: the given
	// disruption budgets, or without any, that no victim set suffices.
	Revoked(victims []*v1.Pod) (reason string)
	NotRevoked(budgets []string)
	// Turns is for victims that are evicted one after another: allows returns whether pods may be evicted after the pods that evict was called
	// for.
	Turns() (allows func([]*v1.Pod) bool, evict func([]*v1.Pod))
}
