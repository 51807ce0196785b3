package departure

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that the API server does not let Muster evict (a webhook, a missing permission) is no victim for a while; otherwise its preemptor
// would choose it again at once. Each further rejection doubles the time.
const (
	firstVeto = 30 * time.Second
	lastVeto  = 5 * time.Minute
)

// veto is the API server's answer about one pod.
type veto struct {
	until time.Time
	times int
}

// vetoed records pods whose eviction was rejected permanently.
func (v *Victims) vetoed(pods []*v1.Pod, now time.Time) {
	if len(pods) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.vetoes == nil {
		v.vetoes = map[types.UID]veto{}
	}
	for uid, old := range v.vetoes {
		if now.Sub(old.until) > lastVeto { // not requested again; the pod may be gone
			delete(v.vetoes, uid)
		}
	}
	for _, pod := range pods {
		times := v.vetoes[pod.UID].times
		v.vetoes[pod.UID] = veto{until: now.Add(min(firstVeto<<min(times, 10), lastVeto)), times: times + 1}
		v.vetoCount++
	}
}

// Vetoed returns the pods that are no victims now because of a veto, nil if none, and the number of vetoes so far. One of the two differs
// whenever a veto comes or ends.
func (v *Victims) Vetoed(now time.Time) (pods map[types.UID]bool, vetoes int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for uid, veto := range v.vetoes {
		if now.Before(veto.until) {
			if pods == nil {
				pods = map[types.UID]bool{}
			}
			pods[uid] = true
		}
	}
	return pods, v.vetoCount
}
