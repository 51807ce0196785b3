package elasticquota

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// reducedBooks caches books without some pods until the book base changes. A search for victims uses the same ones several times.
type reducedBooks struct {
	base    *quota.Book
	changes uint64
	byGone  map[string]*quota.Book // by the keys of the removed pods
}

// bookWithout returns the book without the pods in gone, which it sorts. r.mu is locked.
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

// reclaim returns a search for victims of a request, and the pods that it counts as gone. Terminating pods and pods whose eviction was
// accepted count as gone: their quota stays reserved for the gang for which they were evicted. A pod whose eviction was not accepted yet
// counts as gone (true) only if this request may evict it, because its eviction may be cancelled. r.mu is locked.
func (r *Manager) reclaim(a quota.Request, within time.Duration, policy quota.Policy) (search *quota.Reclaim, gone map[string]bool) {
	accepted, requested := r.victimsOnNodes(within)
	gone = map[string]bool{}
	for _, k := range accepted {
		gone[k] = false
	}
	accepted = append(accepted, r.podReservation(a.Gang)...)
	search = r.bookWithout(accepted).Reclaim(a, policy)
	counted := slices.Clone(accepted)
	for _, k := range requested {
		if _, known := gone[k]; !known && search.Right(GangName(r.pods[k].Pod)) != quota.None {
			counted, gone[k] = append(counted, k), true
		}
	}
	if len(counted) > len(accepted) {
		search = r.bookWithout(counted).Reclaim(a, policy)
	}
	return search, gone
}

// podReservation returns the key of the pod of this name without a gang, if it has a reservation; it may use another node. r.mu is locked.
func (r *Manager) podReservation(gang string) []string {
	name, isPod := strings.CutPrefix(gang, onePod)
	if p := r.pods[name]; isPod && p != nil && p.state == quota.Reserved {
		return []string{name}
	}
	return nil
}

// victimsOnNodes returns the keys of bound pods that are gone within the given time: pods that terminate or whose eviction was accepted,
// and pods whose eviction was not accepted yet. r.mu is locked.
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
