package elasticquota

import (
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// save saves for a group that starves what it asks for of its quotas, as long as it is refused for their max, or since too little is free
// to borrow; others of its priority and below get what is left. It says whether anything is saved. r.mu is held.
func (r *Room) save(group *cache.Group, a quota.Ask, refusal *quota.Refusal) bool {
	if group.Starving && refusal != nil && (refusal.Cause == quota.OverMax || refusal.Cause == quota.OverFree) && !tooLarge(refusal) && !r.hopeless(a) {
		r.claims[group.Key] = a.Gang
		r.book.Claim(a, refusal.Cause == quota.OverFree)
		return true
	}
	r.release(group.Key)
	return false
}

// tooLarge says whether a gang asks for more than there is.
func tooLarge(r *quota.Refusal) bool {
	for name, n := range r.Request {
		if most, limited := r.Tree.Limit[name]; limited && n > most {
			return true
		}
	}
	return false
}

// hopeless says whether a gang is refused whoever leaves.
func (r *Room) hopeless(a quota.Ask) bool {
	_, helps := r.asked().Reclaim(a, quota.Never).Shorts()
	return !helps
}

func (r *Room) release(group gang.Ref) (any bool) {
	name, any := r.claims[group]
	if any {
		delete(r.claims, group)
		r.book.Unclaim(name)
	}
	return any
}

// Review gives back what was saved for a group that does not starve any longer.
func (r *Room) Review(group gang.Ref, starves bool) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	freed := false
	if _, saved := r.claims[group]; saved && !starves {
		freed = r.release(group)
	}
	r.mu.Unlock()
	if freed {
		r.changed()
	}
}
