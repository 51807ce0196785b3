package gang

import "slices"

// declare adds a gang or changes its spec. A change of who belongs together ends
// what was planned for the old group.
func (b *Book) declare(spec Spec) []Effect {
	g := b.gang(spec.Ref)
	was, is := g.lists(), (&gang{spec: &spec}).lists()
	known := g.spec != nil
	g.spec = &spec
	g.reach()
	if known && slices.Equal(was, is) {
		b.noteStrangers(spec.Ref)
		return append(b.recheck(g), b.Review(spec.Ref)...)
	}
	touched := b.list(spec.Ref, was, is)
	if !known {
		touched = append(touched, b.listersOf(spec.Ref)...)
	}
	return append(b.rearrange(touched), b.recheck(g)...)
}

// recheck gives up the plan of a gang that was changed and has to wait for something now.
func (b *Book) recheck(g *gang) []Effect {
	if group := b.groups[g.key]; group != nil && len(group.plan) > 0 {
		why := b.waitsFor(g.key)
		if !why.Is() && b.falters(g.key) {
			why = missing("other gangs are needed now")
		}
		if why.Is() {
			return append(b.forget(g.key, why.String()), b.Review(g.key)...)
		}
	}
	return nil
}

// rearrange is for when the groups of gangs may be others now, or what they wait for.
func (b *Book) rearrange(touched []Ref) []Effect {
	changed, out := b.regroup(touched)
	touched = append(touched, changed...)
	for _, ref := range touched {
		b.noteStrangers(ref)
	}
	done := map[Ref]bool{}
	for _, ref := range touched {
		if key := b.groupKey(ref); !done[key] {
			done[key] = true
			out = append(out, b.Review(ref)...)
		}
	}
	return out
}

// remove forgets that a gang is declared. Its members wait until it is again.
func (b *Book) remove(ref Ref) []Effect {
	g := b.gangs[ref]
	if g == nil || g.spec == nil {
		return nil
	}
	delete(b.resumed, g.key)
	out := b.forget(g.key, "gang "+ref.String()+" was removed")
	was := g.lists()
	g.spec = nil // its members may go on when it is declared again
	touched := append(b.list(ref, was, nil), b.listersOf(ref)...)
	out = append(out, b.rearrange(touched)...)
	b.tidy(ref)
	return out
}

// seen records the state of a pod. A pod of the same name with another UID is
// another pod.
func (b *Book) seen(m Member) (out []Effect) {
	old := b.pods[m.Pod]
	if old != nil && (old.UID != m.UID || old.Gang != m.Gang) {
		out = b.left(Left{Pod: old.Pod, UID: old.UID})
		old = nil
	}
	if old != nil && old.Node != "" && m.Node == "" {
		return out // a late delivery: a bound pod stays bound
	}
	if old != nil && old.Done && !m.Done {
		return out // and one that has finished is finished
	}
	switch {
	case old == nil:
		g := b.gang(m.Gang)
		if g.anew(m) {
			g.satisfied = false
		}
		g.comesBack(m)
		old = b.enter(m)
	case old.Member == m:
		return out
	default:
		b.change(old, func(old *member) { old.Member = m })
	}
	if m.Node != "" {
		out = append(out, b.bound(old)...)
	}
	return append(out, b.Review(m.Gang)...)
}

// confirm notes that a member that is known was bound. What is known of it otherwise comes
// from elsewhere: a pod that was deleted meanwhile does not come back.
func (b *Book) confirm(ev Bound) []Effect {
	m := b.pods[ev.Pod]
	if m == nil || m.UID != ev.UID || m.Node != "" {
		return nil
	}
	b.change(m, func(m *member) { m.Node = ev.Node })
	return append(b.bound(m), b.Review(m.Gang)...)
}

// bound takes a member out of its group's plan. Bound elsewhere than planned (by
// hand, by another scheduler), it makes the rest of the plan void.
func (b *Book) bound(m *member) (out []Effect) {
	b.change(m, (*member).free)
	m.failed = 0
	key := b.groupKey(m.Gang)
	if g := b.groups[key]; g != nil {
		node, planned := g.plan[m.Pod]
		b.unplace(g, m.Pod)
		out = b.unsave(g, m.Pod)
		g.failures = 0
		delete(g.avoid, m.Node)
		if planned && node != m.Node {
			out = append(out, b.forget(key, m.Pod+" was bound to "+m.Node+" instead of "+node)...)
		}
	}
	b.gangs[m.Gang].reach()
	return out
}

