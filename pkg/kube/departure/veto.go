package departure

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that the API server does not let us evict (a webhook, a missing permission) is nobody's
// victim for a while: else whoever needs the room would choose it again at once, for ever. The
// next time it is so for twice as long.
const (
	firstVeto = 30 * time.Second
	lastVeto  = 5 * time.Minute
)

// veto is what the API server has said of one pod.
type veto struct {
	until time.Time
	times int
}

// vetoed notes pods whose eviction was refused for good.
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
		if now.Sub(old.until) > lastVeto { // nobody has asked again; it may be gone
			delete(v.vetoes, uid)
		}
	}
	for _, pod := range pods {
		times := v.vetoes[pod.UID].times
		v.vetoes[pod.UID] = veto{until: now.Add(min(firstVeto<<min(times, 10), lastVeto)), times: times + 1}
		v.vetoCount++
	}
}

// Barred are the pods that are no victims now because of a veto, and how many vetoes came so
// far: both together are another state whenever vetoes come or end.
func (v *Victims) Barred(now time.Time) (pods map[types.UID]bool, came int) {
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
