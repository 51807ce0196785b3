package gang

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A large group must not be overtaken for ever. A group that was unschedulable for Book.Starve is starving: free capacity is held for it
// until it is enough. Its start may be promised (Promise); the held nodes may then still be in use. Each namespace holds capacity for one
// group at a time, first by priority, then by creation. So a tenant holds at most the capacity of one group. A hold that does not grow for
// Starve ends, and the group waits twice as long for its next turn. A hold also ends for a starving group of higher priority, and when no
// free capacity would help its group. While its quota stops the group, no nodes are held, unless the quota admits the group when its
// promised start comes. Surplus members have no turn.
//
// A short hold, out of turn, exists for a group that delays its eviction for a moment (CapacityHeld.For).

// hold replaces the nodes on which capacity is held for a group, and returns Freed if a held node is released. It changes nothing if the
// group has a plan, or if it is not the group's turn. A short hold (For > 0) needs no turn.
func (b *Book) hold(ev CapacityHeld, now time.Time) []Effect {
	if !b.isKey(ev.Group) || b.HoldsCapacity(ev.Group) == (ev.For > 0) {
		return nil
	}
	g := b.group(ev.Group)
	if len(g.plan) > 0 {
		return nil
	}
	if ev.For > 0 {
		g.holdUntil = now.Add(ev.For)
	}
	before := maps.Clone(g.heldNodes)
	b.releaseNodeHolds(g)
	g.heldNodes = make(map[string]string, len(ev.Places))
	for _, p := range ev.Places {
		switch m := b.pods[p.Pod]; {
		case m != nil && m.Node == "" && !m.assumed && b.groupKey(m.Gang) == ev.Group:
		case m == nil && b.futures[ev.Group] == nil && !b.IsPlaceholder(p.Pod): // it does not exist yet
			b.placeholders[p.Pod] = ev.Group
		default:
			continue
		}
		g.heldNodes[p.Pod] = p.Node
		b.occupy(p.Node, p.Pod)
	}
	if len(g.heldNodes) > len(before) || ev.Ending {
		g.holdGrown = now
	}
	var out []Effect
	if ev.For == 0 {
		out = b.setPromise(ev.Group, g, ev.Promise, now)
	}
	for pod, node := range before {
		if g.heldNodes[pod] != node {
			return append(out, Effect{Verb: Freed})
		}
	}
	return out
}

// HoldsCapacity returns whether it is the group's turn to hold capacity.
func (b *Book) HoldsCapacity(group Ref) bool { return b.holders[group.Namespace] == group }

// HeldByOthers returns the nodes on which capacity is held for other starving groups, by pod.
func (b *Book) HeldByOthers(group Ref) map[string]string {
	all := map[string]string{}
	for _, key := range b.holders {
		if g := b.groups[key]; g != nil && key != group {
			maps.Copy(all, g.heldNodes)
		}
	}
	return all
}

// HeldNodes returns the nodes on which capacity is held for starving groups.
func (b *Book) HeldNodes() map[string]bool {
	nodes := map[string]bool{}
	for _, key := range b.holders {
		if g := b.groups[key]; g != nil {
			for _, node := range g.heldNodes {
				nodes[node] = true
			}
		}
	}
	return nodes
}

// releaseNodeHolds releases all held nodes of a group.
func (b *Book) releaseNodeHolds(g *group) {
	for pod := range g.heldNodes {
		b.releaseNodeHold(g, pod)
	}
}

// releaseNodeHold releases the node that is held for a member and returns Freed; nil if there is none.
func (b *Book) releaseNodeHold(g *group, pod string) []Effect {
	node, ok := g.heldNodes[pod]
	if !ok {
		return nil
	}
	delete(g.heldNodes, pod)
	delete(b.placeholders, pod)
	b.vacate(node, pod)
	return []Effect{{Verb: Freed}}
}

// endStarvation ends the starvation of a group that has a plan or no waiting members.
func (b *Book) endStarvation(key Ref, g *group) []Effect {
	g.unschedulableSince, g.firstRefusal, g.vainHolds = time.Time{}, time.Time{}, 0
	return b.releaseHold(key, g)
}

// releaseHold ends the capacity hold of a group, and its turn. It returns Freed if nodes were held.
func (b *Book) releaseHold(key Ref, g *group) (out []Effect) {
	if len(g.heldNodes) > 0 {
		out = []Effect{{Verb: Freed}}
	}
	b.releaseNodeHolds(g)
	g.holdGrown, g.holdUntil, g.heldNodes = time.Time{}, time.Time{}, nil
	if g.promise != (Promise{}) {
		g.promise, g.tryAt = Promise{}, time.Time{}
		out = append(out, b.report(key)...)
	}
	if b.holders[key.Namespace] == key {
		delete(b.holders, key.Namespace)
	}
	return out
}

// starvationDelay returns how long a group must be unschedulable before it is starving. It doubles with each vain hold.
func (b *Book) starvationDelay(g *group) time.Duration { return b.Starve << min(g.vainHolds, 10) }

