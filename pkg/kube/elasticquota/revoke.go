package elasticquota

import (
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

// Where quotas are watched (monitorAllQuotas), pods may be evicted if their quota has had more than it is entitled to for delayEvictTime without a
// pause, whatever their priority. Tick finds such quotas and has the gangs and pods that wait tried, in the order of the queue; each looks for victims
// in a cycle of its own, and what they leave is reserved for it. For one eviction of a quota delayEvictTime begins anew.

// revocations is what is known of quotas that have too much, and of the gangs and pods that wait for that.
type revocations struct {
	looked time.Time
	over   map[string]time.Time // quotas that have too much, and since when
	late   map[string]bool      // those that have had too much for long enough, when it was looked last
	waits  map[string]waiter    // by gang, what was tried, and has no place yet
	woken  string               // what was known when those that wait were tried last
	barred map[string]barred    // by gang, why nothing was evicted for it, as people were told
}

// barred is why no pod was evicted for a gang. Disruption budgets change without a word to the quotas: the gang is tried again and again.
type barred struct {
	message   string
	byBudgets bool
}

// waiter is what a gang has asked for.
type waiter struct {
	ask   quota.Ask
	pod   *v1.Pod // one of it
	what  string  // equal for those who ask for the same
	grown uint64  // how often the tree was made then
}

// gone notes that nobody is known any more who has asked for a gang.
func (v *revocations) gone(gang string) {
	delete(v.waits, gang)
	delete(v.barred, gang)
}

// stillWaits returns whether the pod of a waiter is there. r.mu is held.
func (r *Room) stillWaits(w waiter) bool {
	is := r.pods[key(w.pod)]
	return is != nil && is.UID == w.pod.UID
}

// Tick is to be called again and again. It finds the quotas that have had too much for long, and has those tried for which pods of these may be evicted.
func (r *Room) Tick() {
	if !r.args.Revoke || !r.Active() || !r.cluster.Open() {
		return
	}
	now := r.clock.Now()
	r.lock()
	if now.Sub(r.revoke.looked) < r.args.Every {
		r.mu.Unlock()
		return
	}
	r.revoke.looked = now
	r.review(now)
	waits := map[string]*v1.Pod{}
	is := fmt.Sprint(sorted(r.revoke.late), r.grown, r.asked().Changes())
	for _, id := range sorted(r.revoke.waits) {
		switch w := r.revoke.waits[id]; {
		case !r.stillWaits(w):
			r.revoke.gone(id)
		case len(r.revoke.late) > 0 && (r.revoke.woken != is || r.revoke.barred[id].byBudgets) && convert.Priority(w.pod) < systemCritical:
			waits[id] = w.pod
		}
	}
	r.revoke.woken = is
	r.mu.Unlock()
	if len(waits) > 0 {
		r.cluster.Hear(Event{What: MayEvict, Waits: waits})
	}
}

// RevokesLater returns whether pods may be evicted, if nothing changes, once quotas have had too much for long enough, within an hour.
func (r *Room) RevokesLater() bool {
	if !r.args.Revoke || !r.Active() || r.args.Delay > time.Hour {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	leaving, now := r.leaving(), r.clock.Now()
	for name, since := range r.revoke.over {
		if len(r.revoke.waits) > 0 && !leaving[name] && now.Sub(since) < r.args.Delay+2*r.args.Every {
			return true
		}
	}
	return false
}

// Revoke begins the search for pods that may be evicted for a group since their quotas have had too much for long; nil if there are none.
func (r *Room) Revoke(group *cache.Group) *Claim {
	if !r.args.Revoke || !r.Active() || len(group.Pending) == 0 {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	if len(r.revoke.late) == 0 {
		return nil
	}
	a := r.ask(group, claimants(group), nil)
	if a.Priority >= systemCritical {
		return nil
	}
	c := r.claim(a, forEver, quota.AnyPriority)
	c.from = maps.Clone(r.revoke.late)
	return c
}

// Revoked notes that pods are evicted, and returns what they are told.
func (c *Claim) Revoked(gone []*v1.Pod) (why string) {
	r := c.room
	r.lock()
	from := r.quotasOf(gone)
	why = c.whyRevoked(from)
	for _, name := range from {
		r.revoke.over[name] = r.clock.Now() // once more as long, before others are evicted
		delete(r.revoke.late, name)
		r.noteRevoked(name, why, gone)
	}
	notes := r.takeNotes()
	r.mu.Unlock()
	r.say(notes)
	return why
}

// NotRevoked has people told, once, why no pod is evicted although its quota has had too much for long: disruption budgets do not allow it, or, without any,
// no set of such pods makes room.
func (c *Claim) NotRevoked(budgets []string) {
	r := c.room
	r.lock()
	from := sorted(c.from)
	message := c.whyRevoked(from) + ": no pod is evicted, since no set of pods that may be makes room for it"
	if len(budgets) > 0 {
		message = fmt.Sprintf("%s: no pod is evicted as long as PodDisruptionBudgets do not allow it: %s", c.whyRevoked(from), strings.Join(budgets, ", "))
	}
	if r.revoke.barred[c.ask.Gang].message != message {
		if r.revoke.barred == nil {
			r.revoke.barred = map[string]barred{}
		}
		r.revoke.barred[c.ask.Gang] = barred{message, len(budgets) > 0}
		for _, name := range from {
			r.noteQuota(name, cache.Note{Warning: true, Reason: cache.QuotaNotRevoked, Message: message})
		}
	}
	notes := r.takeNotes()
	r.mu.Unlock()
	r.say(notes)
}

func (c *Claim) whyRevoked(from []string) string {
	var of []string
	for _, w := range c.ask.Need {
		of = append(of, w.Quota)
	}
	slices.Sort(of)
	return fmt.Sprintf("quota %s has used more than its fair share for %s, and %s of quota %s waits for it",
		strings.Join(from, ", "), c.room.args.Delay, plain([]string{c.ask.Gang})[0], strings.Join(slices.Compact(of), ", "))
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
func (r *Room) noteRevoked(name, why string, gone []*v1.Pod) {
	var gangs []string
	for _, p := range gone {
		gangs = append(gangs, gangOf(p))
	}
	slices.Sort(gangs)
	message := fmt.Sprintf("%s: %s with %d %s leave", why, strings.Join(plain(slices.Compact(gangs)), ", "), len(gone), plural("pod", len(gone)))
	r.noteQuota(name, cache.Note{Reason: cache.QuotaRevoked, Message: message})
}

// review finds the quotas that have had too much for long enough. A quota of which a pod terminates is none of them. r.mu is held.
func (r *Room) review(now time.Time) {
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
	r.revoke.over, r.revoke.late = over, late
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
