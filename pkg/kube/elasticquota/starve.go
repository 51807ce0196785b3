package elasticquota

import (
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// holdQuota begins or ends the capacity hold of a group in its quotas, and returns whether there is one. A starving group has one while max
// or too little to borrow prevents its start. Other gangs of no higher priority then cannot use that capacity. r.mu is locked.
func (r *Manager) holdQuota(group *cache.Group, a quota.Request, refusal *quota.Refusal) bool {
	short := refusal != nil && (refusal.Cause == quota.OverMax || refusal.Cause == quota.OverFree)
	if group.Starving && short && !tooLarge(refusal) && !r.noEvictionHelps(a) {
		r.holds[group.Key] = a.Gang
		r.book.Hold(a, refusal.Cause == quota.OverFree)
		return true
	}
	r.releaseHold(group.Key)
	return false
}

// tooLarge returns whether a refused gang requests more of a resource, in all its quotas, than the total capacity of the quota tree.
func tooLarge(r *quota.Refusal) bool {
	for name, n := range r.Tree.Request {
		if most, limited := r.Tree.Limit[name]; limited && n > most {
			return true
		}
	}
	return false
}

// noEvictionHelps returns whether the quotas would lack capacity for the request even after all evictions.
func (r *Manager) noEvictionHelps(a quota.Request) bool {
	_, helps := r.currentBook().Reclaim(a, quota.Never).Shortages()
	return !helps
}

// releaseHold ends the capacity hold of a group, and returns whether it had one.
func (r *Manager) releaseHold(group gang.Ref) (held bool) {
	name, held := r.holds[group]
	if held {
		delete(r.holds, group)
		r.book.ReleaseHold(name)
	}
	return held
}

// Review ends the capacity hold of a group if the group no longer starves.
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
