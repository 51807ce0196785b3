package elasticquota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Revocation is pods that leave, whole gangs, since a quota has had more than it is entitled to for long.
type Revocation struct {
	Gone []*v1.Pod
	For  *v1.Pod // one of those that are admitted then
	Why  string
}

// revocations is what is known of quotas that have too much, and of the gangs and pods that wait for that.
type revocations struct {
	looked  time.Time
	over    map[string]time.Time // quotas, and since when
	waits   map[string]waiter    // by gang, what was tried, and has no place yet
	granted map[string]*grant    // by gang
	barred  map[string]string    // gangs for which nothing is evicted since budgets forbid it, and what was said of that
}

// waiter is what a gang has asked for.
type waiter struct {
	ask   quota.Ask
	pod   *v1.Pod // one of it
	what  string  // equal for those who ask for the same
	grown uint64  // how often the tree was made then
}

// grant is what victims were evicted for. The quotas keep it for the gang or pod until that has a place, or could have had one for delayEvictTime.
type grant struct {
	uid  types.UID // of the pod that waits
	free time.Time // since when all of it is free; zero if some is not
	vain bool      // it was free for that long: no node takes the pod, and nothing more is evicted for it
}

// asks notes what somebody who is tried asks for, whoever refuses it: what is within what its quota is entitled to may not be there.
func (v *revocations) asks(w waiter) {
	if v.waits == nil {
		v.waits = map[string]waiter{}
	}
	v.waits[w.ask.Gang] = w
}

// gone notes that nobody is known any more who has asked for a gang.
func (v *revocations) gone(gang string) {
	delete(v.waits, gang)
	delete(v.barred, gang)
}

// started notes that a member of a gang has got a place: others that wait ask for something else now. r.mu is held.
func (r *Room) started(gang string) {
	r.revoke.gone(gang)
	r.endGrant(gang)
}

// grantTo keeps for a gang or pod what victims leave. r.mu is held.
func (r *Room) grantTo(w waiter) {
	if r.revoke.granted == nil {
		r.revoke.granted = map[string]*grant{}
	}
	r.revoke.granted[w.ask.Gang] = &grant{uid: w.pod.UID}
	r.book.Claim(w.ask, true)
}

// endGrant gives up what is kept for a gang or pod. r.mu is held.
func (r *Room) endGrant(gang string) {
	if g := r.revoke.granted[gang]; g != nil {
		delete(r.revoke.granted, gang)
		r.book.Unclaim(gang)
	}
}

// reviewGrants ends what is kept for gangs and pods that are gone, or could have had a place for delayEvictTime. It says whether any ended. r.mu is held.
func (r *Room) reviewGrants(now time.Time) (ended bool) {
	for _, gang := range sorted(r.revoke.granted) {
		g, w := r.revoke.granted[gang], r.revoke.waits[gang]
		switch {
		case w.pod == nil || w.pod.UID != g.uid || r.pods[key(w.pod)] == nil || r.pods[key(w.pod)].UID != g.uid:
			r.endGrant(gang)
			ended = true
		case g.vain:
		case !r.isFree(w.ask):
			g.free = time.Time{}
		case g.free.IsZero():
			g.free = now
		case now.Sub(g.free) >= r.args.Delay:
			g.vain, ended = true, true
			r.book.Unclaim(gang)
		}
	}
	return ended
}

// isFree says whether all that is asked for is free. r.mu is held.
func (r *Room) isFree(a quota.Ask) bool {
	return r.asked().Reclaim(a, quota.AnyPriority).Revokes(nil) == quota.Admitted
}

