package elasticquota

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// rights is who might be evicted for those who wait when it was looked last: who was refused, by quotas or by nodes, is to be tried again if more
// may be, and no other event says so. A pod that is bound takes room, but with it its quota may have too much.
type rights struct {
	due    bool
	gains  quota.Gains
	called int // for how many who ask for something else somebody was called when it was looked last
}

// calledAtOnce is for how many it may be called in each time in which changes are gathered: where more are, it is looked less often.
const calledAtOnce = 100

// lookLater has it looked, some time after something has changed, for whom more may leave now. r.mu is held.
func (r *Room) lookLater() {
	if r.Write == nil || r.rights.due || len(r.revoke.waits) == 0 {
		return
	}
	r.rights.due = true
	after := r.Settle * time.Duration(1+r.rights.called/calledAtOnce)
	r.Write("quotas: who may be evicted", after, func(context.Context) error {
		if waits := r.gained(); len(waits) > 0 && r.Gained != nil {
			r.Gained(waits)
		}
		return nil
	})
}

// gained is one pod of each gang that waits and of each pod without one, by name in the book, for which more may leave than when it was looked last, or
// than when it was tried since. Those who ask for the same are looked at once.
func (r *Room) gained() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	r.rights.due = false // also without quotas: they may come back
	if !r.Active() {
		return nil
	}
	look := r.rights.gains.Look(r.asked(), quota.Policy(r.args.Reclaim))
	waits, whats := map[string]*v1.Pod{}, map[string]bool{}
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
		if look.More(w.what, w.ask) {
			waits[id], whats[w.what] = w.pod, true
		}
	}
	r.rights.called = len(whats)
	return waits
}

// waiter is who is tried for what he asks for, as quotas are now.
func (r *Room) waiter(a quota.Ask, pod *v1.Pod) waiter {
	return waiter{ask: a, pod: pod, what: fmt.Sprint(a.Priority, a.Need), grown: r.grown}
}

// tries notes that somebody is tried, who sees what is true now. r.mu is held.
func (r *Room) tries(a quota.Ask, pod *v1.Pod) {
	w := r.waiter(a, pod)
	r.revoke.asks(w)
	r.rights.gains.Tried(r.asked(), w.what, a, quota.Policy(r.args.Reclaim))
}

// Named says what a pod's gang is called where quotas name those who wait, or the pod.
func Named(p *v1.Pod) string { return gangOf(p) }
