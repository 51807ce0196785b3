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
	// lastFailure is the number of failures after which a reservation is dropped: its nodes only look free.
	lastFailure = 3
	// A node that did not accept a member is avoided, twice as long each time.
	firstAvoided = 30 * time.Second
	lastAvoided  = 5 * time.Minute
)

// adoptPlan replaces the plan of a group by ev, and wakes the members that may enter; with a reservation, none may yet. Deleted and bound
// members are skipped. It changes nothing if the group does not exist any more, is being evicted, or could not carry out a restored plan.
func (b *Book) adoptPlan(ev Planned, now time.Time) []Effect {
	if !b.isKey(ev.Group) || b.terminating(ev.Group) {
		return nil // the groups changed meanwhile, or are being evicted
	}
	if ev.Restored && (b.obstacle(ev.Group).Exists() || b.tooFewWait(ev.Group).Exists()) {
		return nil // it could not be carried out
	}
	if b.hasVacancy(ev.Group) && !ev.Reserved {
		return b.fillVacancy(ev)
	}
	futureEffects := b.reserveFuture(ev.Group, ev.Future, b.futureLimit(ev.Group, now))
	g := b.group(ev.Group)
	switch {
	case !ev.Reserved:
		b.startResumed(ev.Group)
	case !ev.Restored:
		delete(b.resumed, ev.Group)
	}
	old := g.plan
	g.plan = maps.Clone(old)
	for pod := range old {
		b.unassign(g, pod)
	}
	out := append(futureEffects, b.endStarvation(ev.Group, g)...)
	g.plan = make(map[string]string, len(ev.Places))
	g.reserved = ev.Reserved
	g.unconfirmed = ev.Reserved
	g.barrierOpen = false
	g.refusal, g.deadline = Obstacle{}, ev.Until
	if !ev.Reserved {
		g.deadline = now.Add(b.waitLimit(ev.Group))
	}
	var turn []string
	for _, p := range ev.Places {
		m := b.pods[p.Pod]
		if m == nil || m.Node != "" || b.groupKey(m.Gang) != ev.Group {
			continue
		}
		b.assign(g, m, p.Node)
		m.nominated = m.nominated || ev.Reserved
		if ev.InOrder {
			turn = append(turn, p.Pod)
		}
	}
	b.setTurn(g, turn)
	out = append(out, b.report(ev.Group)...)
	for _, pod := range slices.SortedFunc(maps.Keys(old), b.names) {
		if node, ok := g.plan[pod]; !ok || node != old[pod] && !ev.Reserved {
			out = append(out, b.removeNomination(pod)...)
		}
	}
	out = append(out, b.releaseOrphanedFuture(ev.Group)...) // the planned members may all be gone
	if ev.Reserved {
		return out
	}
	return append(out, b.wakePlanned(ev.Group)...)
}

// fillVacancy assigns nodes to members that have none in a plan that is being carried out, and wakes them. Other members keep theirs.
func (b *Book) fillVacancy(ev Planned) []Effect {
	g := b.groups[ev.Group]
	g.refusal = Obstacle{}
	var turn []string
	for _, p := range ev.Places {
		m := b.pods[p.Pod]
		if m == nil || !pending(m) || m.planned || m.assumed || b.groupKey(m.Gang) != ev.Group {
			continue
		}
		b.assign(g, m, p.Node)
		if ev.InOrder {
			turn = append(turn, p.Pod)
		}
	}
	b.setTurn(g, turn)
	return append(b.report(ev.Group), b.wakePlanned(ev.Group)...)
}

// startPlan confirms a reservation: it starts the waiting time and wakes the planned members, or with Turn the first of them. It changes
// nothing without an unconfirmed reservation.
func (b *Book) startPlan(ev Confirmed, now time.Time) []Effect {
	key := ev.Group
	g := b.groups[key]
	if g == nil || !g.unconfirmed {
		return nil
	}
	b.setTurn(g, ev.Turn)
	g.unconfirmed = false
	b.startResumed(key)
	g.deadline = now.Add(b.waitLimit(key))
	return b.wakePlanned(key)
}