// Revoke returns the pods to evict now, if the arguments have it that quotas are watched; nil is none. It is to be asked again and again.
//
// Pods are evicted if a quota has had more than it is entitled to for delayEvictTime without a pause, and there is a gang of another quota,
// which that is entitled to, that is admitted then: bundles of pods that borrow, the fewest pods. The gang that is first in the queue comes first, and what
// the victims leave is kept for it. If another one has that all the same, more may be evicted. If no node takes the gang, nothing more is: victims that come
// back would be evicted again and again.
func (r *Room) Revoke() *Revocation {
	if !r.args.Revoke || !r.Active() || !r.cluster.Open() {
		return nil
	}
	now := r.clock.Now()
	r.lock()
	if now.Sub(r.revoke.looked) < r.args.Every {
		r.mu.Unlock()
		return nil
	}
	r.revoke.looked = now
	ended, late := r.reviewGrants(now), r.late(now)
	r.mu.Unlock()
	if ended {
		r.changed()
	}
	by, gone, budgets := r.chooseRevoked(late)
	if len(gone) == 0 {
		return nil
	}
	r.lock()
	out := r.revoked(by, gone, budgets, now)
	notes := r.takeNotes()
	r.mu.Unlock()
	r.say(notes)
	return out
}

// RevokesLater says whether pods are to be evicted, or what is kept for a gang is given up, if nothing changes until a quota has had too much for long
// enough, within an hour.
func (r *Room) RevokesLater() bool {
	if !r.args.Revoke || !r.Active() || r.args.Delay > time.Hour {
		return false
	}
	r.lock()
	all, leaving, kept := map[string]bool{}, r.leaving(), false
	for name := range r.revoke.over {
		all[name] = !leaving[name]
	}
	for gang, g := range r.revoke.granted {
		kept = kept || !g.vain && r.isFree(r.revoke.waits[gang].ask)
	}
	r.mu.Unlock()
	if kept {
		return true
	}
	_, gone, budgets := r.chooseRevoked(all)
	return len(gone) > 0 && len(budgets) == 0
}

// revoked notes that pods are evicted for a gang or pod, or that budgets do not allow it. r.mu is held.
func (r *Room) revoked(by waiter, gone []*v1.Pod, budgets []string, now time.Time) *Revocation {
	from := r.quotasOf(gone)
	out := &Revocation{Gone: gone, For: by.pod, Why: r.whyRevoked(from, by)}
	if len(budgets) > 0 {
		r.noteBarred(from, by, fmt.Sprintf("%s: nobody leaves as long as PodDisruptionBudgets do not allow it: %s", out.Why, strings.Join(budgets, ", ")))
		return nil
	}
	r.grantTo(by)
	for _, name := range from {
		r.revoke.over[name] = now // once more as long, before others do
		r.noteRevoked(name, out)
	}
	return out
}

func (r *Room) whyRevoked(from []string, by waiter) string {
	return fmt.Sprintf("quota %s has had more than it is entitled to for %s, which %s of quota %s waits for",
		strings.Join(from, ", "), r.args.Delay, plain([]string{by.ask.Gang})[0], strings.Join(r.quotasOf([]*v1.Pod{by.pod}), ", "))
}

// noteBarred has people told, once, that nobody leaves of some quotas since disruption budgets forbid it.
func (r *Room) noteBarred(from []string, by waiter, message string) {
	if r.revoke.barred[by.ask.Gang] == message {
		return
	}
	if r.revoke.barred == nil {
		r.revoke.barred = map[string]string{}
	}
	r.revoke.barred[by.ask.Gang] = message
	for _, name := range from {
		r.noteQuota(name, cache.Note{Warning: true, Reason: cache.QuotaNotRevoked, Message: message})
	}
}

// noteQuota has people told about a quota's object.
func (r *Room) noteQuota(name string, n cache.Note) {
	for _, k := range sorted(r.objects) {
		if o := r.objects[k]; o.Name == name {
			n.About = o.about
			r.notes = append(r.notes, n)
		}
	}
}

