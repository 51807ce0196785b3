package gang

import (
	"maps"
	"slices"
	"time"
)

// After a failed plan the representative waits, twice as long each time.
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
	// lastFailure is when a reservation is given up: its places look free and are not.
	lastFailure = 3
	// A node that refused a member is avoided, twice as long each time.
	firstAvoided = 30 * time.Second
	lastAvoided  = 5 * time.Minute
)

// planned gives the members of a group their places and wakes those that have one.
func (b *Book) planned(ev Planned, now time.Time) []Effect {
	g := b.group(ev.Group)
	if !ev.Restored {
		delete(b.resumed, ev.Group)
	}
	for pod := range g.plan {
		b.unplace(g, pod)
	}
	b.fed(ev.Group, g)
	g.plan, g.turn = make(map[string]string, len(ev.Places)), nil
	g.reserved, g.waiting, g.opened = ev.Reserved, ev.Reserved, false
	g.why, g.deadline = "", ev.Until
	if !ev.Reserved {
		g.deadline = now.Add(b.patience(ev.Group))
	}
	for _, p := range ev.Places {
		if m := b.pods[p.Pod]; m == nil || m.Node != "" {
			continue
		}
		g.plan[p.Pod] = p.Node
		b.occupy(p.Node, p.Pod)
		if ev.InOrder {
			g.turn = append(g.turn, p.Pod)
		}
	}
	out := b.report(ev.Group)
	if ev.Reserved {
		return out
	}
	return append(out, b.wakePlanned(ev.Group)...)
}

// confirmed carries out a reservation.
func (b *Book) confirmed(ev Confirmed, now time.Time) []Effect {
	key := ev.Group
	g := b.groups[key]
	if g == nil || !g.waiting {
		return nil
	}
	g.turn = ev.Turn
	g.waiting = false
	delete(b.resumed, key)
	g.deadline = now.Add(b.patience(key))
	return b.wakePlanned(key)
}

func (b *Book) wakePlanned(key string) (out []Effect) {
	g := b.groups[key]
	if g.turn != nil {
		return b.wakeNext(g)
	}
	for _, m := range b.sorted(key, pending) {
		if _, ok := g.plan[m.Pod]; ok && !m.assumed {
			out = append(out, Effect{Verb: Wake, Pod: m.Pod})
		}
	}
	return out
}

// next is the member whose turn it is to enter, "" if all have or there is no order.
func (b *Book) next(g *group) string {
	for _, pod := range g.turn {
		if m := b.pods[pod]; m != nil && g.plan[pod] != "" && !m.assumed {
			return pod
		}
	}
	return ""
}

// wakeNext lets the next member enter, where they do so in turn.
func (b *Book) wakeNext(g *group) []Effect {
	if pod := b.next(g); pod != "" && !g.waiting {
		return []Effect{{Verb: Wake, Pod: pod}}
	}
	return nil
}

// assumed notes that the scheduler itself counts the member on its node now.
func (b *Book) assumed(pod string) []Effect {
	if m := b.pods[pod]; m != nil {
		m.assumed = true
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			b.vacate(g.plan[pod], pod)
			return b.wakeNext(g)
		}
	}
	return nil
}

// held brings a member to the barrier and opens it when every gang is whole.
func (b *Book) held(pod string, now time.Time) (out []Effect) {
	m := b.pods[pod]
	if m == nil || m.Node != "" {
		return nil
	}
	key := b.groupKey(m.Gang)
	g := b.group(key)
	if g.waiting || g.plan[pod] == "" { // given up while the member was on its way
		return []Effect{{Verb: Reject, Pod: pod, Why: "the plan of its gang was given up"}}
	}
	m.held = true
	if g.deadline.IsZero() {
		g.deadline = now.Add(b.patience(key))
	}
	for _, name := range gangsOf(key) {
		if !b.whole(name) && !g.opened {
			return nil
		}
	}
	g.opened = true
	for _, m := range b.sorted(key, func(m *member) bool { return m.held && !m.allowed }) {
		m.allowed = true
		out = append(out, Effect{Verb: Allow, Pod: m.Pod})
	}
	return out
}

// whole says whether a gang satisfies its match policy at the barrier.
func (b *Book) whole(name string) bool {
	g := b.gangs[name]
	if g == nil || g.spec == nil {
		return false
	}
	waiting, running := 0, 0
	for _, m := range g.members {
		switch {
		case m.Node != "":
			running++
		case m.held:
			waiting++
		}
	}
	switch g.spec.Policy {
	case OnlyWaiting:
		return waiting >= g.spec.Min
	case WaitingAndRunning:
		return waiting+running >= g.spec.Min
	}
	return g.stays() || waiting+running >= g.spec.Min
}

