package gang

import "time"

// assumed notes that the scheduler itself counts the member on its node now.
func (b *Book) assumed(ev Assumed) []Effect {
	if m := b.known(ev.Pod, ev.UID); m != nil {
		b.change(m, func(m *member) { m.assumed = true })
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			b.vacate(g.plan[m.Pod], m.Pod)
			b.advance(g)
			return g.wakeNext()
		}
	}
	return nil
}

// known is the member of that name, if it is that pod; "" is any.
func (b *Book) known(pod, uid string) *member {
	if m := b.pods[pod]; m != nil && (uid == "" || m.UID == uid) {
		return m
	}
	return nil
}

// held brings a member to the barrier and opens it when every gang is whole. One that is gone
// must not wait there: nobody would send it back, and it would keep its node.
func (b *Book) held(ev Held, now time.Time) (out []Effect) {
	m := b.known(ev.Pod, ev.UID)
	if m == nil {
		return []Effect{{Verb: Reject, Pod: ev.Pod, UID: ev.UID, Why: "the pod was deleted meanwhile"}}
	}
	if m.Node != "" {
		return []Effect{{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: "it is bound to " + m.Node}}
	}
	key := b.groupKey(m.Gang)
	g := b.group(key)
	if g.waiting || g.plan[m.Pod] == "" { // given up while the member was on its way
		b.change(m, func(m *member) { m.back = true })
		return []Effect{{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: "the plan of its gang was given up"}}
	}
	b.change(m, func(m *member) { m.held = true })
	if g.deadline.IsZero() {
		g.deadline = now.Add(b.patience(key))
	}
	return b.open(key, m)
}

// open lets those go that are at the barrier, if it opens now; the latest is the one who has
// just come.
func (b *Book) open(key Ref, latest *member) (out []Effect) {
	g := b.groups[key]
	if !g.opened && !b.mayOpen(key) {
		return nil
	}
	g.opened = true
	for _, m := range b.atBarrier(key, latest) {
		b.change(m, func(m *member) { m.allowed = true })
		out = append(out, Effect{Verb: Allow, Pod: m.Pod, UID: m.UID})
	}
	return out
}

// mayOpen says whether every gang of a group is whole. Where it matters how many go where, all
// that have a place must have come: who goes cannot be called back if another one does not.
func (b *Book) mayOpen(key Ref) bool {
	some := false
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.optional() {
			if some = true; !g.inPlan() {
				continue
			}
		}
		if !b.whole(ref) {
			return false
		}
	}
	if some && !b.mayRun(key) {
		return false
	}
	if !b.multiples(key) {
		return true
	}
	n := b.count(key)
	return n.waiting == n.planned
}

// multiples says whether the rules of a group are about how many members are where.
func (b *Book) multiples(key Ref) bool {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.spec != nil && g.spec.Multiples {
			return true
		}
	}
	return false
}

// lose takes a member out of the plan of its group, and says whether the plan had a place for it.
func (b *Book) lose(key Ref, pod string) (out []Effect, had bool) {
	g := b.groups[key]
	if g == nil || !g.has(pod) {
		return nil, false
	}
	b.unplace(g, pod)
	return append([]Effect{{Verb: Freed}}, b.endAheadOfNobody(key)...), true
}

// mayBreak says whether a plan that has just lost a member may break the rules of its group. Members that may bind
// already cannot be called back.
func (b *Book) mayBreak(key Ref) bool {
	g := b.groups[key]
	return len(g.plan) > 0 && !g.waiting && !g.opened && b.multiples(key)
}

// whole says whether a gang satisfies its match policy at the barrier.
func (b *Book) whole(ref Ref) bool {
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
		return g.stays() || n.held+g.started() >= g.spec.Min
	}
}

// released takes a member's node back. Of a strict gang, all that wait at the
// barrier go with it; a plan that victims were evicted for is kept and checked again.
// After the barrier nothing more is asked of the node: what has failed there is a request,
// and the member tries the same place again.
func (b *Book) released(ev Released, now time.Time) (out []Effect) {
	m := b.known(ev.Pod, ev.UID)
	if m == nil || !m.assumed && !m.held {
		return nil
	}
	fault, failed := !m.back, m.allowed
	b.change(m, (*member).free)
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
		g.goBack(m)
		if rep := b.representative(key); rep != nil && b.inFlight(key) == 0 && g.retry.IsZero() {
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
		}
		return out
	case failed && m.again(ev.By):
		b.occupy(node, m.Pod)
		g.goBack(m)
		g.opened = g.opened && b.mayStayOpen(key)
		return b.report(key) // the scheduler tries whoever failed again by itself
	}
	if !fault {
		node = ""
	}
	if b.gang(m.Gang).nonStrict() && !b.multiples(key) {
		lost, _ := b.lose(key, m.Pod)
		out = append(b.denominate(m.Pod), lost...)
		g.refusedBy(node, ev.Why, now)
		b.later(g, now)
		return append(append(out, b.report(key)...), g.wakeNext()...)
	}
	g.goBack(m)
	return b.dropped(Dropped{Group: key, Node: node, Why: ev.Why}, now)
}

// mayStayOpen says whether the barrier is open to a member that comes a second time, whoever
// else is there: the others may have failed, too, so that it would go alone. Gangs whose match
// policy does not count running members cannot be asked whether they are whole any more.
func (b *Book) mayStayOpen(key Ref) bool {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.spec != nil && g.spec.Policy == OnlyWaiting && g.counts.bound > 0 {
			return true
		}
	}
	return false
}

// again notes that a member was not bound, and says whether it keeps its place. If more
// than a request can have failed (a volume that cannot be made on that node), it does so a
// few times.
func (m *member) again(by Refuser) bool {
	if by == API {
		return true
	}
	m.failed++
	return m.failed < lastFailure
}

// inFlight counts the pending members that the scheduler counts on a node although
// no plan that is being carried out puts them there: they are on their way back to
// the queue.
func (b *Book) inFlight(key Ref) int {
	n := b.count(key)
	if g := b.groups[key]; g == nil || g.waiting || len(g.plan) == 0 {
		return n.assumed
	}
	return n.assumed - n.arrived
}

func (b *Book) rejectHeld(key Ref, why string) (out []Effect) {
	for _, m := range b.atBarrier(key, nil) {
		b.change(m, func(m *member) { m.held, m.back = false, true })
		out = append(out, Effect{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: why})
	}
	return out
}

// atBarrier returns those that are held and may not bind yet, by rank, gang, name. Once
// the barrier is open there is only the latest, who comes alone: it is not sought among all.
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
