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

// rights remembers when the eligible victims of waiting gangs were last checked, so that a gang is retried when they grow. No other
// event reports that: a newly bound pod uses capacity, and its quota may borrow with it.
type rights struct {
	scheduled    bool
	checkedAt    uint64 // the moment of the book
	retriedKinds int    // how many different requests the last check retried
}

// retriesPerCheck is how many different requests one settle interval may retry. Checks with more retries delay the next one.
const retriesPerCheck = 100

// scheduleCheck has the eligible victims of waiting gangs checked after a change. r.mu is held.
func (r *Manager) scheduleCheck() {
	if r.rights.scheduled || len(r.revoke.waiting) == 0 {
		return
	}
	r.rights.scheduled = true
	delay := r.settle * time.Duration(1+r.rights.retriedKinds/retriesPerCheck)
	r.cluster.Do("quotas: eligible victims", delay, false, func(context.Context, func() bool) error {
		if waits := r.gangsWithNewVictims(); len(waits) > 0 {
			r.cluster.Hear(Event{Kind: MayEvict, Waits: waits})
		}
		return nil
	})
}

// gangsWithNewVictims returns one pod of each waiting gang, by name in the book, that may evict more pods than at the last check.
// It may return too many: a needless cycle costs less than a gang that waits for ever.
func (r *Manager) gangsWithNewVictims() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	r.rights.scheduled = false // also without quotas: they may be declared again
	if !r.Active() {
		return nil
	}
	b := r.currentBook()
	checkedAt := r.rights.checkedAt
	r.rights.checkedAt = b.Now()
	gangs, byRequest := map[string]*v1.Pod{}, map[string]bool{}
	retriedKinds := 0
	for _, id := range sortedKeys(r.revoke.waiting) {
		w := r.revoke.waiting[id]
		if current := r.pods[key(w.pod)]; current == nil || current.UID != w.pod.UID {
			r.revoke.forgetGang(id)
			continue
		}
		if w.treeVersion != r.treeVersion && source.GangOf(w.pod).IsZero() { // gangs are retried when quotas change
			w = r.waiter(r.askOf(w.pod), w.pod)
			r.revoke.waiting[id] = w
		}
		more, known := byRequest[w.request]
		if !known {
			search := b.Reclaim(w.ask, r.policy())
			search.BelowMin(math.MaxUint64)
			_, helps := search.Shortages()
			more = helps && search.AnySince(checkedAt)
			byRequest[w.request] = more
			if more {
				retriedKinds++
			}
		}
		if more {
			gangs[id] = w.pod
		}
	}
	r.rights.retriedKinds = retriedKinds
	return gangs
}

// waiter returns the attempt with this request, under the present tree.
func (r *Manager) waiter(a quota.Request, pod *v1.Pod) waiter {
	return waiter{ask: a, pod: pod, request: fmt.Sprint(a.Priority, a.Need), treeVersion: r.treeVersion}
}

// noteAttempt records the request of a gang that is tried, whatever the result. r.mu is held.
func (r *Manager) noteAttempt(a quota.Request, pod *v1.Pod) {
	r.revoke.waiting[a.Gang] = r.waiter(a, pod)
}

// GangName returns the name in the book of a pod's gang, or of the pod.
func GangName(p *v1.Pod) string { return gangOf(p) }
