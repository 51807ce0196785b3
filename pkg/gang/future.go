package gang

import (
	"maps"
	"slices"
	"time"
)

// Some controllers create the members of a gang only when its leader has a node or is ready. So the leader's plan covers all members, and
// nodes are reserved for the future ones (Planned.Future). Nodes are also reserved for the missing members of an incomplete gang, until
// their controller recreates them (Missing). Members of the group and preemptors of higher priority may use these nodes. The reservation
// ends when the group is planned again, when no member runs or none is missing, or when its time is over.
//
// Before running pods are evicted so that they start elsewhere, nodes are reserved for their successors (FutureReserved.Successors). This
// reservation survives the last running member. It ends when a member of higher priority gets one of the nodes, when the group is planned
// again, or when its time is over.

// futureReservation is the nodes that are reserved for members that do not exist yet.
type futureReservation struct {
	nodes   map[string]string // by placeholder name
	until   time.Time
	missing bool // the members existed and were lost
	// successors says that the members run elsewhere and are evicted. lost says that another group has taken a node of theirs.
	successors, lost bool
	priority         int32 // of successors, the lowest
}

// Missing returns how many lost members of an incomplete gang do not exist: it was complete, members run, and fewer than minMember exist.
// It returns 0 for other gangs, and while the gang is being evicted.
func (b *Book) Missing(ref Ref) int {
	if g := b.gangs[ref]; g != nil && !b.terminating(g.key) {
		return g.missing()
	}
	return 0
}

// missing is Book.Missing for a gang that may be in eviction.
func (g *gang) missing() int {
	if !g.incomplete() {
		return 0
	}
	return max(0, g.whole()-g.counts.exist-g.absentSucceeded())
}

// missingInGroup returns how many members the group's incomplete gangs lack.
func (b *Book) missingInGroup(key Ref) (n int) {
	for _, ref := range b.groupOf(key) {
		n += b.Missing(ref)
	}
	return n
}

// reserveFuture replaces the group's reservation for future members.
func (b *Book) reserveFuture(key Ref, places []Assignment, until time.Time) (out []Effect) {
	out = b.releaseFuture(key)
	if g := b.groups[key]; g != nil {
		for pod := range g.heldNodes {
			if b.IsPlaceholder(pod) { // the reservation replaces the hold for future members
				out = append(out, b.releaseNodeHold(g, pod)...)
			}
		}
	}
	if len(places) == 0 {
		return out
	}
	a := &futureReservation{nodes: make(map[string]string, len(places)), until: until, missing: b.missingInGroup(key) > 0}
	for _, p := range places {
		if b.pods[p.Pod] != nil || a.nodes[p.Pod] != "" {
			continue
		}
		a.nodes[p.Pod] = p.Node
		b.placeholders[p.Pod] = key
		b.occupy(p.Node, p.Pod)
	}
	b.futures[key] = a
	return out
}

// futureLimit returns until when nodes are reserved for the future members of a group that is planned now.
func (b *Book) futureLimit(key Ref, now time.Time) time.Time {
	if b.missingInGroup(key) > 0 {
		return b.repairUntil(key)
	}
	return now.Add(b.waitLimit(key))
}

// addFuture reserves nodes for members that do not exist, if a member has a node and the group has no plan. It replaces the nodes that are
// reserved for missing members, and leaves other reservations as they are.
func (b *Book) addFuture(ev FutureReserved) []Effect {
	g, old := b.groups[ev.Group], b.futures[ev.Group]
	if ev.Successors {
		return b.reserveSuccessors(ev, g)
	}
	if !b.isKey(ev.Group) || old != nil && !old.missing || b.terminating(ev.Group) || g != nil && len(g.plan) > 0 ||
		!b.hasBoundMember(ev.Group) {
		return nil
	}
	if ev.Refusal.Exists() {
		return append(b.releaseFuture(ev.Group), b.refuseFuture(ev.Group, ev.Refusal)...)
	}
	return append(b.reserveFuture(ev.Group, ev.Places, ev.Until), b.refuseFuture(ev.Group, Obstacle{})...)
}

// hasBoundMember returns whether a member of the group has a node.
func (b *Book) hasBoundMember(key Ref) bool {
	return slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool { g := b.gangs[ref]; return g != nil && g.counts.bound > 0 })
}

// reserveSuccessors replaces the group's reservation by one for successors. It changes nothing for a group that has a plan or is being
// evicted. The group may be one that the book does not know: a pod without a gang.
func (b *Book) reserveSuccessors(ev FutureReserved, g *group) []Effect {
	if len(ev.Places) > 0 && (b.terminating(ev.Group) || g != nil && len(g.plan) > 0) {
		return nil
	}
	out := b.reserveFuture(ev.Group, ev.Places, ev.Until)
	if a := b.futures[ev.Group]; a != nil {
		a.missing, a.successors, a.priority = false, true, ev.Priority
	}
	return out
}

// IsPlaceholder returns whether a node is reserved for a placeholder of this name.
func (b *Book) IsPlaceholder(pod string) bool { _, ok := b.placeholders[pod]; return ok }

// loseSuccessors marks other groups' reservations for successors as lost if they use the node that the member m gets, and m has a higher
// priority. Members of other priority get the node only if they fit beside the successors.
func (b *Book) loseSuccessors(m *member, node string) {
	for key, a := range b.futures {
		if a.successors && a.priority < m.Priority && key != b.groupKey(m.Gang) {
			for _, reserved := range a.nodes {
				a.lost = a.lost || reserved == node
			}
		}
	}
}

// ReservesFuture returns whether nodes are reserved for future members of the group, and no other group has taken them.
func (b *Book) ReservesFuture(key Ref) bool { a := b.futures[key]; return a != nil && !a.lost }

// SuccessorNodes returns the nodes that are reserved for successors of the group, in no order; nil if there are none.
func (b *Book) SuccessorNodes(key Ref) []string {
	if a := b.futures[key]; a != nil && a.successors {
		return slices.Collect(maps.Values(a.nodes))
	}
	return nil
}

// releaseFuture ends the reservation for future members.
func (b *Book) releaseFuture(key Ref) []Effect {
	a := b.futures[key]
	if a == nil {
		return nil
	}
	delete(b.futures, key)
	for _, pod := range slices.Sorted(maps.Keys(a.nodes)) {
		delete(b.placeholders, pod)
		b.vacate(a.nodes[pod], pod)
	}
	return []Effect{{Verb: Freed}}
}

// releaseOrphanedFuture ends the reservation of a group that has neither a bound member nor a plan, except for successors. It also ends the
// reservation for missing members when none is missing and all existing members are bound.
func (b *Book) releaseOrphanedFuture(key Ref) []Effect {
	a := b.futures[key]
	if a == nil || a.successors {
		return nil
	}
	if n := b.count(key); a.missing && n.exist == n.bound && b.missingInGroup(key) == 0 {
		return b.releaseFuture(key)
	}
	if b.hasBoundMember(key) {
		return nil
	}
	if g := b.groups[key]; g != nil && len(g.plan) > 0 {
		return nil
	}
	return b.releaseFuture(key)
}

// expireFuture ends the reservations whose time is over.
func (b *Book) expireFuture(now time.Time) (out []Effect) {
	var expired []Ref
	for key, a := range b.futures {
		if passed(a.until, now) {
			expired = append(expired, key)
		}
	}
	slices.SortFunc(expired, b.names.refs)
	for _, key := range expired {
		out = append(out, b.releaseFuture(key)...)
	}
	return out
}
