package gang

// Of a gang that is not strict a member may lose its place while others hold theirs. Once all
// of these have arrived, it is planned again beside them: the others count as bound where they
// hold their places.

// lacks says that the members which have a place all hold it, and that the barrier is not open
// for want of others.
func (b *Book) lacks(key Ref) bool {
	g := b.groups[key]
	if g == nil || len(g.plan) == 0 || g.waiting || g.opened {
		return false
	}
	n := b.count(key)
	return n.planned == n.arrived && b.nonStrict(key)
}

// nonStrict says whether members of some gang of a group keep their places when others fail.
func (b *Book) nonStrict(key Ref) bool {
	for _, ref := range b.groupOf(key) {
		if b.gangs[ref].nonStrict() {
			return true
		}
	}
	return false
}

// speaker is the member that is tried for a group: its representative, or where others hold
// their places the first that has none; nil if there is nobody.
func (b *Book) speaker(key Ref) *member {
	if !b.lacks(key) {
		return b.representative(key)
	}
	for _, m := range b.sorted(key, func(m *member) bool { return pending(m) && !m.planned && !m.assumed }) {
		return m
	}
	return nil
}
