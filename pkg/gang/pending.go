package gang

import (
	"container/heap"
	"slices"
)

// ordering compares the names of gangs and pods.
type ordering func(a, b string) int

// refs orders gangs.
func (names ordering) refs(x, y Ref) int { return x.Compare(y, names) }

// members orders members by rank, gang, name.
func (names ordering) members(x, y *member) int {
	if c := x.CompareRanks(&y.Member, names); c != 0 {
		return c
	}
	if x.Gang != y.Gang {
		return names.refs(x.Gang, y.Gang)
	}
	return names(x.Pod, y.Pod)
}

func pending(m *member) bool { return m.Node == "" && !m.Gated }

// line holds the pending members of a gang, the first in front. It is a heap: the members
// of a plan are bound one by one, and each time another one is the first.
type line struct {
	names   ordering
	members []*member
}

// first is the first pending member, or nil.
func (l *line) first() *member {
	if len(l.members) == 0 {
		return nil
	}
	return l.members[0]
}

// update brings a member to where it belongs, in the line or not. moved says that its rank
// has changed.
func (l *line) update(m *member, moved bool) {
	switch {
	case !pending(m):
		l.remove(m)
	case m.at == 0:
		heap.Push(l, m)
	case moved:
		heap.Fix(l, int(m.at)-1)
	}
}

func (l *line) remove(m *member) {
	if m.at > 0 {
		heap.Remove(l, int(m.at)-1)
	}
}

// What follows is for the heap alone.

func (l *line) Len() int           { return len(l.members) }
func (l *line) Less(i, j int) bool { return l.names.members(l.members[i], l.members[j]) < 0 }

func (l *line) Swap(i, j int) {
	l.members[i], l.members[j] = l.members[j], l.members[i]
	l.members[i].at, l.members[j].at = int32(i+1), int32(j+1)
}

func (l *line) Push(m any) {
	l.members = append(l.members, m.(*member))
	m.(*member).at = int32(len(l.members))
}

func (l *line) Pop() any {
	last := len(l.members) - 1
	m := l.members[last]
	l.members[last], m.at = nil, 0
	if l.members = l.members[:last]; last == 0 {
		l.members = nil // a gang may run for long
	}
	return m
}

// representative is the pending member that speaks for a group without a plan: the
// first by rank, gang, name.
func (b *Book) representative(key Ref) (first *member) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && !b.out(g) {
			if m := g.pending.first(); m != nil && (first == nil || b.names.members(m, first) < 0) {
				first = m
			}
		}
	}
	return first
}

// sorted returns the members of a group for which keep holds, by rank, gang, name.
func (b *Book) sorted(key Ref, keep func(*member) bool) (out []*member) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil {
			for _, m := range g.members {
				if keep(m) {
					out = append(out, m)
				}
			}
		}
	}
	slices.SortFunc(out, b.names.members)
	return out
}
