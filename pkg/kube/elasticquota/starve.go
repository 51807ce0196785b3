package elasticquota

import (
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// holdQuota holds quota for a starving group while its quotas' max or the capacity to borrow prevents its start. Gangs of its
// priority and below get the rest. It returns whether quota is held. r.mu is held.
func (r *Manager) holdQuota(group *cache.Group, a quota.Request, refusal *quota.Refusal) bool {
	short := refusal != nil && (refusal.Cause == quota.OverMax || refusal.Cause == quota.OverFree)
	if group.Starving && short && !tooLarge(refusal) && !r.hopeless(a) {
		r.holds[group.Key] = a.Gang
		r.book.Hold(a, refusal.Cause == quota.OverFree)
		return true
	}
	r.releaseHold(group.Key)
	return false
}

// tooLarge returns whether a gang requests more than the tree's capacity.
func tooLarge(r *quota.Refusal) bool {
	for name, n := range r.Request {
		if most, limited := r.Tree.Limit[name]; limited && n > most {
			return true
		}
	}
	return false
}

// hopeless returns whether no eviction lets a gang start.
func (r *Manager) hopeless(a quota.Request) bool {
	_, helps := r.currentBook().Reclaim(a, quota.Never).Shortages()
	return !helps
}

func (r *Manager) releaseHold(group gang.Ref) (held bool) {
	name, held := r.holds[group]
	if held {
		delete(r.holds, group)
		r.book.ReleaseHold(name)
	}
	return held
}

// Review releases the hold of a group that does not starve any longer.
func (r *Manager) Review(group gang.Ref, starves bool) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	freed := false
	if _, saved := r.holds[group]; saved && !starves {
		freed = r.releaseHold(group)
	}
	r.mu.Unlock()
	if freed {
		r.notifyMayBeAdmitted()
	}
}
