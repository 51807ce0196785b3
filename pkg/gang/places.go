package gang

import (
	"iter"
	"maps"
	"slices"
)

// place gives a member a place in its group's plan.
func (b *Book) place(g *group, m *member, node string) {
	g.plan[m.Pod], m.failed = node, 0
	b.given++
	m.given = b.given
	m.goesTo(node)
	b.occupy(node, m.Pod)
	b.change(m, b.notePlace)
}

// unplace takes a member out of the plan.
func (b *Book) unplace(g *group, pod string) {
	b.vacate(g.plan[pod], pod)
	delete(g.plan, pod)
	if m := b.pods[pod]; m != nil && m.planned {
		b.change(m, b.notePlace)
	}
	b.advance(g)
}

// notePlace notes whether the plan of a member's group has a place for it.
func (b *Book) notePlace(m *member) {
	g := b.groups[b.groupKey(m.Gang)]
	m.planned = g != nil && g.has(m.Pod)
}

func (g *group) has(pod string) bool {
	_, ok := g.plan[pod]
	return ok
}

// occupy notes a place that the scheduler itself does not count yet.
func (b *Book) occupy(node, pod string) {
	on := b.places[node]
	if i, found := slices.BinarySearchFunc(on, pod, b.names); !found {
		b.places[node] = slices.Insert(on, i, pod)
	}
}

func (b *Book) vacate(node, pod string) {
	on := b.places[node]
	i, found := slices.BinarySearchFunc(on, pod, b.names)
	if !found {
		return
	}
	if on = slices.Delete(on, i, i+1); len(on) == 0 {
		delete(b.places, node)
		return
	}
	b.places[node] = on
}

// Seat is a member's place in the plan of its group.
type Seat struct {
	Node      string // "" if it has none
	Confirmed bool   // the plan may be carried out
	After     string // where members enter in turn, which member it waits for
}

// Seat returns the place of a member.
func (b *Book) Seat(pod string) (seat Seat) {
	if m := b.pods[pod]; m != nil {
		if g := b.groups[b.groupKey(m.Gang)]; g != nil {
			_, after := g.lets(m)
			return Seat{g.plan[pod], !g.waiting, after}
		}
	}
	return Seat{}
}

// Place returns the node that a pod has a place on, and whether the plan may be
// carried out.
func (b *Book) Place(pod string) (node string, confirmed bool) {
	seat := b.Seat(pod)
	return seat.Node, seat.Confirmed
}

// Has says whether a member has a place in a plan, or a node, as far as the book knows.
func (b *Book) Has(pod string) bool {
	m := b.pods[pod]
	return m != nil && m.has()
}

// ReservedAfter says whether a pod's place waits for victims to leave, and was reserved when another one, whose
// plan is carried out, had its own: that one was counted then, and need not wait for the victims.
func (b *Book) ReservedAfter(pod, other string) bool {
	m, o := b.pods[pod], b.pods[other]
	return m != nil && o != nil && m.planned && o.planned && m.given > o.given &&
		b.groups[b.groupKey(m.Gang)].waiting && !b.groups[b.groupKey(o.Gang)].waiting
}

// mostOlder bounds how many nodes are remembered on which a member had places before the last.
const mostOlder = 8

// goesTo notes where a member has a place now.
func (m *member) goesTo(node string) {
	if m.last != "" && m.last != node {
		if m.older = append(m.older, m.last); len(m.older) > mostOlder {
			m.older = m.older[1:]
		}
	}
	m.last = node
}

// HadPlace says whether a pod has a place on a node, or had one: what was written of that may
// be seen, or read by the scheduler, a plan later.
func (b *Book) HadPlace(pod, node string) bool {
	m := b.pods[pod]
	return m != nil && (m.last == node || slices.Contains(m.older, node))
}

// PlacesOn returns the pods that have a place on a node and are not counted there
// by the scheduler yet, by name. They are the book's own, and so until the next event.
func (b *Book) PlacesOn(node string) []string { return b.places[node] }

// ReservedPlaces are the places, by pod, of plans that victims were evicted for, as long as the
// scheduler does not count the pod there: nobody may take them who could do without, whatever
// the priorities. They come by group and pod.
func (b *Book) ReservedPlaces() iter.Seq2[string, string] {
	return func(yield func(pod, node string) bool) {
		if len(b.places) == 0 {
			return
		}
		for _, key := range b.groupsWhere(func(g *group) bool { return g.reserved }) {
			g := b.groups[key]
			for _, pod := range slices.SortedFunc(maps.Keys(g.plan), b.names) {
				if m := b.pods[pod]; m != nil && !m.assumed && !yield(pod, g.plan[pod]) {
					return
				}
			}
		}
	}
}

// AnyPlaces says whether any place is held for somebody.
func (b *Book) AnyPlaces() bool { return len(b.places) > 0 }
