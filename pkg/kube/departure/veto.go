package departure

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod whose eviction the API server rejects (because of a webhook or a missing permission) is no victim for a time; otherwise its
// preemptor would choose it again at once. Each further rejection doubles the time, from firstVeto up to lastVeto.
const (
	firstVeto = 30 * time.Second
	lastVeto  = 5 * time.Minute
)

// veto says until when a pod is no victim.
type veto struct {
	until time.Time
	times int // how often its eviction was rejected
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

// Vetoed returns the pods that are no victims now because of a veto, nil if none, and the number of all vetoes so far. If a veto is added
// or ends, one of the two results changes.
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
