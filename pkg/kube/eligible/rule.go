package eligible

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Rule decides which pods may be evicted for some members. The caller compares how long a pod takes to terminate (Takes).
type Rule struct {
	// Ceiling is the priority that victims are below, and Priority returns that of a pod.
	Ceiling  int32
	Priority func(*v1.Pod) int32
	// Quotas is the quota check of a pod, given whether its priority is below the ceiling; nil without quotas.
	Quotas func(pod *v1.Pod, lower bool) bool
	// Vetoed are pods whose eviction the API server has rejected, by UID.
	Vetoed map[types.UID]bool
}

// RuleOf returns the rule for members of a priority. claim may be nil.
func RuleOf(c *cache.Cache, ceiling int32, claim VictimSearch, vetoed map[types.UID]bool) Rule {
	r := Rule{Ceiling: ceiling, Priority: c.Priority, Vetoed: vetoed}
	if claim != nil {
		r.Quotas = claim.May
	}
	return r
}

// Barrier is why a pod may not be evicted.
type Barrier uint8

// The barriers. If several hold, the first counts.
const (
	NoBarrier     Barrier = iota
	PriorityAbove         // the pod's priority is equal or higher
	QuotaProtects         // quotas give the preemptor no right to the pod's capacity
	Protected             // a label forbids it, or the API server has rejected it
)

// Barrier returns why a pod may not be evicted; NoBarrier if it may.
func (r Rule) Barrier(pod *v1.Pod) Barrier {
	lower := r.Priority(pod) < r.Ceiling
	switch {
	case r.Quotas == nil && lower, r.Quotas != nil && r.Quotas(pod, lower):
	case lower:
		return QuotaProtects
	default:
		return PriorityAbove
	}
	if convert.Protected(pod) || r.Vetoed[pod.UID] {
		return Protected
	}
	return NoBarrier
}

// Allows returns whether a pod may be evicted.
func (r Rule) Allows(pod *v1.Pod) bool { return r.Barrier(pod) == NoBarrier }
