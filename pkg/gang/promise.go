package gang

import "time"

// Promise is the promised start of a group that holds capacity: where, and when the declared ends of the pods there leave enough.
type Promise struct {
	Domain string    // the path of the domain; "" is the cluster
	At     time.Time // zero: no start is promised
	// Cause says why an earlier promise was not kept: why the start is later, elsewhere or not promised any more. "" if there was none.
	Cause string
	// Kind is the kind of the cause, one of the Broken kinds; "" if there is none, or if an earlier process knew it.
	Kind string
	// Broken is the time of the earliest promise that was not kept; zero if Cause is "", or if an earlier process knew it.
	Broken time.Time
}

// Why a promised start was not kept.
const (
	BrokenOverdue  = "overdue"  // a pod outlived its declared end
	BrokenNode     = "node"     // a node cannot be used any more
	BrokenPriority = "priority" // a pod of higher priority took a node
	BrokenOther    = "other"
)

// Exists returns whether a start is promised.
func (p Promise) Exists() bool { return !p.At.IsZero() }

// Renewed returns the promise with another domain and time. It has no cause if the promise that was not kept is kept after all.
func (p Promise) Renewed(domain string, at time.Time) Promise {
	if p.Domain, p.At = domain, at; !at.After(p.Broken) {
		p.Cause, p.Kind, p.Broken = "", "", time.Time{}
	}
	return p
}

// retryDue is how often a group is tried again whose promised start has come.
const retryDue = 10 * time.Second

// setPromise sets the promised start of a group. It returns Report if the promise is another one, and Freed if more pods may use the
// capacity that is held: the start is later than before, or is promised now. The group is tried again at its start, and after Starve at the
// latest, since the hold may not help it any more.
func (b *Book) setPromise(key Ref, g *group, p Promise, now time.Time) (out []Effect) {
	old := g.promise
	g.promise, g.tryAt = p, time.Time{}
	if p.Exists() {
		if g.tryAt = p.At; !p.At.After(now) && p.At.Equal(old.At) { // it was tried when its start had come
			g.tryAt = now.Add(retryDue)
		}
		if next := now.Add(b.Starve); next.Before(g.tryAt) {
			g.tryAt = next
		}
	}
	if old.Exists() && !p.Exists() {
		g.holdGrown = now // the hold goes on as one without a promise
	}
	if p.At.After(old.At) {
		out = append(out, Effect{Verb: Freed})
	}
	if p.Domain != old.Domain || p.Cause != old.Cause || !p.At.Equal(old.At) {
		out = append(out, b.report(key)...)
	}
	return out
}

// retryHolders has the groups that hold capacity tried again at the next tick. It has no effects.
func (b *Book) retryHolders(now time.Time) []Effect {
	for _, key := range b.holders {
		b.retryAt(RetryDue{Group: key, At: now})
	}
	return nil
}

// restorePromise gives a group the promise of an earlier process. The group holds capacity again, and other groups wait until it was tried.
func (b *Book) restorePromise(ev Promised, now time.Time) []Effect {
	if !b.isKey(ev.Group) || b.Starve <= 0 || !b.holders[ev.Group.Namespace].IsZero() || b.representative(ev.Group) == nil {
		return nil
	}
	if b.obstacle(ev.Group).Exists() { // it could not be tried, and would keep the turn of others
		return nil
	}
	g := b.group(ev.Group)
	if len(g.plan) > 0 {
		return nil
	}
	b.holders[ev.Group.Namespace] = ev.Group
	g.unschedulableSince, g.firstRefusal, g.holdGrown = now, now, now
	b.resumed[ev.Group] = untried
	return b.setPromise(ev.Group, g, ev.Promise, now)
}

// mayPromise returns whether a start may be promised to a group: fewer than Promises other groups of equal or higher priority have one.
func (b *Book) mayPromise(key Ref) bool {
	others, priority := 0, b.priority(key)
	for _, holder := range b.holders {
		if g := b.groups[holder]; holder != key && g != nil && g.promise.Exists() && b.priority(holder) >= priority {
			others++
		}
	}
	return others < b.Promises
}

// HeldFor returns the promise of a pod's group, if the group is starving and holds capacity on a node in the name of the pod. ok is false
// for other pods, and for short holds, which have an end (CapacityHeld.For).
func (b *Book) HeldFor(pod string) (p Promise, ok bool) {
	key, _ := b.GroupKey(pod)
	g := b.groups[key]
	if g == nil || g.heldNodes[pod] == "" || !g.holdUntil.IsZero() {
		return Promise{}, false
	}
	return g.promise, true
}
