package gang

// An evicted group is one victim bundle, but its members terminate one by one and evictions may fail. A replacement
// must not take a node meanwhile: it would be all that remains of the group.

// Victim is a member that is being evicted.
type Victim struct{ Pod, UID string }

// startEviction marks the running members as evicted and drops the plans of their groups. Members that are only assumed return to the
// queue, so no group waits for them.
func (b *Book) startEviction(pods []Victim) (out []Effect) {
	done := map[Ref]bool{}
	for _, v := range pods {
		m := b.memberWithUID(v.Pod, v.UID)
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

// cancelEviction removes the mark of startEviction. A group without other evicted members may be planned again. Groups with a reservation
// are retried: their reservation may depend on these victims.
func (b *Book) cancelEviction(pods []Victim) (out []Effect) {
	done := map[Ref]bool{}
	for _, v := range pods {
		m := b.memberWithUID(v.Pod, v.UID)
		if m == nil || !m.evicted {
			continue
		}
		b.change(m, func(m *member) { m.evicted = false })
		if key := b.groupKey(m.Gang); !done[key] && !b.terminating(key) {
			done[key] = true
			out = append(out, b.Review(key)...)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	for _, key := range b.groupsWhere(func(g *group) bool { return g.unconfirmed }) {
		if rep := b.representative(key); rep != nil {
			out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
		}
	}
	return out
}

// terminating returns whether running members of the group are being evicted.
func (b *Book) terminating(key Ref) bool { return b.count(key).evicted > 0 }

// Evicts returns whether running members of the gang's group are being evicted.
func (b *Book) Evicts(ref Ref) bool { return b.terminating(b.groupKey(ref)) }
