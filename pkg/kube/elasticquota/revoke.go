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
	"github.com/muster-scheduler/muster/pkg/kube/source"
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
// which that is entitled to, that is admitted then: gangs that borrow, whole, the fewest pods. For one gang that happens once: if it cannot
// start then for other reasons, those who have left may come back, and would leave again and again.
func (r *Room) Revoke() *Revocation {
	if !r.args.Revoke || !r.Active() || !r.cluster.Open() {
		return nil
	}
	r.lock()
	out := r.revokeAt(r.clock.Now())
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
	defer r.mu.Unlock()
	all, leaving := map[string]bool{}, r.leaving()
	for name := range r.revoke.over {
		all[name] = !leaving[name]
	}
	_, gone, _ := r.chooseRevoked(all, r.cluster.Violated)
	return len(gone) > 0
}

// revokeAt is Revoke with r.mu held.
func (r *Room) revokeAt(now time.Time) *Revocation {
	if now.Sub(r.revoke.looked) < r.args.Every {
		return nil
	}
	r.revoke.looked = now
	late := r.late(now)
	if len(late) == 0 {
		return nil
	}
	by, gone, forbidden := r.chooseRevoked(late, r.cluster.Violated)
	if len(gone) == 0 {
		r.noteBarred(late, forbidden)
		return nil
	}
	if r.revoke.spent == nil {
		r.revoke.spent = map[string]bool{}
	}
	r.revoke.spent[by.ask.Gang] = true
	out := &Revocation{Gone: gone, For: by.pod}
	from := r.quotasOf(gone)
	out.Why = r.whyRevoked(from, by)
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

// noteBarred has people told, once, that nobody leaves of quotas that are late, since disruption budgets forbid it.
func (r *Room) noteBarred(late map[string]bool, forbidden []string) {
	if len(forbidden) == 0 {
		return
	}
	by, gone, _ := r.chooseRevoked(late, nil)
	if len(gone) == 0 {
		return
	}
	from := r.quotasOf(gone)
	message := fmt.Sprintf("%s: nobody leaves as long as PodDisruptionBudgets do not allow it: %s", r.whyRevoked(from, by), strings.Join(forbidden, ", "))
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

// chooseRevoked is who leaves of some quotas, and for whom: for the most important of those who wait. violated are the disruption budgets that do
// not allow pods to leave; nil is none ever. forbidden are those that keep somebody.
func (r *Room) chooseRevoked(from map[string]bool, violated func([]*v1.Pod) []string) (by waiter, gone []*v1.Pod, forbidden []string) {
	if len(from) == 0 {
		return by, nil, nil
	}
	var waits []waiter
	for _, id := range sorted(r.revoke.waits) {
		s := r.revoke.waits[id]
		if is := r.pods[key(s.pod)]; is == nil || is.UID != s.pod.UID {
			r.revoke.gone(id)
		} else if !r.revoke.spent[id] && convert.Priority(s.pod) < systemCritical {
			waits = append(waits, s)
		}
	}
	if len(waits) == 0 {
		return by, nil, nil
	}
	slices.SortStableFunc(waits, func(a, b waiter) int { return cmp.Compare(b.ask.Priority, a.ask.Priority) })
	pods, parties := r.parties(from)
	sure, _ := r.leavers(forEver)
	after := r.after(sure)
	for _, s := range waits {
		gone, kept := fewest(after.Reclaim(s.ask, quota.AnyPriority), pods, parties, violated)
		if len(gone) > 0 {
			return s, gone, nil
		}
		forbidden = append(forbidden, kept...)
	}
	slices.Sort(forbidden)
	return by, nil, slices.Compact(forbidden)
}

// fewest are those parties that leave for somebody, as disruption budgets allow: one that may not leave with those before it stays. forbidden
// are the budgets that keep them.
func fewest(search *quota.Reclaim, pods [][]*v1.Pod, parties []quota.Party, violated func([]*v1.Pod) []string) (gone []*v1.Pod, forbidden []string) {
	pods, parties = slices.Clone(pods), slices.Clone(parties)
	for {
		stays := -1
		gone = nil
		for _, i := range search.Fewest(parties) {
			gone = append(gone, pods[i]...)
			if violated == nil || stays >= 0 {
				continue
			}
			if by := violated(gone); len(by) > 0 {
				stays, forbidden = i, append(forbidden, by...)
			}
		}
		if stays < 0 {
			return gone, forbidden
		}
		pods, parties = slices.Delete(pods, stays, stays+1), slices.Delete(parties, stays, stays+1)
	}
}

// parties are who may leave of some quotas: pods without a gang, and gangs with all that leave with them. Those of the lowest priority come
// first, and of these the younger ones.
func (r *Room) parties(from map[string]bool) (pods [][]*v1.Pod, parties []quota.Party) {
	seen := map[string]bool{}
	for _, k := range sorted(r.pods) {
		p := r.pods[k]
		if seen[k] || p.Spec.NodeName == "" || !from[p.quota] {
			continue
		}
		all := []*v1.Pod{p.Pod}
		if !source.Of(p.Pod).IsZero() {
			all = r.cluster.Mates(p.Pod)
		}
		for _, mate := range all {
			seen[key(mate)] = true
		}
		if len(all) > 0 && !slices.ContainsFunc(all, r.remains) {
			pods = append(pods, all)
		}
	}
	slices.SortStableFunc(pods, func(a, b []*v1.Pod) int {
		return cmp.Or(cmp.Compare(highest(a), highest(b)), cmp.Compare(r.began(b), r.began(a)))
	})
	for _, all := range pods {
		party := quota.Party{}
		for _, p := range all {
			party[gangOf(p)] = append(party[gangOf(p)], key(p))
		}
		parties = append(parties, party)
	}
	return pods, parties
}

// remains says whether a pod cannot leave: it has no node yet, leaves already, or is never evicted.
func (r *Room) remains(p *v1.Pod) bool {
	return p.Spec.NodeName == "" || r.leaves(p) || convert.Protected(p)
}

func highest(pods []*v1.Pod) int32 {
	most := convert.Priority(pods[0])
	for _, p := range pods {
		most = max(most, convert.Priority(p))
	}
	return most
}

// began is when the last of some pods got its place.
func (r *Room) began(pods []*v1.Pod) (last int64) {
	for _, p := range pods {
		if known := r.pods[key(p)]; known != nil {
			last = max(last, known.since)
		}
	}
	return last
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
