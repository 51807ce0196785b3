package gang

import "iter"

// Plain yields, in any order, the gangs of which nothing is special: each is alone in its group, nobody of it has a
// place, or had one, just as many wait as it needs, and nothing is in its way but that there may be no
// room. With each come two of its members: the first, and another one if there are more.
func (b *Book) Plain() iter.Seq2[Ref, [2]string] {
	return func(yield func(Ref, [2]string) bool) {
		for ref, g := range b.gangs {
			if !b.plain(ref, g) {
				continue
			}
			wait := g.pending.members
			if !yield(ref, [2]string{wait[0].Pod, wait[len(wait)-1].Pod}) {
				return
			}
		}
	}
}

func (b *Book) plain(ref Ref, g *gang) bool {
	if g.spec == nil || g.spec.Min == 0 || g.counts != (counts{exist: g.spec.Min}) || g.satisfied || len(g.group) != 1 || g.optional() ||
		b.ahead[ref] != nil || b.waitsFor(ref).Is() {
		return false
	}
	of := b.groups[ref]
	if of == nil {
		return true
	}
	room := of.refusal.By == Nobody || of.refusal.By == Plan
	return room && !of.refusal.Never && len(of.plan)+len(of.saved)+len(of.avoid) == 0
}
