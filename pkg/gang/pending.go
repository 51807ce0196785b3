package gang

import "slices"

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

// line holds the pending members of a gang in order.
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

// update puts a member into the line if it is pending, and takes it out otherwise. moved says that its rank
// has changed.
func (l *line) update(m *member, moved bool) {
	if moved || !pending(m) {
		l.remove(m)
	}
	if pending(m) && !m.inLine {
		i, _ := slices.BinarySearchFunc(l.members, m, l.names.members)
		l.members, m.inLine = slices.Insert(l.members, i, m), true
	}
}

// remove takes a member out of the line, if it is there.
func (l *line) remove(m *member) {
	if !m.inLine {
		return
	}
	i := slices.Index(l.members, m) // not by order: its rank may have changed
	m.inLine = false
	if l.members = slices.Delete(l.members, i, i+1); len(l.members) == 0 {
		l.members = nil // a gang may run for long
	}
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
