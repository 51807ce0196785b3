package gang

import "time"

// assumed notes that the scheduler itself counts the member on its node now.
func (b *Book) assumed(pod string) []Effect {
	if m := b.pods[pod]; m != nil {
		b.change(m, func(m *member) { m.assumed = true })
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			b.vacate(g.plan[pod], pod)
			b.advance(g)
			return g.wakeNext()
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
	b.change(m, func(m *member) { m.held = true })
	if g.deadline.IsZero() {
		g.deadline = now.Add(b.patience(key))
	}
	for _, name := range gangsOf(key) {
		if !b.whole(name) && !g.opened {
			return nil
		}
	}
	g.opened = true
	for _, m := range b.atBarrier(key, m) {
		b.change(m, func(m *member) { m.allowed = true })
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
	switch n := g.counts; g.spec.Policy {
	case OnlyWaiting:
		return n.held >= g.spec.Min
	case WaitingAndRunning:
		return n.held+n.bound >= g.spec.Min
	default:
		return g.stays() || n.held+n.bound >= g.spec.Min
	}
}

// released takes a member's node back. Of a strict gang, all that wait at the
// barrier go with it; a plan that victims were evicted for is kept and checked again.
func (b *Book) released(ev Released, now time.Time) (out []Effect) {
	m := b.pods[ev.Pod]
	if m == nil || !m.assumed && !m.held {
		return nil
	}
	fault := !m.back
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
	}
	if !fault {
		node = ""
	}
	if b.gang(m.Gang).nonStrict() {
		b.unplace(g, m.Pod)
		g.refusedBy(node, ev.Why, now)
		b.later(g, now)
		return append(b.report(key), g.wakeNext()...)
	}
	g.goBack(m)
	return b.dropped(Dropped{Group: key, Node: node, Why: ev.Why}, now)
}

// inFlight counts the pending members that the scheduler counts on a node although
// no plan that is being carried out puts them there: they are on their way back to
// the queue.
func (b *Book) inFlight(key string) int {
	n := b.count(key)
	if g := b.groups[key]; g == nil || g.waiting || len(g.plan) == 0 {
		return n.assumed
	}
	return n.assumed - n.arrived
}

func (b *Book) rejectHeld(key, why string) (out []Effect) {
	for _, m := range b.atBarrier(key, nil) {
		b.change(m, func(m *member) { m.held, m.back = false, true })
		out = append(out, Effect{Verb: Reject, Pod: m.Pod, Why: why})
	}
	return out
}

// atBarrier returns those that are held and may not bind yet, by rank, gang, name. Once
// the barrier is open there is only the latest, who comes alone: it is not sought among all.
func (b *Book) atBarrier(key string, latest *member) []*member {
	waits := func(m *member) bool { return m.held && !m.allowed }
	switch n := b.count(key).waiting; {
	case n == 0:
		return nil
	case n == 1 && latest != nil && waits(latest):
		return []*member{latest}
	}
	return b.sorted(key, waits)
}
