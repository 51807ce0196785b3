package elasticquota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

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

// revocations is what is known of quotas that have too much, and of those who wait for that.
type revocations struct {
	looked time.Time
	over   map[string]time.Time // quotas, and since when
	waits  map[string]waiter    // by gang, who was tried, and has no place yet
	spent  map[string]bool      // gangs for which others have left, and which have not started since: nobody else does
	barred map[string]string    // gangs for which nobody leaves since budgets forbid it, and what was said of that
}

// waiter is what a gang has asked for.
type waiter struct {
	ask   quota.Ask
	pod   *v1.Pod // one of it
	what  string  // equal for those who ask for the same
	grown uint64  // how often the tree was made then
}

// asks notes what somebody who is tried asks for, whoever refuses it: what is within what its quota is entitled to may not be there.
func (v *revocations) asks(w waiter) {
	if v.waits == nil {
		v.waits = map[string]waiter{}
	}
	v.waits[w.ask.Gang] = w
}

// started notes that a member of a gang has got a place: others that wait ask for something else now.
func (v *revocations) started(gang string) {
	delete(v.waits, gang)
	delete(v.spent, gang)
	delete(v.barred, gang)
}

// gone notes that nobody is known any more who has asked for a gang.
func (v *revocations) gone(gang string) {
	delete(v.waits, gang)
	delete(v.barred, gang)
}

// Revoke returns who is to leave now, if the arguments have it that quotas are watched; nil is nobody. It is to be asked again and again.
//
// Somebody leaves if a quota has had more than it is entitled to for delayEvictTime without a pause, and there is a gang of another quota,
// which that is entitled to, that is admitted then: bundles of pods that borrow, the fewest pods. For one gang that happens once: if it cannot
// start then for other reasons, those who have left may come back, and would leave again and again.
func (r *Room) Revoke() *Revocation {
	if !r.args.Revoke || !r.Active() || !r.cluster.Open() {
		return nil
	}
	now := r.clock.Now()
	r.lock()
	var late map[string]bool
	if now.Sub(r.revoke.looked) >= r.args.Every {
		r.revoke.looked = now
		late = r.late(now)
	}
	r.mu.Unlock()
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

// RevokesLater says whether somebody is to leave if nothing changes until a quota has had too much for long enough, within an hour.
func (r *Room) RevokesLater() bool {
	if !r.args.Revoke || !r.Active() || r.args.Delay > time.Hour {
		return false
	}
	r.lock()
	all, leaving := map[string]bool{}, r.leaving()
	for name := range r.revoke.over {
		all[name] = !leaving[name]
	}
	r.mu.Unlock()
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
	if r.revoke.spent == nil {
		r.revoke.spent = map[string]bool{}
	}
	r.revoke.spent[by.ask.Gang] = true
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

// waiters lists the gangs and pods for which others may be evicted, the most important first. r.mu is held.
func (r *Room) waiters() (waits []waiter) {
	for _, id := range sorted(r.revoke.waits) {
		s := r.revoke.waits[id]
		if is := r.pods[key(s.pod)]; is == nil || is.UID != s.pod.UID {
			r.revoke.gone(id)
		} else if !r.revoke.spent[id] && convert.Priority(s.pod) < systemCritical {
			waits = append(waits, s)
		}
	}
	slices.SortStableFunc(waits, func(a, b waiter) int { return cmp.Compare(b.ask.Priority, a.ask.Priority) })
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
