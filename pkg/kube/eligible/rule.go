package eligible

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Rule decides which pods may be evicted for some members. It does not consider how long a pod takes to terminate (TimeToTerminate).
type Rule struct {
	// Ceiling is the priority below which pods may be victims. Priority returns the priority of a pod.
	Ceiling  int32
	Priority func(*v1.Pod) int32
	// Quotas returns whether the quotas allow the eviction of a pod. lower says that it counts as of lower priority. nil is without quotas.
	Quotas func(pod *v1.Pod, lower bool) bool
	// Equal has the UIDs of pods that count as of lower priority, whatever their priority: see preempt/forcefit.go.
	Equal map[types.UID]bool
	// Vetoed has the UIDs of pods whose eviction the API server has rejected.
	Vetoed map[types.UID]bool
}

// RuleOf returns the rule for members whose lowest priority is ceiling. search is nil without quotas.
func RuleOf(c *cache.Cache, ceiling int32, search VictimSearch, vetoed map[types.UID]bool) Rule {
	r := Rule{Ceiling: ceiling, Priority: c.Priority, Vetoed: vetoed}
	if search != nil {
		r.Quotas = search.May
	}
	return r
}

// Barrier is why a pod may not be evicted.
type Barrier uint8

// The barriers. If several apply to a pod, Rule.Barrier returns the first one.
const (
	NoBarrier     Barrier = iota
	PriorityAbove         // equal or higher priority
	QuotaProtects         // lower priority, but the quotas do not allow the eviction
	Protected             // a label forbids the eviction, or the API server rejected it
)

// Barrier returns why a pod may not be evicted; NoBarrier if it may.
func (r Rule) Barrier(pod *v1.Pod) Barrier {
	lower := r.Priority(pod) < r.Ceiling || r.Equal[pod.UID]
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
