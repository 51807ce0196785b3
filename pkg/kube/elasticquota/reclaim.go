package elasticquota

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// reducedBooks caches books without some pods until the base changes: a search for victims asks several times.
type reducedBooks struct {
	base    *quota.Book
	changes uint64
	byGone  map[string]*quota.Book // by pods that are gone
}

// bookWithout returns the book without the pods in gone. r.mu is held.
func (r *Manager) bookWithout(gone []string) *quota.Book {
	b := r.currentBook()
	if len(gone) == 0 {
		return b
	}
	if r.reduced.base != b || r.reduced.changes != b.Changes() {
		r.reduced = reducedBooks{base: b, changes: b.Changes(), byGone: map[string]*quota.Book{}}
	}
	slices.Sort(gone)
	id := strings.Join(gone, " ")
	if r.reduced.byGone[id] == nil {
		r.reduced.byGone[id] = b.Without(gone...)
	}
	return r.reduced.byGone[id]
}

// reclaim begins a search for victims. Pods with accepted evictions count as gone, as on their nodes: waiting for a victim beats
// another eviction. Their quota stays reserved for the gang they were evicted for. A pod with a requested eviction counts as gone
// only if the gang may evict that pod, because the preemptor may yet do without. r.mu is held.
func (r *Manager) reclaim(a quota.Request, within time.Duration, policy quota.Policy) (search *quota.Reclaim, gone map[string]bool) {
	accepted, requested := r.victimsOnNodes(within)
	gone = map[string]bool{}
	for _, k := range accepted {
		gone[k] = false
	}
	accepted = append(accepted, r.ownReservation(a.Gang)...)
	search = r.bookWithout(accepted).Reclaim(a, policy)
	counted := slices.Clone(accepted)
	for _, k := range requested {
		if _, known := gone[k]; !known && search.Right(gangOf(r.pods[k].Pod)) != quota.None {
			counted, gone[k] = append(counted, k), true
		}
	}
	if len(counted) > len(accepted) {
		search = r.bookWithout(counted).Reclaim(a, policy)
	}
	return search, gone
}

// ownReservation returns the pod of that name if it has no gang and has a reservation, which it gives up for another node. r.mu is held.
func (r *Manager) ownReservation(gang string) []string {
	name, isPod := strings.CutPrefix(gang, onePod)
	if p := r.pods[name]; isPod && p != nil && p.state == quota.Reserved {
		return []string{name}
	}
	return nil
}

// victimsOnNodes returns the pods whose termination is certain, and the pods whose eviction was not sent yet. r.mu is held.
func (r *Manager) victimsOnNodes(within time.Duration) (accepted, requested []string) {
	for _, k := range sortedKeys(r.terminating) {
		if r.cluster.Terminates(r.pods[k].Pod, within) {
			accepted = append(accepted, k)
		}
	}
	keysOf := func(pods []*v1.Pod) (keys []string) {
		for _, p := range pods {
			if current := r.pods[key(p)]; current != nil && current.UID == p.UID && current.Spec.NodeName != "" && !r.terminating[key(p)] {
				keys = append(keys, key(p))
			}
		}
		slices.Sort(keys)
		return keys
	}
	acceptedPods, requestedPods := r.cluster.Unseen(within)
	return append(accepted, keysOf(acceptedPods)...), keysOf(requestedPods)
}
