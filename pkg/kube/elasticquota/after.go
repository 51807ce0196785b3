package elasticquota

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// afters are books in which those are gone who leave, as long as nothing has changed since: whoever searches for victims asks several times.
type afters struct {
	of      *quota.Book
	changes uint64
	without map[string]*quota.Book // by who is gone
}

// after is the book when some have gone. r.mu is held.
func (r *Room) after(gone []string) *quota.Book {
	b := r.asked()
	if len(gone) == 0 {
		return b
	}
	if r.afters.of != b || r.afters.changes != b.Changes() {
		r.afters = afters{of: b, changes: b.Changes(), without: map[string]*quota.Book{}}
	}
	slices.Sort(gone)
	id := strings.Join(gone, " ")
	if r.afters.without[id] == nil {
		r.afters.without[id] = b.Without(gone...)
	}
	return r.afters.without[id]
}

// reclaim begins a search for victims. Who leaves already counts as gone, as he does on his node: to wait for him beats evicting others. What
// he leaves to whom he was evicted for counts as that one's all the same, who has it reserved. Whoever the API server was not asked for yet is
// counted on by those alone who might evict him, too: who does may need him no more. r.mu is held.
func (r *Room) reclaim(a quota.Ask, within time.Duration, policy quota.Policy) (search *quota.Reclaim, gone map[string]bool) {
	sure, others := r.leavers(within)
	gone = map[string]bool{}
	for _, k := range sure {
		gone[k] = false
	}
	sure = append(sure, r.kept(a.Gang)...)
	search = r.after(sure).Reclaim(a, policy)
	all := slices.Clone(sure)
	for _, k := range others {
		if _, known := gone[k]; !known && search.Right(gangOf(r.pods[k].Pod)) != quota.None {
			all, gone[k] = append(all, k), true
		}
	}
	if len(all) > len(sure) {
		search = r.after(all).Reclaim(a, policy)
	}
	return search, gone
}

// kept lists the pod of that name in the book, if it has no gang and something is kept for it: it needs that no more when it gets another place. r.mu is held.
func (r *Room) kept(gang string) []string {
	name, alone := strings.CutPrefix(gang, onePod)
	if p := r.pods[name]; alone && p != nil && p.state == quota.Keeps {
		return []string{name}
	}
	return nil
}

// leavers are the pods that are on their way out, and those whom the API server was not asked for yet. r.mu is held.
func (r *Room) leavers(within time.Duration) (sure, others []string) {
	for _, k := range sorted(r.going) {
		if r.cluster.Terminates(r.pods[k].Pod, within) {
			sure = append(sure, k)
		}
	}
	known := func(pods []*v1.Pod) (keys []string) {
		for _, p := range pods {
			if is := r.pods[key(p)]; is != nil && is.UID == p.UID && is.Spec.NodeName != "" && !r.going[key(p)] {
				keys = append(keys, key(p))
			}
		}
		slices.Sort(keys)
		return keys
	}
	taken, rest := r.cluster.Unseen(within)
	return append(sure, known(taken)...), known(rest)
}
