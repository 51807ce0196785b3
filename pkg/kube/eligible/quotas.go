package eligible

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Quotas decide which pods may be evicted for a group, in addition to priorities.
type Quotas interface {
	// SearchVictims returns a search for pods that may be evicted for a group; nil without quotas. Terminating pods count as gone if they
	// terminate within timeLimit.
	SearchVictims(group *cache.Group, timeLimit time.Duration) VictimSearch
	// SearchOverdueVictims returns a search for pods of overdue quotas, which have exceeded their fair share for long; nil without such
	// quotas.
	SearchOverdueVictims(group *cache.Group) VictimSearch
	// Fits returns whether the quotas suffice for a group's reservation after the terminating pods are gone.
	Fits(group *cache.Group, terminates func(*v1.Pod) bool) bool
	// AdmitsWithout returns whether the quotas would admit the group if the bound pods for which gone returns true had ended.
	AdmitsWithout(group *cache.Group, gone func(*v1.Pod) bool) bool
	// Revision returns a number that changes with each change of the quotas or of their use.
	Revision() uint64
}

// VictimSearch is the quota check of one search for victims of a group.
type VictimSearch interface {
	// May returns whether a pod and its gang may be evicted. lowerPriority says that the pod's priority is lower than the preemptor's.
	May(pod *v1.Pod, lowerPriority bool) bool
	// QuotaOf returns the quota of a member of the group. Uses returns whether members of a quota may use a victim's capacity: a victim may
	// be evicted for some members of the group only.
	QuotaOf(member *v1.Pod) string
	Uses(quotaName string, victim *v1.Pod) bool
	// SameQuota returns whether a pod has the quota of the first member.
	SameQuota(pod *v1.Pod) bool
	// OwnFirst adds pods that may be evicted only after victims of the group's own quota. It returns whether there are any.
	OwnFirst() bool
	// EqualPriority adds gangs of the group's own quota with the group's priority. It is called before OwnFirst.
	EqualPriority()
	// BelowMin adds members of gangs that do not borrow as a whole, as long as each quota lacks less than limit of its min; with 1 each
	// keeps its min. It returns whether there are any. Shortfall returns the largest part of its min that a quota lacks without the victims.
	BelowMin(limit quota.Share) bool
	Shortfall(victims []*v1.Pod) quota.Share
	// SeveralQuotas returns whether the members of the group have more than one quota.
	SeveralQuotas() bool
	// Short returns whether a quota lacks capacity for the group. Frees returns whether the eviction of a pod frees such capacity.
	Short() bool
	Frees(*v1.Pod) bool
	// RequestKey returns a text that is equal for groups with equal requests to the same quotas.
	RequestKey() string
	// CountedAsGone returns the terminating pods, which count as gone.
	CountedAsGone() []*v1.Pod
	// Check returns whether a whole victim set may be evicted, and whether the quotas then admit the group.
	Check(victims []*v1.Pod) quota.Verdict
	// Revoked records evictions from overdue quotas, and returns the reason. NotRevoked records why no pod of these quotas is evicted: because
	// of these disruption budgets, or if there are none, because no victim set suffices.
	Revoked(victims []*v1.Pod) (reason string)
	NotRevoked(budgets []string)
	// Turns returns two functions for victims that are evicted one after another. evict records pods as evicted; allows returns whether pods
	// may be evicted after those.
	Turns() (allows func([]*v1.Pod) bool, evict func([]*v1.Pod))
}
