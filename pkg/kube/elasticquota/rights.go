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

// rights says when it was looked last for which gangs more may be evicted: a gang that quotas or nodes refused is tried again when something has changed
// in the quotas that it may take from, and no other event says so. A pod that is bound takes room, but with it its quota may have too much.
type rights struct {
	due    bool
	looked uint64 // the moment of the book
	called int    // how many different requests were called when it was looked last
}

// calledAtOnce is how many different requests may be called in each time in which changes are gathered: where more are, it is looked less often.
const calledAtOnce = 100

// lookLater has it looked, some time after something has changed, for which gangs more may be evicted now. r.mu is held.
func (r *Room) lookLater() {
	if r.rights.due || len(r.revoke.waits) == 0 {
		return
	}
	r.rights.due = true
	after := r.settle * time.Duration(1+r.rights.called/calledAtOnce)
	r.cluster.Do("quotas: eligible victims", after, false, func(context.Context, func() bool) error {
		if waits := r.gained(); len(waits) > 0 {
			r.cluster.Hear(Event{What: MayEvict, Waits: waits})
		}
		return nil
	})
}

// gained returns one pod of each gang that waits and each pod without one, by name in the book, for which more may be evicted than when it was
// looked last. A change that takes something away may count, too, and so does what a gang has seen when it was tried since: a needless cycle
// costs less than a gang that waits for ever.
func (r *Room) gained() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	r.rights.due = false // also without quotas: they may come back
	if !r.Active() {
		return nil
	}
	b := r.asked()
	looked := r.rights.looked
	r.rights.looked = b.Now()
	waits, whats := map[string]*v1.Pod{}, map[string]bool{}
	called := 0
	for _, id := range sorted(r.revoke.waits) {
		w := r.revoke.waits[id]
		if is := r.pods[key(w.pod)]; is == nil || is.UID != w.pod.UID {
			r.revoke.gone(id)
			continue
		}
		if w.grown != r.grown && source.Of(w.pod).IsZero() { // gangs are tried again when quotas are declared anew
			w = r.waiter(r.askOf(w.pod), w.pod)
			r.revoke.waits[id] = w
		}
		more, known := whats[w.what]
		if !known {
			search := b.Reclaim(w.ask, r.policy())
			search.BelowMin(math.MaxUint64)
			_, helps := search.Shorts()
			more = helps && search.AnySince(looked)
			whats[w.what] = more
			if more {
				called++
			}
		}
		if more {
			waits[id] = w.pod
		}
	}
	r.rights.called = called
	return waits
}

// waiter is who is tried for what he asks for, as quotas are now.
func (r *Room) waiter(a quota.Ask, pod *v1.Pod) waiter {
	return waiter{ask: a, pod: pod, what: fmt.Sprint(a.Priority, a.Need), grown: r.grown}
}

// tries notes what a gang that is tried asks for, whatever refuses it. r.mu is held.
func (r *Room) tries(a quota.Ask, pod *v1.Pod) { r.revoke.waits[a.Gang] = r.waiter(a, pod) }

// Named says what a pod's gang is called where quotas name those who wait, or the pod.
func Named(p *v1.Pod) string { return gangOf(p) }