// rotateHolds ends each capacity hold that did not grow for Starve, that does not help its group any more, or that is turned off.
// It also ends promises that are turned off. Then it starts the next group of each namespace.
func (b *Book) rotateHolds(now time.Time) (out []Effect) {
	for _, namespace := range slices.Sorted(maps.Keys(b.holders)) {
		key := b.holders[namespace]
		switch g := b.groups[key]; {
		case g == nil:
			delete(b.holders, namespace)
		case b.Starve <= 0 || !b.capacityHelps(key):
			out = append(out, b.releaseHold(key, g)...)
		case g.refusal.By == Quota && !g.refusal.KeepsPromise && (len(g.heldNodes) > 0 || g.promise.Exists()):
			// It keeps its turn: its quota is held for it.
			out = append(out, b.releaseHold(key, g)...)
			b.holders[namespace], g.holdGrown = key, now
		case g.promise.Exists() && b.Promises <= 0:
			out = append(out, b.setPromise(key, g, Promise{}, now)...)
		case !now.Before(later(g.holdGrown, g.promise.At).Add(b.Starve)):
			out = append(out, b.releaseHold(key, g)...)
			g.unschedulableSince = now // the end of the queue
			g.vainHolds++
			out = append(out, b.report(key)...)
		}
	}
	if b.Starve <= 0 {
		return out
	}
	next := b.mostStarved(now)
	for _, namespace := range slices.Sorted(maps.Keys(next)) {
		key := next[namespace].key
		if holder := b.holders[namespace]; !holder.IsZero() {
			out = append(out, b.passTurn(holder, key, now)...)
		}
		b.holders[namespace] = key
		b.groups[key].holdGrown = now
		b.groups[key].holdUntil = time.Time{}
		out = append(out, Effect{Verb: Wake, Pod: b.representative(key).Pod})
	}
	return out
}

// passTurn ends the hold of a group for a group of higher priority. A promise ends with that cause.
func (b *Book) passTurn(holder, to Ref, now time.Time) []Effect {
	g := b.groups[holder]
	promised := g.promise.Exists()
	out := b.releaseHold(holder, g)
	if promised {
		cause := "capacity is held for gang " + to.String() + " of higher priority"
		out = append(out, b.setPromise(holder, g, Promise{Cause: cause, Kind: BrokenPriority}, now)...)
	}
	return out
}

// capacityHelps returns whether free nodes or a free quota would help the group to start, by its last refusal. They do not if minMember
// members of each of its gangs have started.
func (b *Book) capacityHelps(key Ref) bool {
	refusal := b.groups[key].refusal
	return refusal.By != Veto && !refusal.NeverEvictable && slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool {
		g := b.gangs[ref]
		return g != nil && g.spec != nil && g.started() < g.spec.Min
	})
}

// later returns the later one of two times.
func later(x, y time.Time) time.Time {
	if y.After(x) {
		return y
	}
	return x
}

// starving is a starving group.
type starving struct {
	key      Ref
	priority int32
	created  time.Time
}

// compare returns a negative number if s precedes o: by priority, highest first, then by creation.
func (s starving) compare(o starving, names ordering) int {
	return cmp.Or(cmp.Compare(o.priority, s.priority), s.created.Compare(o.created), names.refs(s.key, o.key))
}

// mostStarved returns, for each namespace, the starving group that is next: the first one if no group holds capacity, else the first one of
// higher priority than the holder.
func (b *Book) mostStarved(now time.Time) map[string]starving {
	first, held := map[string]starving{}, map[string]int32{} // by namespace: held is the holder's priority
	for namespace, holder := range b.holders {
		held[namespace] = b.priority(holder)
	}
	for key, g := range b.groups {
		starves := !g.unschedulableSince.IsZero() && !now.Before(g.unschedulableSince.Add(b.starvationDelay(g))) && b.capacityHelps(key)
		if !starves || len(g.plan) > 0 {
			continue
		}
		if b.representative(key) == nil || b.obstacle(key).Exists() {
			continue
		}
		s := starving{key, b.priority(key), b.created(key)}
		if priority, taken := held[key.Namespace]; taken && priority >= s.priority {
			continue
		}
		if other, ok := first[key.Namespace]; !ok || s.compare(other, b.names) < 0 {
			first[key.Namespace] = s
		}
	}
	return first
}

// priority returns the lowest priority of the group's pending members.
func (b *Book) priority(key Ref) (lowest int32) {
	found := false
	for _, ref := range b.groupOf(key) {
		g := b.gangs[ref]
		if g == nil {
			continue
		}
		for _, m := range g.pending.members {
			if !found || m.Priority < lowest {
				found, lowest = true, m.Priority
			}
		}
	}
	return lowest
}

// created returns the creation time of the group's oldest gang.
func (b *Book) created(key Ref) time.Time {
	first, _ := b.Created(key)
	return first
}

// Created returns the creation times of the oldest and of the youngest gang of ref's group; zero if none is declared.
func (b *Book) Created(ref Ref) (first, last time.Time) {
	for _, ref := range b.groupOf(ref) {
		g := b.gangs[ref]
		if g == nil || g.spec == nil {
			continue
		}
		created := g.spec.Created
		if first.IsZero() || created.Before(first) {
			first = created
		}
		if created.After(last) {
			last = created
		}
	}
	return first, last
}
