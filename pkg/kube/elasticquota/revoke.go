package elasticquota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// With monitorAllQuotas, pods of any priority may be evicted if their quota has exceeded its fair share for delayEvictTime without a
// break. Such a quota is overdue. Tick finds overdue quotas and has the waiting gangs retried. Each retry searches for victims, and their
// capacity is reserved for that gang. After an eviction, delayEvictTime begins again for the victim's quota.

// revocations has the quotas above their fair share, and the gangs and pods that wait for capacity.
type revocations struct {
	checkedAt time.Time
	overSince map[string]time.Time   // quotas above their fair share, and since when
	overdue   map[string]bool        // quotas that were overdue at the last check
	waiting   map[string]waiter      // by gang, the last attempt of a gang that is not placed
	lastState string                 // a key of the quotas' state at the last check
	blocked   map[string]blockReason // by gang, the reported reason why nothing was evicted
}

// blockReason is why no pod of an overdue quota was evicted for a gang. If due to disruption budgets, it is retried at each check.
type blockReason struct {
	message   string
	byBudgets bool
}

// waiter is the last attempt of a gang that is not placed: what it requested.
type waiter struct {
	request     quota.Request
	pod         *v1.Pod // one of its pods
	requestKey  string  // equal for equal requests
	treeVersion uint64  // Manager.treeVersion at the attempt
}

// forgetGang removes a gang from the waiting gangs.
func (v *revocations) forgetGang(gang string) {
	delete(v.waiting, gang)
	delete(v.blocked, gang)
}

// stillWaits returns whether the pod of a waiter still exists. r.mu is locked.
func (r *Manager) stillWaits(w waiter) bool {
	current := r.pods[key(w.pod)]
	return current != nil && current.UID == w.pod.UID
}

// Tick finds the overdue quotas, and has waiting gangs retried that may evict their pods. It is called periodically.
func (r *Manager) Tick() {
	if !r.args.Revoke || !r.Active() || !r.cluster.Open() {
		return
	}
	now := r.clock.Now()
	r.lock()
	if now.Sub(r.revoke.checkedAt) < r.args.Every {
		r.mu.Unlock()
		return
	}
	r.revoke.checkedAt = now
	r.findOverdue(now)
	waits := map[string]*v1.Pod{}
	state := fmt.Sprint(sortedKeys(r.revoke.overdue), r.treeVersion, r.currentBook().Changes())
	for _, id := range sortedKeys(r.revoke.waiting) {
		switch w := r.revoke.waiting[id]; {
		case !r.stillWaits(w):
			r.revoke.forgetGang(id)
		case len(r.revoke.overdue) > 0 && (r.revoke.lastState != state || r.revoke.blocked[id].byBudgets) &&
			convert.Priority(w.pod) < systemCritical:
			waits[id] = w.pod
		}
	}
	r.revoke.lastState = state
	r.mu.Unlock()
	if len(waits) > 0 {
		r.cluster.Hear(Event{Kind: MayEvict, Waits: waits})
	}
}