// noteRevoked has people told on a quota's object.
func (r *Room) noteRevoked(name string, what *Revocation) {
	var gangs []string
	for _, p := range what.Gone {
		gangs = append(gangs, gangOf(p))
	}
	slices.Sort(gangs)
	message := fmt.Sprintf("%s: %s with %d %s leave", what.Why, strings.Join(plain(slices.Compact(gangs)), ", "), len(what.Gone), plural("pod", len(what.Gone)))
	r.noteQuota(name, cache.Note{Reason: cache.QuotaRevoked, Message: message})
}

// late are the quotas that have had too much for long enough. As long as somebody of one is leaving it is not.
func (r *Room) late(now time.Time) map[string]bool {
	leaving := r.leaving()
	b, over, late := r.asked(), map[string]time.Time{}, map[string]bool{}
	for _, name := range b.Tree().Names() {
		if s, _ := b.Tree().Spec(name); s.Inner || !b.Over(name) {
			continue
		}
		since, known := r.revoke.over[name]
		if !known || leaving[name] {
			since = now
		}
		over[name] = since
		if now.Sub(since) >= r.args.Delay && !leaving[name] {
			late[name] = true
		}
	}
	r.revoke.over = over
	return late
}

// leaving are the quotas of which somebody is on his way out.
func (r *Room) leaving() map[string]bool {
	all := map[string]bool{}
	for _, p := range r.pods {
		if p.Spec.NodeName != "" && r.leaves(p.Pod) {
			all[p.quota] = true
		}
	}
	return all
}

func (r *Room) leaves(p *v1.Pod) bool {
	return p.DeletionTimestamp != nil || r.cluster.Leaves(p)
}

// chooseRevoked returns the pods to evict of some quotas, and the gang or pod that they are evicted for: the most important one that waits and for
// which budgets allow it. If these allow it for none, it returns the first one, with the budgets.
func (r *Room) chooseRevoked(from map[string]bool) (by waiter, gone []*v1.Pod, budgets []string) {
	if len(from) == 0 {
		return by, nil, nil
	}
	r.lock()
	waits := r.waiters()
	var pods []*v1.Pod
	for _, k := range sorted(r.pods) {
		if p := r.pods[k]; p.Spec.NodeName != "" && from[p.quota] && !r.leaves(p.Pod) {
			pods = append(pods, p.Pod)
		}
	}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(r.pods[key(a)].since, r.pods[key(b)].since) })
	r.mu.Unlock()
	for _, w := range waits {
		r.lock()
		claim := r.claim(w.ask, forEver, quota.AnyPriority)
		r.mu.Unlock()
		claim.revokes = true
		switch some, barred := r.cluster.Revoked(claim, pods); {
		case len(some) == 0:
		case len(barred) == 0:
			return w, some, nil
		case len(gone) == 0:
			by, gone, budgets = w, some, barred
		}
	}
	return by, gone, budgets
}

// waiters lists the gangs and pods for which others may be evicted, in the order of the queue. r.mu is held.
func (r *Room) waiters() (waits []waiter) {
	orders := map[string]cache.Order{}
	for _, id := range sorted(r.revoke.waits) {
		s := r.revoke.waits[id]
		is, g := r.pods[key(s.pod)], r.revoke.granted[id]
		switch {
		case is == nil || is.UID != s.pod.UID:
			r.revoke.gone(id)
		case convert.Priority(s.pod) < systemCritical && (g == nil || !g.vain || g.uid != s.pod.UID):
			waits, orders[id] = append(waits, s), r.cluster.Order(s.pod)
		}
	}
	slices.SortStableFunc(waits, func(a, b waiter) int {
		x, y := orders[a.ask.Gang], orders[b.ask.Gang]
		return cmp.Or(cmp.Compare(b.ask.Priority, a.ask.Priority), x.Compare(y))
	})
	return waits
}

// quotasOf are the quotas of some pods.
func (r *Room) quotasOf(pods []*v1.Pod) []string {
	all := map[string]bool{}
	for _, p := range pods {
		if name, _ := r.quotaOf(p); name != "" {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
