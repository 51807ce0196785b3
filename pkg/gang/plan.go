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
)

// planned gives the members of a group their places and wakes those that have one.
func (b *Book) planned(ev Planned, now time.Time) []Effect {
	g := b.group(ev.Group)
	for pod := range g.plan {
		b.unplace(g, pod)
	}
	g.plan = make(map[string]string, len(ev.Places))
	g.reserved, g.waiting = ev.Reserved, ev.Reserved
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
	}
	out := b.report(ev.Group)
	if ev.Reserved {
		return out
	}
	return append(out, b.wakePlanned(ev.Group)...)
}

// confirmed carries out a reservation.
func (b *Book) confirmed(key string, now time.Time) []Effect {
	g := b.groups[key]
	if g == nil || !g.waiting {
		return nil
	}
	g.waiting = false
	g.deadline = now.Add(b.patience(key))
	return b.wakePlanned(key)
}

func (b *Book) wakePlanned(key string) (out []Effect) {
	g := b.groups[key]
	for _, m := range b.sorted(key, pending) {
		if _, ok := g.plan[m.Pod]; ok && !m.assumed {
			out = append(out, Effect{Verb: Wake, Pod: m.Pod})
		}
	}
	return out
}

// assumed notes that the scheduler itself counts the member on its node now.
func (b *Book) assumed(pod string) []Effect {
	if m := b.pods[pod]; m != nil {
		m.assumed = true
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			b.vacate(g.plan[pod], pod)
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
	m.held = true
	key := b.groupKey(m.Gang)
	g := b.group(key)
	if g.deadline.IsZero() {
		g.deadline = now.Add(b.patience(key))
	}
	for _, name := range gangsOf(key) {
		if !b.whole(name) {
			return nil
		}
	}
	g.failures = 0
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
	return g.satisfied || waiting+running >= g.spec.Min
}

// released takes a member's node back. Of a strict gang, all that wait at the
// barrier go with it; a plan that victims were evicted for is kept and checked again.
func (b *Book) released(ev Released, now time.Time) (out []Effect) {
	m := b.pods[ev.Pod]
	if m == nil || !m.assumed && !m.held {
		return nil
	}
	m.assumed, m.held, m.allowed = false, false, false
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
	case b.gang(m.Gang).nonStrict():
		b.unplace(g, m.Pod)
		b.later(g, now)
		return b.report(key)
	}
	return b.dropped(key, ev.Why, now)
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

// nodeGone wakes the representatives of groups that have reserved places there: they
// must be planned anew. Members on their way to the node find out by themselves.
func (b *Book) nodeGone(node string) (out []Effect) {
	done := map[string]bool{}
	for _, pod := range b.PlacesOn(node) {
		key := b.groupKey(b.pods[pod].Gang)
		if g := b.groups[key]; g != nil && g.waiting && !done[key] {
			done[key] = true
			out = append(out, Effect{Verb: Wake, Pod: b.representative(key).Pod})
		}
	}
	return out
}

// refused remembers why a group has no plan.
func (b *Book) refused(ev Refused) []Effect {
	g := b.group(ev.Group)
	if g.why == ev.Why {
		return nil
	}
	g.why = ev.Why
	return b.report(ev.Group)
}

// dropped gives a plan up after a failure: who waits at the barrier is rejected, and
// the representative tries again after a while. A reservation keeps its places.
func (b *Book) dropped(key, why string, now time.Time) []Effect {
	g := b.groups[key]
	if g == nil || len(g.plan) == 0 {
		return nil
	}
	out := b.rejectHeld(key, why)
	if g.reserved && g.failures < lastFailure {
		for pod, node := range g.plan {
			if m := b.pods[pod]; m != nil && !m.assumed {
				b.occupy(node, pod)
			}
		}
		g.waiting = true
	} else {
		out = append(out, b.clearPlan(key)...)
	}
	b.later(g, now)
	return append(out, b.report(key)...)
}

// forget gives a plan up for good, reserved or not.
func (b *Book) forget(key, why string) []Effect {
	g := b.groups[key]
	if g == nil {
		return nil
	}
	out := b.rejectHeld(key, why)
	out = append(out, b.clearPlan(key)...)
	return append(out, b.report(key)...)
}

// Forget is the answer to a reservation that can no longer be kept: its nodes are
// gone, or its victims do not leave.
func (b *Book) Forget(key, why string) []Effect { return b.forget(key, why) }

func (b *Book) rejectHeld(key, why string) (out []Effect) {
	for _, m := range b.sorted(key, func(m *member) bool { return m.held && !m.allowed }) {
		m.held = false
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
	g.plan, g.reserved, g.waiting, g.deadline = nil, false, false, time.Time{}
	return out
}

// later sets when the representative tries again.
func (b *Book) later(g *group, now time.Time) {
	g.retry = now.Add(min(firstRetry<<min(g.failures, 10), lastRetry))
	g.failures++
}

// tick ends waits that took too long and wakes those that were told to come later.
func (b *Book) tick(now time.Time) (out []Effect) {
	for _, key := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[key]
		if !g.deadline.IsZero() && !now.Before(g.deadline) {
			out = append(out, b.expire(key)...)
			continue
		}
		if !g.retry.IsZero() && !now.Before(g.retry) {
			g.retry = time.Time{}
			if rep := b.representative(key); rep != nil {
				out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			}
		}
	}
	return out
}

// expire returns every member of a group that waited too long to the queue.
func (b *Book) expire(key string) (out []Effect) {
	g := b.groups[key]
	g.deadline = time.Time{}
	if len(b.sorted(key, func(m *member) bool { return m.held && !m.allowed })) == 0 && len(g.plan) == 0 {
		return nil
	}
	why := "waited " + b.patience(key).String() + " for the gang to be whole"
	if g.waiting {
		why = "the victims did not leave in time"
		out = append(out, Effect{Verb: Overdue, Gang: key})
	}
	for _, name := range gangsOf(key) {
		out = append(out, Effect{Verb: Expire, Gang: name, Why: why})
	}
	out = append(out, b.forget(key, why)...)
	if rep := b.representative(key); rep != nil && b.waitsFor(key) == "" {
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
