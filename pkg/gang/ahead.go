package gang

import (
	"maps"
	"slices"
	"time"
)

// Some controllers make the members of a gang only once its first one, the leader, has a node or is
// ready. The leader must not go where the others will find no room: its plan is one for all of
// them, and the places of those who are still to come are kept for the group, as Planned.Ahead.
// They are places like others, on which members of the group may go, and more important pods. They
// are given back when the group is planned anew, when nobody of it is left, and when those who
// were to come did not come in time.

// ahead is places that are kept for members that do not exist yet.
type ahead struct {
	places map[string]string // by the name of a stand-in
	until  time.Time
}

// keepAhead keeps places for a group in place of those that were kept before.
func (b *Book) keepAhead(key Ref, places []Place, until time.Time) (out []Effect) {
	out = b.endAhead(key)
	if len(places) == 0 {
		return out
	}
	a := &ahead{places: make(map[string]string, len(places)), until: until}
	for _, p := range places {
		if b.pods[p.Pod] != nil || a.places[p.Pod] != "" {
			continue
		}
		a.places[p.Pod] = p.Node
		b.standIns[p.Pod] = key
		b.occupy(p.Node, p.Pod)
	}
	b.ahead[key] = a
	return out
}

// keptAhead keeps places again that another process has kept: if a member has a node, and nothing was planned
// since.
func (b *Book) keptAhead(ev KeptAhead) []Effect {
	if g := b.groups[ev.Group]; !b.isKey(ev.Group) || b.ahead[ev.Group] != nil || b.leaves(ev.Group) || g != nil && len(g.plan) > 0 || !b.anyBound(ev.Group) {
		return nil
	}
	return b.keepAhead(ev.Group, ev.Places, ev.Until)
}

// anyBound says whether a member of a group has a node.
func (b *Book) anyBound(key Ref) bool {
	return slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool { g := b.gangs[ref]; return g != nil && g.counts.bound > 0 })
}

// KeepsAhead says whether places are kept for members of a group that are still to be made.
func (b *Book) KeepsAhead(key Ref) bool { return b.ahead[key] != nil }

// endAhead gives the places back.
func (b *Book) endAhead(key Ref) []Effect {
	a := b.ahead[key]
	if a == nil {
		return nil
	}
	delete(b.ahead, key)
	for _, pod := range slices.Sorted(maps.Keys(a.places)) {
		delete(b.standIns, pod)
		b.vacate(a.places[pod], pod)
	}
	return []Effect{{Verb: Freed}}
}

// endAheadOfNobody gives the places back of a group that has no member on a node, or on its way
// to one.
func (b *Book) endAheadOfNobody(key Ref) []Effect {
	if b.ahead[key] == nil || b.anyBound(key) {
		return nil
	}
	if g := b.groups[key]; g != nil && len(g.plan) > 0 {
		return nil
	}
	return b.endAhead(key)
}

// lateAhead gives the places back of those who did not come in time.
func (b *Book) lateAhead(now time.Time) (out []Effect) {
	var late []Ref
	for key, a := range b.ahead {
		if passed(a.until, now) {
			late = append(late, key)
		}
	}
	slices.SortFunc(late, b.names.refs)
	for _, key := range late {
		out = append(out, b.endAhead(key)...)
	}
	return out
}

// groupKeyOf is the key of the group of a member, or of who stands in for one.
func (b *Book) groupKeyOf(pod string) (Ref, bool) {
	if m := b.pods[pod]; m != nil {
		return b.groupKey(m.Gang), true
	}
	key, ok := b.standIns[pod]
	return key, ok
}
