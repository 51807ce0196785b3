package elasticquota

import (
	"context"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// victimChecks is the state of checks whether waiting gangs may evict more pods than before. Such gangs are retried. No other event has
// them retried, because a newly bound pod only uses capacity; but its quota may begin to borrow, so that the pod may be evicted.
type victimChecks struct {
	scheduled    bool
	checkedAt    uint64 // quota.Book.Now at the last check
	retriedKinds int    // how many different requests the last check retried
}

// retriesPerCheck is how many different requests one check may have retried. After more retries the next check is delayed.
const retriesPerCheck = 100

// scheduleCheck schedules a check of the eligible victims of waiting gangs, unless one is scheduled. r.mu is locked.
func (r *Manager) scheduleCheck() {
	if r.victimChecks.scheduled || len(r.revoke.waiting) == 0 {
		return
	}
	r.victimChecks.scheduled = true
	delay := r.settle * time.Duration(1+r.victimChecks.retriedKinds/retriesPerCheck)
	r.cluster.Do("quotas: eligible victims", delay, false, func(context.Context, func() bool) error {
		if waits := r.gangsWithNewVictims(); len(waits) > 0 {
			r.cluster.Hear(Event{Kind: MayEvict, Waits: waits})
		}
		return nil
	})
}

// gangsWithNewVictims returns one pod of each waiting gang that may evict more pods than at the last check, by GangName. It may return too
// many gangs: a needless retry costs less than a gang that waits for ever.
func (r *Manager) gangsWithNewVictims() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	r.victimChecks.scheduled = false // also without quotas: they may be declared again
	if !r.Active() {
		return nil
	}
	b := r.currentBook()
	checkedAt := r.victimChecks.checkedAt
	r.victimChecks.checkedAt = b.Now()
	gangs, byRequest := map[string]*v1.Pod{}, map[string]bool{}
	retriedKinds := 0
	for _, id := range sortedKeys(r.revoke.waiting) {
		w := r.revoke.waiting[id]
		if current := r.pods[key(w.pod)]; current == nil || current.UID != w.pod.UID {
			r.revoke.forgetGang(id)
			continue
		}
		if w.treeVersion != r.treeVersion && source.GangOf(w.pod).IsZero() { // gangs are retried when quotas change
			w = r.waiter(r.podRequest(w.pod), w.pod)
			r.revoke.waiting[id] = w
		}
		more, known := byRequest[w.requestKey]
		if !known {
			search := b.Reclaim(w.request, r.policy())
			search.BelowMin(math.MaxUint64)
			_, helps := search.Shortages()
			more = helps && search.AnySince(checkedAt)
			byRequest[w.requestKey] = more
			if more {
				retriedKinds++
			}
		}
		if more {
			gangs[id] = w.pod
		}
	}
	r.victimChecks.retriedKinds = retriedKinds
	return gangs
}

// waiter returns the waiter for an attempt of now. pod is one of the gang's pods.
func (r *Manager) waiter(a quota.Request, pod *v1.Pod) waiter {
	return waiter{request: a, pod: pod, requestKey: fmt.Sprint(a.Priority, a.Need), treeVersion: r.treeVersion}
}

// recordAttempt records that a gang was tried with this request, whatever the result. r.mu is locked.
func (r *Manager) recordAttempt(a quota.Request, pod *v1.Pod) {
	r.revoke.waiting[a.Gang] = r.waiter(a, pod)
}
