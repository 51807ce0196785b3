package gang

import "slices"

// In a non-strict gang, one member may lose its assignment while the others keep theirs. Once the others have all
// arrived, a new plan fills the vacancy and counts the others as bound.

// hasVacancy returns whether all assigned members of a non-strict group are assumed, while its barrier is still closed.
func (b *Book) hasVacancy(key Ref) bool {
	g := b.groups[key]
	if g == nil || len(g.plan) == 0 || g.unconfirmed || g.barrierOpen {
		return false
	}
	n := b.count(key)
	return n.planned == n.arrived && b.nonStrict(key)
}

// nonStrict returns whether some gang of the group is non-strict.
func (b *Book) nonStrict(key Ref) bool {
	return b.anyGang(key, (*gang).nonStrict)
}

// anyGang returns whether has is true for a declared gang of the group.
func (b *Book) anyGang(key Ref, has func(*gang) bool) bool {
	return slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool {
		g := b.gangs[ref]
		return g != nil && g.spec != nil && has(g)
	})
}

// triedMember returns the member with which a plan is tried: the representative, or with a vacancy the first member without an assignment.
// It is nil if there is none.
func (b *Book) triedMember(key Ref) *member {
	if !b.hasVacancy(key) {
		return b.representative(key)
	}
	for _, m := range b.sorted(key, func(m *member) bool { return pending(m) && !m.planned && !m.assumed }) {
		return m
	}
	return nil
}
