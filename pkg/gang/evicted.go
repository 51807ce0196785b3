package gang

// A group that is evicted is one victim, but its members leave one by one, and requests may
// fail on the way. A replacement that took a place meanwhile would be what is left of it.

// Victim is a member that somebody has asked to leave.
type Victim struct{ Pod, UID string }

// evicted notes who leaves with its group, and gives up what was planned for it: nobody joins them. Only
// those are waited for that run: others are sent back to the queue, and not deleted.
func (b *Book) evicted(pods []Victim) (out []Effect) {
	done := map[Ref]bool{}
	for _, v := range pods {
		m := b.known(v.Pod, v.UID)
		if m == nil || !m.runs() && !m.assumed {
			continue
		}
		if m.runs() {
			b.change(m, func(m *member) { m.evicted = true })
		}
		if key := b.groupKey(m.Gang); !done[key] {
			done[key] = true
			out = append(out, b.forget(key, "the gang is being evicted")...)
			out = append(out, b.Review(key)...)
		}
	}
	return out
}

// spared notes who stays. With the last of them the group may be planned again. Whoever has a
// reservation is tried: it may stand for what these were to leave, whom another one had asked.
func (b *Book) spared(pods []Victim) (out []Effect) {
	done := map[Ref]bool{}
	for _, v := range pods {
		m := b.known(v.Pod, v.UID)
		if m == nil || !m.evicted {
			continue
		}
		b.change(m, func(m *member) { m.evicted = false })
		if key := b.groupKey(m.Gang); !done[key] && !b.leaves(key) {
			done[key] = true
			out = append(out, b.Review(key)...)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	for _, key := range b.groupsWhere(func(g *group) bool { return g.waiting }) {
		if rep := b.representative(key); rep != nil {
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
		}
	}
	return out
}

// leaves says whether members of a group run that are to leave with it.
func (b *Book) leaves(key Ref) bool { return b.count(key).evicted > 0 }