// wakePlanned wakes the planned members that are not assumed yet; only the next one if members enter in order.
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

// avoidNode records that a node did not accept a member, and until when the group avoids it; "" is no node.
func (g *group) avoidNode(node, why string, now time.Time) {
	if node == "" {
		return
	}
	if g.avoid == nil {
		g.avoid = map[string]avoidedNode{}
	}
	times := g.avoid[node].times
	g.avoid[node] = avoidedNode{why: why, until: now.Add(min(firstAvoided<<min(times, 10), lastAvoided)), times: times + 1}
}

// removeNode drops the plans that use a deleted node. Reservations are retried at once, other plans when their members are requeued.
func (b *Book) removeNode(node string, now time.Time) (out []Effect) {
	why := "node " + node + " is gone"
	for _, key := range b.groupsWhere(func(g *group) bool { return g.uses(node) }) {
		g, rep := b.groups[key], b.representative(key)
		if rep == nil {
			continue
		}
		if g.unconfirmed { // without nodes the scheduler runs no cycle that would notice
			out = append(out, b.forget(key, why)...)
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			continue
		}
		out = append(out, b.dropPlan(Dropped{Group: key, Why: why}, now)...)
	}
	for _, key := range b.groupsWhere(func(g *group) bool { return g.promise.Exists() && holdsNode(g, node) }) {
		if rep := b.representative(key); rep != nil {
			out = append(out, Effect{Verb: WakeLater, Pod: rep.Pod})
		}
	}
	return out
}

// holdsNode returns whether capacity is held for a group on the node.
func holdsNode(g *group, node string) bool {
	for _, n := range g.heldNodes {
		if n == node {
			return true
		}
	}
	return false
}

// closeNode wakes the groups whose reservation uses the node: only Filters know whether members tolerate the taint. For members of a
// confirmed plan, their own scheduling cycles check that.
func (b *Book) closeNode(node string) (out []Effect) {
	for _, key := range b.groupsWhere(func(g *group) bool { return g.unconfirmed && g.uses(node) }) {
		if rep := b.representative(key); rep != nil {
			out = append(out, Effect{Verb: WakeLater, Pod: rep.Pod})
		}
	}
	return out
}

// uses returns whether the plan assigns a member to the node.
func (g *group) uses(node string) bool {
	for _, n := range g.plan {
		if n == node {
			return true
		}
	}
	return false
}

// noteRefusal records why a group has no plan, and since when. It reports the reason if it differs from the last one.
func (b *Book) noteRefusal(ev Unschedulable, now time.Time) []Effect {
	if !b.isKey(ev.Group) {
		return nil
	}
	g := b.group(ev.Group)
	delete(b.resumed, ev.Group)
	if g.unschedulableSince.IsZero() {
		g.unschedulableSince = now
	}
	if g.firstRefusal.IsZero() {
		g.firstRefusal = now
	}
	if g.refusal.Equal(ev.Refusal) {
		return nil
	}
	g.refusal = ev.Refusal
	return b.report(ev.Group)
}

// dropPlan drops a plan after a failure: members at the barrier are rejected, and the representative retries later. A reservation keeps its
// nodes until lastFailure failures. With ev.Learned, a new plan is searched at once.
func (b *Book) dropPlan(ev Dropped, now time.Time) []Effect {
	key := ev.Group
	g := b.groups[key]
	if g == nil || len(g.plan) == 0 {
		return nil
	}
	if ev.Learned {
		return b.replan(key, ev.Why)
	}
	g.avoidNode(ev.Node, ev.Why, now)
	out := b.rejectHeld(key, ev.Why)
	if g.reserved && g.failures < lastFailure {
		for pod, node := range g.plan {
			if m := b.pods[pod]; m != nil && !m.assumed {
				b.occupy(node, pod)
			}
		}
		g.unconfirmed, g.barrierOpen = true, false
	} else {
		out = append(out, b.clearPlan(key)...)
	}
	b.retryLater(g, now)
	return append(out, b.report(key)...)
}

