package gang

import "time"

// noteAssumed records that the scheduler counts the member on its node.
func (b *Book) noteAssumed(ev Assumed) []Effect {
	if m := b.memberWithUID(ev.Pod, ev.UID); m != nil {
		b.change(m, func(m *member) { m.assumed = true })
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			b.vacate(g.plan[m.Pod], m.Pod)
			b.advance(g)
			return g.wakeNext()
		}
	}
	return nil
}

// memberWithUID returns the member of that name if its UID matches, else nil; uid "" matches any.
func (b *Book) memberWithUID(pod, uid string) *member {
	if m := b.pods[pod]; m != nil && (uid == "" || m.UID == uid) {
		return m
	}
	return nil
}

// arrive records a member at the barrier, and opens the barrier if all gangs are complete. The first arrival starts the waiting time. A
// member that is deleted, bound or no longer planned is rejected: nothing else would requeue it.
func (b *Book) arrive(ev Held, now time.Time) (out []Effect) {
	m := b.memberWithUID(ev.Pod, ev.UID)
	if m == nil {
		return []Effect{{Verb: Reject, Pod: ev.Pod, UID: ev.UID, Why: "the pod was deleted meanwhile"}}
	}
	if m.Node != "" {
		return []Effect{{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: "it is bound to " + m.Node}}
	}
	key := b.groupKey(m.Gang)
	g := b.group(key)
	if g.unconfirmed || g.plan[m.Pod] == "" { // dropped while the member was on its way
		b.change(m, func(m *member) { m.requeued = true })
		return []Effect{{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: "the plan of its gang was given up"}}
	}
	b.change(m, func(m *member) { m.held = true })
	if g.deadline.IsZero() {
		g.deadline = now.Add(b.waitLimit(key))
	}
	return b.openBarrier(key, m)
}

// openBarrier opens the barrier if it may open, and allows the members at it to bind; else nil. latest is the member that just arrived.
func (b *Book) openBarrier(key Ref, latest *member) (out []Effect) {
	g := b.groups[key]
	if !g.barrierOpen && !b.mayOpen(key) {
		return nil
	}
	g.barrierOpen = true
	for _, m := range b.atBarrier(key, latest) {
		b.change(m, func(m *member) { m.allowed = true })
		out = append(out, Effect{Verb: Allow, Pod: m.Pod, UID: m.UID})
	}
	return out
}

// mayOpen returns whether every gang of the group satisfies its match policy. If constraints count members per domain, all assigned members
// must have arrived: a member past the barrier cannot be called back.
func (b *Book) mayOpen(key Ref) bool {
	hasOptional := false
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.optional() {
			if hasOptional = true; !g.inPlan() {
				continue
			}
		}
		if !b.satisfiesPolicy(ref) {
			return false
		}
	}
	if hasOptional && !b.mayRun(key) {
		return false
	}
	if !b.hasMultiples(key) {
		return true
	}
	n := b.count(key)
	return n.waiting == n.planned
}

// hasMultiples returns whether a topology constraint of the group counts members per domain.
func (b *Book) hasMultiples(key Ref) bool {
	return b.anyGang(key, func(g *gang) bool { return g.spec.Multiples })
}

// unplan removes a pod from its group's plan. wasPlanned says whether the plan contained it.
func (b *Book) unplan(key Ref, pod string) (out []Effect, wasPlanned bool) {
	g := b.groups[key]
	if g == nil || !g.assigns(pod) {
		return nil, false
	}
	b.unassign(g, pod)
	return append([]Effect{{Verb: Freed}}, b.releaseOrphanedFuture(key)...), true
}

// mayViolate returns whether a plan that lost a member may violate a topology constraint, while no member is past the barrier.
func (b *Book) mayViolate(key Ref) bool {
	g := b.groups[key]
	return len(g.plan) > 0 && !g.unconfirmed && !g.barrierOpen && b.hasMultiples(key)
}