// RevokesLater returns whether a gang waits and a quota becomes overdue soon; false if delayEvictTime is more than an hour.
func (r *Manager) RevokesLater() bool {
	if !r.args.Revoke || !r.Active() || r.args.Delay > time.Hour {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	terminating, now := r.quotasWithTerminating(), r.clock.Now()
	return len(r.revoke.waiting) > 0 && slices.ContainsFunc(r.quotasAboveShare(), func(name string) bool {
		since, known := r.revoke.overSince[name] // the next Tick finds the others
		return !terminating[name] && (!known || now.Sub(since) < r.args.Delay+2*r.args.Every)
	})
}

// quotasAboveShare returns the quotas without children that exceed their fair share. r.mu is locked.
func (r *Manager) quotasAboveShare() []string {
	b := r.currentBook()
	return slices.DeleteFunc(slices.Clone(b.Tree().Names()), func(name string) bool {
		s, _ := b.Tree().Spec(name)
		return s.Inner || !b.ExceedsFairShare(name)
	})
}

// SearchOverdueVictims returns a search for pods of overdue quotas that may be evicted for a group; nil if no quota is overdue.
func (r *Manager) SearchOverdueVictims(group *cache.Group) *VictimSearch {
	if !r.args.Revoke || !r.Active() || len(group.Pending) == 0 {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	if len(r.revoke.overdue) == 0 {
		return nil
	}
	a := r.request(group, membersToPlace(group), nil)
	if a.Priority >= systemCritical {
		return nil
	}
	c := r.newVictimSearch(a, unlimited, quota.AnyPriority)
	c.overQuotas = maps.Clone(r.revoke.overdue)
	return c
}

// Revoked records that these pods of overdue quotas are evicted, and returns the reason for messages. Their quotas are overdue no longer.
func (c *VictimSearch) Revoked(gone []*v1.Pod) (why string) {
	r := c.manager
	r.lock()
	from := r.quotasOf(gone)
	why = c.revocationReason(from)
	for _, name := range from {
		r.revoke.overSince[name] = r.clock.Now() // delayEvictTime begins again
		delete(r.revoke.overdue, name)
		r.noteRevoked(name, why, gone)
	}
	notes := r.takeNotes()
	r.mu.Unlock()
	r.reportNotes(notes)
	return why
}

// NotRevoked reports once why no pod of an overdue quota is evicted: because of the given budgets, or no set of victims frees enough.
func (c *VictimSearch) NotRevoked(budgets []string) {
	r := c.manager
	r.lock()
	from := sortedKeys(c.overQuotas)
	message := c.revocationReason(from) + ": no pod is evicted, because no permitted eviction frees enough capacity"
	if len(budgets) > 0 {
		message = fmt.Sprintf("%s: no pod is evicted, because PodDisruptionBudgets do not allow it: %s",
			c.revocationReason(from), strings.Join(budgets, ", "))
	}
	if r.revoke.blocked[c.request.Gang].message != message {
		if r.revoke.blocked == nil {
			r.revoke.blocked = map[string]blockReason{}
		}
		r.revoke.blocked[c.request.Gang] = blockReason{message, len(budgets) > 0}
		for _, name := range from {
			r.noteQuota(name, cache.Note{Warning: true, Reason: reasons.QuotaNotRevoked, Message: message})
		}
	}
	notes := r.takeNotes()
	r.mu.Unlock()
	r.reportNotes(notes)
}

// revocationReason returns a text for messages: why pods of the quotas in from may be evicted.
func (c *VictimSearch) revocationReason(from []string) string {
	var quotas []string
	for _, w := range c.request.Need {
		quotas = append(quotas, w.Quota)
	}
	slices.Sort(quotas)
	return fmt.Sprintf("quota %s has used more than its fair share for %s, and %s of quota %s waits for it",
		strings.Join(from, ", "), c.manager.args.Delay, shortNames([]string{c.request.Gang})[0], strings.Join(slices.Compact(quotas), ", "))
}

// noteQuota adds the note n about the objects that declare the quota.
func (r *Manager) noteQuota(name string, n cache.Note) {
	for _, k := range sortedKeys(r.objects) {
		if o := r.objects[k]; o.Name == name {
			n.About = o.raw
			r.notes = append(r.notes, n)
		}
	}
}

// noteRevoked adds a note to a quota's object that lists the evicted gangs and pods, with the reason why.
func (r *Manager) noteRevoked(name, why string, gone []*v1.Pod) {
	var gangs []string
	for _, p := range gone {
		gangs = append(gangs, GangName(p))
	}
	slices.Sort(gangs)
	message := fmt.Sprintf("%s: evicted %s with %d %s",
		why, strings.Join(shortNames(slices.Compact(gangs)), ", "), len(gone), plural("pod", len(gone)))
	r.noteQuota(name, cache.Note{Reason: reasons.QuotaRevoked, Message: message})
}

// findOverdue sets r.revoke.overSince and r.revoke.overdue. For a quota with a terminating pod the time begins again. r.mu is locked.
func (r *Manager) findOverdue(now time.Time) {
	terminating := r.quotasWithTerminating()
	overSince, overdue := map[string]time.Time{}, map[string]bool{}
	for _, name := range r.quotasAboveShare() {
		since, known := r.revoke.overSince[name]
		if !known || terminating[name] {
			since = now
		}
		overSince[name] = since
		if now.Sub(since) >= r.args.Delay && !terminating[name] {
			overdue[name] = true
		}
	}
	r.revoke.overSince, r.revoke.overdue = overSince, overdue
}

// quotasWithTerminating returns the quotas with a terminating pod on a node.
func (r *Manager) quotasWithTerminating() map[string]bool {
	all := map[string]bool{}
	for _, p := range r.pods {
		if p.Spec.NodeName != "" && r.isTerminating(p.Pod) {
			all[p.quota] = true
		}
	}
	return all
}

// isTerminating returns whether a pod terminates, or the API server has accepted its eviction.
func (r *Manager) isTerminating(p *v1.Pod) bool {
	return p.DeletionTimestamp != nil || r.cluster.Leaves(p)
}

func (r *Manager) quotasOf(pods []*v1.Pod) []string {
	all := map[string]bool{}
	for _, p := range pods {
		if name, _ := r.quotaOf(p); name != "" {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