// replan drops a plan. A different plan is searched when the last member is back in the queue.
func (b *Book) replan(key Ref, why string) []Effect {
	out := append(b.rejectHeld(key, why), b.clearPlan(key)...)
	if rep := b.representative(key); rep != nil && b.inFlight(key) == 0 {
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return append(out, b.report(key)...)
}

// abandonReservation drops a reservation whose victim cannot be evicted, and wakes the representative. The next plan avoids ev.Node.
func (b *Book) abandonReservation(ev VictimStays, now time.Time) []Effect {
	g := b.groups[ev.Group]
	if g == nil || !g.unconfirmed {
		return nil
	}
	if ev.Node != "" {
		g.avoidNode(ev.Node, ev.Why, now)
	}
	out := b.forget(ev.Group, ev.Why)
	if rep := b.representative(ev.Group); rep != nil && !b.obstacle(ev.Group).Exists() {
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return out
}

// forget drops the plan of a group, reserved or not, and ends its starvation with its capacity hold. The group stays in the book.
func (b *Book) forget(key Ref, why string) []Effect {
	g := b.groups[key]
	if g == nil {
		return nil
	}
	out := b.rejectHeld(key, why)
	out = append(out, b.clearPlan(key)...)
	out = append(out, b.endStarvation(key, g)...)
	return append(out, b.report(key)...)
}

// Forget drops a reservation that cannot be kept, because nodes are deleted or victims do not terminate.
func (b *Book) Forget(key Ref, why string) []Effect { return b.addMoves(b.forget(key, why)) }

// clearPlan removes all assignments and their nominations.
func (b *Book) clearPlan(key Ref) (out []Effect) {
	g := b.groups[key]
	if len(g.plan) > 0 {
		out = append(out, Effect{Verb: Freed})
	}
	for _, pod := range slices.SortedFunc(maps.Keys(g.plan), b.names) {
		out = append(out, b.removeNomination(pod)...)
		b.unassign(g, pod)
	}
	g.plan = nil
	g.turn = nil
	g.next = 0
	g.reserved = false
	g.unconfirmed = false
	g.barrierOpen = false
	g.deadline = time.Time{}
	if a := b.futures[key]; a != nil && a.successors {
		return out
	}
	return append(out, b.releaseFuture(key)...)
}

// removeNomination returns the effect that removes the nominated node of a pod; nil if it has none.
func (b *Book) removeNomination(pod string) []Effect {
	m := b.pods[pod]
	if m == nil || !m.nominated {
		return nil
	}
	m.nominated = false
	return []Effect{{Verb: Clear, Pod: pod}}
}

// retryLater sets when the representative tries again, later after each failure.
func (b *Book) retryLater(g *group, now time.Time) {
	g.retryAt = now.Add(min(firstRetry<<min(g.failures, 10), lastRetry))
	g.failures++
}

// retryAt sets when the representative of a group without a plan tries again, unless an earlier time is set.
func (b *Book) retryAt(ev RetryDue) []Effect {
	if !b.isKey(ev.Group) {
		return nil
	}
	if g := b.group(ev.Group); g.retryAt.IsZero() || ev.At.Before(g.retryAt) {
		g.retryAt = ev.At
	}
	return nil
}

// report returns the effect Report for each gang of the group.
func (b *Book) report(key Ref) (out []Effect) {
	for _, ref := range b.groupOf(key) {
		out = append(out, Effect{Verb: Report, Gang: ref})
	}
	return out
}

// group returns the state of a group, and creates it if it does not exist.
func (b *Book) group(key Ref) *group {
	g := b.groups[key]
	if g == nil {
		g = &group{}
		b.groups[key] = g
	}
	return g
}
