package elasticquota

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// rights is who might be evicted for those who wait when it was looked last: who was refused, by quotas or by nodes, is to be tried again if more
// may be, and no other event says so. A pod that is bound takes room, but with it its quota may have too much.
type rights struct {
	due    bool
	gangs  map[string]map[string]bool // who may be evicted, by what is asked for
	excess map[string]quota.List      // what quotas have beyond what they are entitled to, by quota
	asked  int                        // of how many pods it was asked, at the most, for all who wait
}

// askedAtOnce is of how many pods it may be asked in each time in which changes are gathered: where more wait, for more, it is looked less often.
const askedAtOnce = 200_000

// lookLater has it looked, some time after something has changed, for whom more may leave now. r.mu is held.
func (r *Room) lookLater() {
	if r.Write == nil || r.rights.due || len(r.revoke.waits) == 0 {
		return
	}
	r.rights.due = true
	after := r.Settle * time.Duration(1+r.rights.asked/askedAtOnce)
	r.Write("quotas: who may be evicted", after, func(context.Context) error {
		if waits := r.gained(); len(waits) > 0 && r.Gained != nil {
			r.Gained(waits)
		}
		return nil
	})
}

// gained is one pod of each gang that waits and of each pod without one, by name in the book, for which somebody may leave who might not when it was
// looked last, or more of those. Those who ask for the same are looked at once.
func (r *Room) gained() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	r.rights.due = false // also without quotas: they may come back
	if !r.Active() {
		return nil
	}
	b := r.asked()
	more := r.rights.grew(b)
	waits, gangs := map[string]*v1.Pod{}, map[string]map[string]bool{}
	for _, id := range sorted(r.revoke.waits) {
		w := r.revoke.waits[id]
		if is := r.pods[key(w.pod)]; is == nil || is.UID != w.pod.UID {
			r.revoke.gone(id)
			continue
		}
		what := fmt.Sprint(w.ask.Priority, w.ask.Need)
		may, known := gangs[what]
		if !known {
			may = b.Reclaim(w.ask, quota.Policy(r.args.Reclaim)).Gangs()
			gangs[what] = may
		}
		if len(may) > 0 && (more || !within(may, r.rights.gangs[what])) {
			waits[id] = w.pod
		}
	}
	r.rights.gangs, r.rights.asked = gangs, len(gangs)*len(r.pods)
	return waits
}

// grew notes what quotas have too much, and says whether any has more of it than when it was looked last.
func (r *rights) grew(b *quota.Book) (more bool) {
	now := map[string]quota.List{}
	for _, name := range b.Tree().Names() {
		if now[name] = b.Excess(name); now[name] == nil {
			delete(now, name)
		}
		for what, n := range now[name] {
			more = more || n > r.excess[name][what]
		}
	}
	r.excess = now
	return more
}

// within says whether all of some names are in a set.
func within(some, of map[string]bool) bool {
	for name := range some {
		if !of[name] {
			return false
		}
	}
	return true
}

// Named says what a pod's gang is called where quotas name those who wait, or the pod.
func Named(p *v1.Pod) string { return gangOf(p) }