// released takes a member's node back. Of a strict gang, all that wait at the
// barrier go with it; a plan that victims were evicted for is kept and checked again.
func (b *Book) released(ev Released, now time.Time) (out []Effect) {
	m := b.pods[ev.Pod]
	if m == nil || !m.assumed && !m.held {
		return nil
	}
	fault := !m.back
	m.assumed, m.held, m.allowed, m.back = false, false, false, false
	key := b.groupKey(m.Gang)
	g := b.group(key)
	node, planned := g.plan[m.Pod]
	switch {
	case !planned: // the last of a plan that was given up
		if b.inFlight(key) == 0 && g.retry.IsZero() {
			out = b.Review(m.Gang)
		}
		return out
	case g.waiting: // one of those that were sent back with another's failure
		b.occupy(node, m.Pod)
		if rep := b.representative(key); rep != nil && b.inFlight(key) == 0 && g.retry.IsZero() {
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
		}
		return out
	}
	if !fault {
		node = ""
	}
	if b.gang(m.Gang).nonStrict() {
		b.unplace(g, m.Pod)
		g.refusedBy(node, ev.Why, now)
		b.later(g, now)
		return append(b.report(key), b.wakeNext(g)...)
	}
	return b.dropped(Dropped{Group: key, Node: node, Why: ev.Why}, now)
}

// refusedBy notes that a node refused a member.
func (g *group) refusedBy(node, why string, now time.Time) {
	if node == "" {
		return
	}
	if g.avoid == nil {
		g.avoid = map[string]avoided{}
	}
	times := g.avoid[node].times
	g.avoid[node] = avoided{why: why, until: now.Add(min(firstAvoided<<min(times, 10), lastAvoided)), times: times + 1}
}

// tryAgain says whether some node need not be avoided any longer.
func (g *group) tryAgain(now time.Time) (any bool) {
	for node, a := range g.avoid {
		if !a.until.IsZero() && !now.Before(a.until) {
			a.until = time.Time{}
			g.avoid[node] = a
			any = true
		}
	}
	return any
}

// inFlight counts the pending members that the scheduler counts on a node although
// no plan that is being carried out puts them there: they are on their way back to
// the queue.
func (b *Book) inFlight(key string) (n int) {
	g := b.groups[key]
	for _, m := range b.sorted(key, pending) {
		if m.assumed && (g == nil || g.waiting || g.plan[m.Pod] == "") {
			n++
		}
	}
	return n
}

// nodeGone is about groups that have places there, which must be planned anew: of those
// with a reservation the representative is woken, other plans are given up.
func (b *Book) nodeGone(node string, now time.Time) (out []Effect) {
	for _, key := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[key]
		rep := b.representative(key)
		if rep == nil || !slices.Contains(slices.Collect(maps.Values(g.plan)), node) {
			continue
		}
		if g.waiting {
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			continue
		}
		out = append(out, b.dropped(Dropped{Group: key, Why: "node " + node + " is gone"}, now)...)
	}
	return out
}

// refused remembers why a group has no plan.
func (b *Book) refused(ev Refused, now time.Time) []Effect {
	g := b.group(ev.Group)
	delete(b.resumed, ev.Group)
	if g.since.IsZero() {
		g.since = now
	}
	if g.why == ev.Why {
		return nil
	}
	g.why = ev.Why
	return b.report(ev.Group)
}

// dropped gives a plan up after a failure: who waits at the barrier is rejected, and
// the representative tries again after a while. A reservation keeps its places.
func (b *Book) dropped(ev Dropped, now time.Time) []Effect {
	key := ev.Group
	g := b.groups[key]
	if g == nil || len(g.plan) == 0 {
		return nil
	}
	g.refusedBy(ev.Node, ev.Why, now)
	out := b.rejectHeld(key, ev.Why)
	if g.reserved && g.failures < lastFailure {
		for pod, node := range g.plan {
			if m := b.pods[pod]; m != nil && !m.assumed {
				b.occupy(node, pod)
			}
		}
		g.waiting, g.opened = true, false
	} else {
		out = append(out, b.clearPlan(key)...)
	}
	b.later(g, now)
	return append(out, b.report(key)...)
}

