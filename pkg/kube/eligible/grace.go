package eligible

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NoTimeLimit is longer than any pod takes to terminate.
const NoTimeLimit = time.Duration(math.MaxInt64)

// TimeToTerminate returns how long after now a pod may still exist: until its deletion time if it terminates, else its grace period. It is
// negative if the deletion time has passed.
func TimeToTerminate(pod *v1.Pod, now time.Time) time.Duration {
	if t := pod.DeletionTimestamp; t != nil {
		return t.Sub(now)
	}
	return Grace(pod)
}

// Grace returns the grace period of a pod; 0 if it has none.
func Grace(pod *v1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 0
}

// UIDs returns the set of the UIDs of all pods in the bundles.
func UIDs(bundles [][]*v1.Pod) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, pods := range bundles {
		for _, pod := range pods {
			uids[pod.UID] = true
		}
	}
	return uids
}