// left removes a pod. The plan goes on without it as long as the group stays whole.
func (b *Book) left(ev Left) (out []Effect) {
	m := b.pods[ev.Pod]
	if m == nil || m.UID != ev.UID {
		return nil
	}
	key := b.groupKey(m.Gang)
	if m.held && !m.allowed || m.back {
		out = []Effect{{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: "the pod was deleted"}}
	}
	lost, had := b.lose(key, m.Pod)
	out = append(out, lost...)
	if g := b.groups[key]; g != nil {
		out = append(out, b.unsave(g, m.Pod)...)
	}
	b.leave(m)
	if g := b.gangs[m.Gang]; len(g.members) == 0 {
		g.empty(m.UID)
	} else {
		g.idles()
	}
	if grp := b.groups[key]; grp != nil {
		switch {
		case b.waitsFor(key).Is() || b.falters(key):
			out = append(out, b.forget(key, m.Pod+" left and the rest is too few")...)
		case had && b.mayBreak(key):
			out = append(out, b.again(key, m.Pod+" left and the rest may break a rule")...)
		default:
			out = append(out, grp.wakeNext()...)
			if rep := b.representative(key); grp.waiting && rep != nil { // who may speak for the group now
				out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			}
		}
	}
	out = append(out, b.endAheadOfNobody(key)...)
	out = append(out, b.Review(m.Gang)...)
	b.tidy(m.Gang)
	return out
}

// Review is called when something about a gang has changed: whoever watches it is
// told, and a group that can be planned sends its representative.
func (b *Book) Review(ref Ref) (out []Effect) {
	key := b.groupKey(ref)
	for _, other := range b.groupOf(ref) {
		out = append(out, Effect{Verb: Report, Gang: other})
	}
	if g := b.groups[key]; g != nil && len(g.plan) > 0 {
		return append(out, b.newSpeaker(key, g)...)
	}
	rep := b.representative(key)
	ready := rep != nil && !b.waitsFor(key).Is()
	out = append(out, b.unplanned(key, ready)...)
	if g := b.groups[key]; g != nil && rep == nil {
		g.avoid = nil // nobody is left to place
	}
	if !ready {
		delete(b.resumed, key)
		return out
	}
	return append(out, Effect{Verb: Wake, Pod: rep.Pod})
}

// unplanned forgets of a group without a plan what only matters with one, and all of it
// if nothing is left to remember.
func (b *Book) unplanned(key Ref, ready bool) (out []Effect) {
	g := b.groups[key]
	if g == nil {
		return nil
	}
	*g = group{refusal: g.refusal, retry: g.retry, failures: g.failures, avoid: g.avoid, since: g.since, saved: g.saved, grown: g.grown, until: g.until, vain: g.vain}
	if !ready {
		out = b.fed(key, g)
	}
	if g.idle() {
		delete(b.groups, key)
	}
	return out
}

// gang returns a gang, which it makes if need be.
func (b *Book) gang(ref Ref) *gang {
	g := b.gangs[ref]
	if g == nil {
		g = &gang{members: map[string]*member{}, pending: line{names: b.names}}
		b.gangs[ref] = g
		b.regroup([]Ref{ref})
	}
	return g
}

// stays says that the gang was whole and that this is enough: members may follow one by
// one. A gang that its group may do without begins anew when nobody of it is left.
func (g *gang) stays() bool {
	return g.satisfied && g.spec.Policy == OnceSatisfied && (!g.optional() || g.started() > 0)
}

func (g *gang) nonStrict() bool { return g.spec != nil && g.spec.NonStrict }

// tidy drops a gang that nobody declares and that has no member.
func (b *Book) tidy(ref Ref) {
	if g := b.gangs[ref]; g != nil && g.spec == nil && len(g.members) == 0 {
		delete(b.gangs, ref)
		delete(b.groups, ref) // without a spec it was alone
		delete(b.resumed, ref)
	}
}