// satisfiesPolicy returns whether a gang satisfies its match policy at the barrier.
func (b *Book) satisfiesPolicy(ref Ref) bool {
	g := b.gangs[ref]
	if g == nil || g.spec == nil {
		return false
	}
	switch n := g.counts; g.spec.Policy {
	case OnlyWaiting:
		return n.held >= g.spec.Min || g.allStarted()
	case WaitingAndRunning:
		return n.held+g.started() >= g.spec.Min
	default:
		return g.remainsSatisfied() || n.held+g.started() >= g.spec.Min
	}
}

// release handles a member that lost its node. In a strict gang, all members at the barrier are requeued too. A plan with a reservation is
// kept and confirmed again. After the barrier only a request can fail, so the member keeps its assignment.
func (b *Book) release(ev Released, now time.Time) (out []Effect) {
	m := b.memberWithUID(ev.Pod, ev.UID)
	if m == nil || !m.assumed && !m.held {
		return nil
	}
	blamesNode, failed := !m.requeued, m.allowed
	b.change(m, (*member).detach)
	key := b.groupKey(m.Gang)
	g := b.group(key)
	node, planned := g.plan[m.Pod]
	switch {
	case !planned: // the plan was dropped
		if b.inFlight(key) == 0 && g.retryAt.IsZero() {
			out = b.Review(m.Gang)
		}
		return out
	case g.unconfirmed: // requeued with another member's failure
		b.occupy(node, m.Pod)
		g.rewind(m)
		if rep := b.representative(key); rep != nil && b.inFlight(key) == 0 && g.retryAt.IsZero() {
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
		}
		return out
	case failed && m.keepsAssignment(ev.By):
		b.occupy(node, m.Pod)
		g.rewind(m)
		g.barrierOpen = g.barrierOpen && b.mayStayOpen(key)
		return b.report(key) // the scheduler retries the failed pod
	}
	if !blamesNode {
		node = ""
	}
	if b.gang(m.Gang).nonStrict() && !b.hasMultiples(key) {
		lost, _ := b.unplan(key, m.Pod)
		out = append(b.removeNomination(m.Pod), lost...)
		g.avoidNode(node, ev.Why, now)
		b.retryLater(g, now)
		return append(append(out, b.report(key)...), g.wakeNext()...)
	}
	g.rewind(m)
	return b.dropPlan(Dropped{Group: key, Node: node, Why: ev.Why}, now)
}

// mayStayOpen returns whether the barrier stays open for a member that arrives a second time. Policy OnlyWaiting does not count running
// members, so it cannot be checked again once a member is bound.
func (b *Book) mayStayOpen(key Ref) bool {
	return b.anyGang(key, func(g *gang) bool { return g.spec.Policy == OnlyWaiting && g.counts.bound > 0 })
}

// keepsAssignment counts a failed binding and returns whether the member keeps its assignment. Failures other than API requests, such as
// volume provisioning, are retried a few times.
func (m *member) keepsAssignment(by ObstacleKind) bool {
	if by == API {
		return true
	}
	m.bindFailures++
	return m.bindFailures < lastFailure
}

// inFlight returns how many members the scheduler still counts on a node outside of a confirmed plan. They return to the queue soon.
func (b *Book) inFlight(key Ref) int {
	n := b.count(key)
	if g := b.groups[key]; g == nil || g.unconfirmed || len(g.plan) == 0 {
		return n.assumed
	}
	return n.assumed - n.arrived
}

// rejectHeld rejects all members that wait at the barrier, with reason why.
func (b *Book) rejectHeld(key Ref, why string) (out []Effect) {
	for _, m := range b.atBarrier(key, nil) {
		b.change(m, func(m *member) { m.held, m.requeued = false, true })
		out = append(out, Effect{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: why})
	}
	return out
}

// atBarrier returns the members that wait at the barrier, by rank, gang, name. If only latest waits, it is found without a search.
func (b *Book) atBarrier(key Ref, latest *member) []*member {
	waits := func(m *member) bool { return m.held && !m.allowed }
	switch n := b.count(key).waiting; {
	case n == 0:
		return nil
	case n == 1 && latest != nil && waits(latest):
		return []*member{latest}
	}
	return b.sorted(key, waits)
}