// kept gives a reservation up that waits for a victim that stays, and sends the
// representative for a plan without that node.
func (b *Book) kept(ev Kept, now time.Time) []Effect {
	g := b.groups[ev.Group]
	if g == nil || !g.waiting {
		return nil
	}
	g.refusedBy(ev.Node, ev.Why, now)
	out := b.forget(ev.Group, ev.Why)
	if rep := b.representative(ev.Group); rep != nil && b.waitsFor(ev.Group) == "" {
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return out
}

// forget gives a plan up for good, reserved or not.
func (b *Book) forget(key, why string) []Effect {
	g := b.groups[key]
	if g == nil {
		return nil
	}
	out := b.rejectHeld(key, why)
	out = append(out, b.clearPlan(key)...)
	b.fed(key, g)
	return append(out, b.report(key)...)
}

// Forget is the answer to a reservation that can no longer be kept: its nodes are
// gone, or its victims do not leave.
func (b *Book) Forget(key, why string) []Effect { return b.forget(key, why) }

func (b *Book) rejectHeld(key, why string) (out []Effect) {
	for _, m := range b.sorted(key, func(m *member) bool { return m.held && !m.allowed }) {
		m.held, m.back = false, true
		out = append(out, Effect{Verb: Reject, Pod: m.Pod, Why: why})
	}
	return out
}

// clearPlan takes all places back; nominations that stand for them are void.
func (b *Book) clearPlan(key string) (out []Effect) {
	g := b.groups[key]
	for _, pod := range slices.SortedFunc(maps.Keys(g.plan), b.compareNames) {
		if g.reserved {
			out = append(out, Effect{Verb: Clear, Pod: pod})
		}
		b.unplace(g, pod)
	}
	g.plan, g.turn, g.reserved, g.waiting, g.opened, g.deadline = nil, nil, false, false, false, time.Time{}
	return out
}

// later sets when the representative tries again.
func (b *Book) later(g *group, now time.Time) {
	g.retry = now.Add(min(firstRetry<<min(g.failures, 10), lastRetry))
	g.failures++
}

// tick ends waits that took too long and wakes those that were told to come later.
func (b *Book) tick(now time.Time) (out []Effect) {
	out = append(b.resumedLongEnough(now), b.starving(now)...)
	for _, key := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[key]
		if !g.deadline.IsZero() && !now.Before(g.deadline) {
			out = append(out, b.expire(key, now)...)
			continue
		}
		again := g.tryAgain(now) && len(g.plan) == 0
		if !g.retry.IsZero() && !now.Before(g.retry) {
			g.retry, again = time.Time{}, true
		}
		if again {
			if rep := b.representative(key); rep != nil {
				out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			}
		}
	}
	return out
}

// expire returns every member of a group that waited too long to the queue. Where
// victims did not leave, another place is sought at once; else the group comes back
// after a while, as after any failure, so that others have their turn.
func (b *Book) expire(key string, now time.Time) (out []Effect) {
	g := b.groups[key]
	g.deadline = time.Time{}
	if len(b.sorted(key, func(m *member) bool { return m.held && !m.allowed })) == 0 && len(g.plan) == 0 {
		return nil
	}
	why := "waited " + b.patience(key).String() + " for the gang to be whole"
	overdue := g.waiting
	if overdue {
		why = "the victims did not leave in time"
		out = append(out, Effect{Verb: Overdue, Gang: key})
	}
	for _, name := range gangsOf(key) {
		out = append(out, Effect{Verb: Expire, Gang: name, Why: why})
	}
	out = append(out, b.forget(key, why)...)
	rep := b.representative(key)
	switch {
	case rep == nil || b.waitsFor(key) != "":
	case !overdue:
		b.later(g, now)
	default:
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return out
}

// patience is the shortest wait of a group's gangs.
func (b *Book) patience(key string) time.Duration {
	var least time.Duration
	for _, name := range gangsOf(key) {
		if g := b.gangs[name]; g != nil && g.spec != nil && (least == 0 || g.spec.Wait < least) {
			least = g.spec.Wait
		}
	}
	return least
}

func (b *Book) report(key string) (out []Effect) {
	for _, name := range gangsOf(key) {
		out = append(out, Effect{Verb: Report, Gang: name})
	}
	return out
}

// group returns what is remembered of a group, which it starts if need be.
func (b *Book) group(key string) *group {
	g := b.groups[key]
	if g == nil {
		g = &group{}
		b.groups[key] = g
	}
	return g
}

// unplace takes a member out of the plan.
func (b *Book) unplace(g *group, pod string) {
	b.vacate(g.plan[pod], pod)
	delete(g.plan, pod)
}

// occupy notes a place that the scheduler itself does not count yet.
func (b *Book) occupy(node, pod string) {
	if b.places[node] == nil {
		b.places[node] = map[string]bool{}
	}
	b.places[node][pod] = true
}

func (b *Book) vacate(node, pod string) {
	delete(b.places[node], pod)
	if len(b.places[node]) == 0 {
		delete(b.places, node)
	}
}
