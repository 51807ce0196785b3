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
	if !b.isKey(ev.Group) || b.leaves(ev.Group) {
		return nil // the gangs have formed other groups meanwhile, or somebody evicts them
	}
	if ev.Restored && (b.waitsFor(ev.Group).Is() || b.tooFewWait(ev.Group).Is()) {
		return nil // it could not be carried out: nobody of the group is let in
	}
	if b.lacks(ev.Group) && !ev.Reserved {
		return b.complete(ev)
	}
	ahead := b.keepAhead(ev.Group, ev.Ahead, now.Add(b.patience(ev.Group)))
	g := b.group(ev.Group)
	switch {
	case !ev.Reserved:
		b.placesResumed(ev.Group)
	case !ev.Restored:
		delete(b.resumed, ev.Group)
	}
	was := g.plan
	g.plan = maps.Clone(was)
	for pod := range was {
		b.unplace(g, pod)
	}
	out := append(ahead, b.fed(ev.Group, g)...)
	g.plan = make(map[string]string, len(ev.Places))
	g.reserved, g.waiting, g.opened = ev.Reserved, ev.Reserved, false
	g.refusal, g.deadline = Refusal{}, ev.Until
	if !ev.Reserved {
		g.deadline = now.Add(b.patience(ev.Group))
	}
	var turn []string
	for _, p := range ev.Places {
		m := b.pods[p.Pod]
		if m == nil || m.Node != "" || b.groupKey(m.Gang) != ev.Group {
			continue
		}
		b.place(g, m, p.Node)
		m.nominated = m.nominated || ev.Reserved
		if ev.InOrder {
			turn = append(turn, p.Pod)
		}
	}
	b.inTurn(g, turn)
	out = append(out, b.report(ev.Group)...)
	for _, pod := range slices.SortedFunc(maps.Keys(was), b.names) {
		if node, ok := g.plan[pod]; !ok || node != was[pod] && !ev.Reserved {
			out = append(out, b.denominate(pod)...)
		}
	}
	out = append(out, b.endAheadOfNobody(ev.Group)...) // of those who were planned nobody may be left
	if ev.Reserved {
		return out
	}
	return append(out, b.wakePlanned(ev.Group)...)
}

// complete gives places to members that have none in a plan that is being carried out.
func (b *Book) complete(ev Planned) []Effect {
	g := b.groups[ev.Group]
	g.refusal = Refusal{}
	var turn []string
	for _, p := range ev.Places {
		m := b.pods[p.Pod]
		if m == nil || !pending(m) || m.planned || m.assumed || b.groupKey(m.Gang) != ev.Group {
			continue
		}
		b.place(g, m, p.Node)
		if ev.InOrder {
			turn = append(turn, p.Pod)
		}
	}
	b.inTurn(g, turn)
	return append(b.report(ev.Group), b.wakePlanned(ev.Group)...)
}

// confirmed carries out a reservation.
func (b *Book) confirmed(ev Confirmed, now time.Time) []Effect {
	key := ev.Group
	g := b.groups[key]
	if g == nil || !g.waiting {
		return nil
	}
	b.inTurn(g, ev.Turn)
	g.waiting = false
	b.placesResumed(key)
	g.deadline = now.Add(b.patience(key))
	return b.wakePlanned(key)
}

