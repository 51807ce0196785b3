package gang

import "slices"

// ordering compares the names of gangs and pods.
type ordering func(a, b string) int

func (names ordering) refs(x, y Ref) int { return x.Compare(y, names) }

// members returns a negative number if x is before y: by rank, gang, name.
func (names ordering) members(x, y *member) int {
	if c := x.CompareRanks(&y.Member, names); c != 0 {
		return c
	}
	if x.Gang != y.Gang {
		return names.refs(x.Gang, y.Gang)
	}
	return names(x.Pod, y.Pod)
}

// pending returns whether a member may enter the scheduler: it has neither a node nor a gate.
func pending(m *member) bool { return m.Node == "" && m.Gate == "" }

// pendingQueue is the pending members of a gang, sorted.
type pendingQueue struct {
	names   ordering
	members []*member
}

// first returns the first pending member, or nil.
func (l *pendingQueue) first() *member {
	if len(l.members) == 0 {
		return nil
	}
	return l.members[0]
}

// update adds m if it is pending, and removes it otherwise. moved says that its rank or row changed.
func (l *pendingQueue) update(m *member, moved bool) {
	if moved || !pending(m) {
		l.remove(m)
	}
	if pending(m) && !m.queued {
		i, _ := slices.BinarySearchFunc(l.members, m, l.names.members)
		l.members, m.queued = slices.Insert(l.members, i, m), true
	}
}

// remove removes a member, if it is queued.
func (l *pendingQueue) remove(m *member) {
	if !m.queued {
		return
	}
	i := slices.Index(l.members, m) // not by order: its rank may have changed
	m.queued = false
	if l.members = slices.Delete(l.members, i, i+1); len(l.members) == 0 {
		l.members = nil // a gang may run for long
	}
}

// representative returns the pending member that stands for a group without a plan: the first by rank, gang, name.
func (b *Book) representative(key Ref) (first *member) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && !b.excluded(g) {
			if m := g.pending.first(); m != nil && (first == nil || b.names.members(m, first) < 0) {
				first = m
			}
		}
	}
	return first
}

// sorted returns the members of a group for which keep returns true, by rank, gang, name.
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
