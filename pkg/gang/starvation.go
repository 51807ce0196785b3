package gang

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A large group must not be overtaken for ever. One that was refused for as long as
// Book.Starve is starving: of the places that it needs, those that are free now are saved
// for it, and more as they become free, until all are there. In each namespace that is done
// for one group at a time, the first by priority, then creation: a tenant keeps no more from
// the others than one group's places. When saved places have not grown for as long as Starve
// they are given back, and the group waits for twice as long until its next turn.
//
// Besides, places are saved for a moment, and out of turn, for a group for which nobody is evicted yet (Saved.For).

// saved keeps places for the group whose turn it is.
func (b *Book) saved(ev Saved, now time.Time) []Effect {
	if !b.isKey(ev.Group) || b.Saves(ev.Group) == (ev.For > 0) {
		return nil
	}
	g := b.group(ev.Group)
	if len(g.plan) > 0 {
		return nil
	}
	if ev.For > 0 {
		g.until = now.Add(ev.For)
	}
	before := maps.Clone(g.saved)
	b.unsaveAll(g)
	g.saved = make(map[string]string, len(ev.Places))
	for _, p := range ev.Places {
		if m := b.pods[p.Pod]; m != nil && m.Node == "" && !m.assumed && b.groupKey(m.Gang) == ev.Group {
			g.saved[p.Pod] = p.Node
			b.occupy(p.Node, p.Pod)
		}
	}
	if len(g.saved) > len(before) {
		g.grown = now
	}
	for pod, node := range before {
		if g.saved[pod] != node {
			return []Effect{{Verb: Freed}}
		}
	}
	return nil
}

// Saves says whether a group's turn has come to have places saved.
func (b *Book) Saves(group Ref) bool { return b.savers[group.Namespace] == group }

// unsaveAll gives saved places back.
func (b *Book) unsaveAll(g *group) {
	for pod := range g.saved {
		b.unsave(g, pod)
	}
}

func (b *Book) unsave(g *group, pod string) []Effect {
	node, ok := g.saved[pod]
	if !ok {
		return nil
	}
	delete(g.saved, pod)
	b.vacate(node, pod)
	return []Effect{{Verb: Freed}}
}

// fed ends a group's starvation: it has a plan, or nobody waits.
func (b *Book) fed(key Ref, g *group) []Effect {
	g.since, g.vain = time.Time{}, 0
	return b.giveBack(key, g)
}

// giveBack ends the saving of places for a group.
func (b *Book) giveBack(key Ref, g *group) (out []Effect) {
	if len(g.saved) > 0 {
		out = []Effect{{Verb: Freed}}
	}
	b.unsaveAll(g)
	g.grown, g.until, g.saved = time.Time{}, time.Time{}, nil
	if b.savers[key.Namespace] == key {
		delete(b.savers, key.Namespace)
	}
	return out
}

// patienceOf is how long a group is refused before it starves: twice as long each time that
// places were saved in vain.
func (b *Book) patienceOf(g *group) time.Duration { return b.Starve << min(g.vain, 10) }

// feed ends the saving for groups whose places stand still, and lets the next ones begin.
func (b *Book) feed(now time.Time) (out []Effect) {
	if b.Starve <= 0 {
		return nil
	}
	for _, namespace := range slices.Sorted(maps.Keys(b.savers)) {
		key := b.savers[namespace]
		switch g := b.groups[key]; {
		case g == nil:
			delete(b.savers, namespace)
		case !now.Before(g.grown.Add(b.Starve)):
			out = append(out, b.giveBack(key, g)...)
			g.since = now // the end of the line
			g.vain++
			out = append(out, b.report(key)...)
		}
	}
	next := b.mostStarved(now)
	for _, namespace := range slices.Sorted(maps.Keys(next)) {
		key := next[namespace].key
		b.savers[namespace], b.groups[key].grown, b.groups[key].until = key, now, time.Time{}
		out = append(out, Effect{Verb: Wake, Pod: b.representative(key).Pod})
	}
	return out
}

// starving is a group that was refused for long enough to have places saved.
type starving struct {
	key      Ref
	priority int32
	created  time.Time
}

// compare says which of two groups is served first: higher priority, then created first.
func (s starving) compare(o starving, names ordering) int {
	return cmp.Or(cmp.Compare(o.priority, s.priority), s.created.Compare(o.created), names.refs(s.key, o.key))
}

// mostStarved are, by namespace, the starving groups whose turn is next, where places are saved
// for none.
func (b *Book) mostStarved(now time.Time) map[string]starving {
	first := map[string]starving{}
	for key, g := range b.groups {
		if g.since.IsZero() || now.Before(g.since.Add(b.patienceOf(g))) || len(g.plan) > 0 || !b.savers[key.Namespace].IsZero() {
			continue
		}
		if b.representative(key) == nil || b.waitsFor(key).Is() {
			continue
		}
		s := starving{key, b.priority(key), b.created(key)}
		if other, ok := first[key.Namespace]; !ok || s.compare(other, b.names) < 0 {
			first[key.Namespace] = s
		}
	}
	return first
}

// priority is the lowest of a group's pending members.
func (b *Book) priority(key Ref) (least int32) {
	any := false
	for _, ref := range b.groupOf(key) {
		g := b.gangs[ref]
		if g == nil {
			continue
		}
		for _, m := range g.pending.members {
			if !any || m.Priority < least {
				any, least = true, m.Priority
			}
		}
	}
	return least
}

// created is when the first of a group's gangs was.
func (b *Book) created(key Ref) (first time.Time) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.spec != nil && (first.IsZero() || g.spec.Created.Before(first)) {
			first = g.spec.Created
		}
	}
	return first
}