func (b *Book) wakePlanned(key Ref) (out []Effect) {
	g := b.groups[key]
	if g.turn != nil {
		return g.wakeNext()
	}
	for _, m := range b.sorted(key, pending) {
		if _, ok := g.plan[m.Pod]; ok && !m.assumed {
			out = append(out, Effect{Verb: Wake, Pod: m.Pod})
		}
	}
	return out
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

// nodeGone is about groups that have places there, which must be planned anew: those with a
// reservation at once, others when whoever holds a place is back.
func (b *Book) nodeGone(node string, now time.Time) (out []Effect) {
	why := "node " + node + " is gone"
	for _, key := range b.groupsWhere(func(g *group) bool { return g.uses(node) }) {
		g, rep := b.groups[key], b.representative(key)
		if rep == nil {
			continue
		}
		if g.waiting { // its cycle might not come: without any node the scheduler has none
			out = append(out, b.forget(key, why)...)
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			continue
		}
		out = append(out, b.dropped(Dropped{Group: key, Why: why}, now)...)
	}
	return out
}

// nodeClosed has the groups tried that wait for places on a node: whether their members tolerate it Filters know. Members of a plan that is carried out
// hear it from these in their own cycles.
func (b *Book) nodeClosed(node string) (out []Effect) {
	for _, key := range b.groupsWhere(func(g *group) bool { return g.waiting && g.uses(node) }) {
		if rep := b.representative(key); rep != nil {
			out = append(out, Effect{Verb: Again, Pod: rep.Pod})
		}
	}
	return out
}

// uses says whether the plan puts a member on a node.
func (g *group) uses(node string) bool {
	for _, n := range g.plan {
		if n == node {
			return true
		}
	}
	return false
}

// refused remembers why a group has no plan.
func (b *Book) refused(ev Refused, now time.Time) []Effect {
	if !b.isKey(ev.Group) {
		return nil
	}
	g := b.group(ev.Group)
	delete(b.resumed, ev.Group)
	if g.since.IsZero() {
		g.since = now
	}
	if g.refusal.Equal(ev.Refusal) {
		return nil
	}
	g.refusal = ev.Refusal
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
	if ev.Learned {
		return b.again(key, ev.Why)
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

// again gives a plan up for another one, which is made when the last member is back.
func (b *Book) again(key Ref, why string) []Effect {
	out := append(b.rejectHeld(key, why), b.clearPlan(key)...)
	if rep := b.representative(key); rep != nil && b.inFlight(key) == 0 {
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return append(out, b.report(key)...)
}

// kept gives a reservation up that waits for a victim that stays, and sends the
// representative for a plan without that node, if there is one.
func (b *Book) kept(ev Kept, now time.Time) []Effect {
	g := b.groups[ev.Group]
	if g == nil || !g.waiting {
		return nil
	}
	if ev.Node != "" {
		g.refusedBy(ev.Node, ev.Why, now)
	}
	out := b.forget(ev.Group, ev.Why)
	if rep := b.representative(ev.Group); rep != nil && !b.waitsFor(ev.Group).Is() {
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return out
}

// forget gives a plan up for good, reserved or not.
func (b *Book) forget(key Ref, why string) []Effect {
	g := b.groups[key]
	if g == nil {
		return nil
	}
	out := b.rejectHeld(key, why)
	out = append(out, b.clearPlan(key)...)
	out = append(out, b.fed(key, g)...)
	return append(out, b.report(key)...)
}

// Forget is the answer to a reservation that can no longer be kept: its nodes are
// gone, or its victims do not leave.
func (b *Book) Forget(key Ref, why string) []Effect { return b.tell(b.forget(key, why)) }

// clearPlan takes all places back; nominations that stand for them are void.
func (b *Book) clearPlan(key Ref) (out []Effect) {
	g := b.groups[key]
	if len(g.plan) > 0 {
		out = append(out, Effect{Verb: Freed})
	}
	for _, pod := range slices.SortedFunc(maps.Keys(g.plan), b.names) {
		out = append(out, b.denominate(pod)...)
		b.unplace(g, pod)
	}
	g.plan, g.turn, g.next, g.reserved, g.waiting, g.opened, g.deadline = nil, nil, 0, false, false, false, time.Time{}
	return append(out, b.endAhead(key)...)
}

// denominate takes back that a member is nominated for a node.
func (b *Book) denominate(pod string) []Effect {
	m := b.pods[pod]
	if m == nil || !m.nominated {
		return nil
	}
	m.nominated = false
	return []Effect{{Verb: Clear, Pod: pod}}
}

// later sets when the representative tries again.
func (b *Book) later(g *group, now time.Time) {
	g.retry = now.Add(min(firstRetry<<min(g.failures, 10), lastRetry))
	g.failures++
}

func (b *Book) report(key Ref) (out []Effect) {
	for _, ref := range b.groupOf(key) {
		out = append(out, Effect{Verb: Report, Gang: ref})
	}
	return out
}

// group returns what is remembered of a group, which it starts if need be.
func (b *Book) group(key Ref) *group {
	g := b.groups[key]
	if g == nil {
		g = &group{}
		b.groups[key] = g
	}
	return g
}
