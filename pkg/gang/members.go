package gang

import "slices"

// declare adds a gang or changes its spec. A change of who belongs together ends
// what was planned for the old group.
func (b *Book) declare(spec Spec) (out []Effect) {
	g := b.gang(spec.Name)
	regrouped := !slices.Equal(g.lists(), spec.Group)
	before := slices.Clone(b.groupOf(spec.Name))
	if regrouped && g.spec != nil {
		delete(b.resumed, g.key)
		out = b.forget(g.key, "the GangGroup changed")
		b.unlist(g.spec)
	}
	g.spec = &spec
	if regrouped {
		b.list(g.spec)
		b.regroup(g.group)
	}
	if group := b.groups[g.key]; group != nil && len(group.plan) > 0 {
		if why := b.waitsFor(g.key); why != "" {
			out = append(out, b.forget(g.key, why)...)
		}
	}
	out = append(out, b.Review(spec.Name)...)
	for _, other := range before {
		if regrouped && !slices.Contains(b.groupOf(spec.Name), other) {
			out = append(out, b.Review(other)...) // it need not wait for this gang any longer
		}
	}
	return out
}

// remove forgets that a gang is declared. Its members wait until it is again.
func (b *Book) remove(name string) []Effect {
	g := b.gangs[name]
	if g == nil || g.spec == nil {
		return nil
	}
	group := g.group
	delete(b.resumed, g.key)
	out := b.forget(g.key, "gang "+name+" was removed")
	b.unlist(g.spec)
	g.spec, g.satisfied = nil, false
	b.regroup(group)
	b.tidy(name)
	for _, other := range group {
		out = append(out, b.Review(other)...)
	}
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
	switch {
	case old == nil:
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

// bound takes a member out of its group's plan. Bound elsewhere than planned (by
// hand, by another scheduler), it makes the rest of the plan void.
func (b *Book) bound(m *member) (out []Effect) {
	b.change(m, (*member).free)
	key := b.groupKey(m.Gang)
	if g := b.groups[key]; g != nil {
		node, planned := g.plan[m.Pod]
		b.unplace(g, m.Pod)
		b.unclaim(g, m.Pod)
		g.failures = 0
		delete(g.avoid, m.Node)
		if planned && node != m.Node {
			out = b.forget(key, m.Pod+" was bound to "+m.Node+" instead of "+node)
		}
	}
	if g := b.gangs[m.Gang]; g.spec != nil && g.counts.bound >= g.spec.Min {
		g.satisfied = true
	}
	return out
}

// left removes a pod. The plan goes on without it as long as the group stays whole.
func (b *Book) left(ev Left) (out []Effect) {
	m := b.pods[ev.Pod]
	if m == nil || m.UID != ev.UID {
		return nil
	}
	key := b.groupKey(m.Gang)
	if g := b.groups[key]; g != nil {
		b.unplace(g, m.Pod)
		b.unclaim(g, m.Pod)
	}
	b.leave(m)
	if g := b.gangs[m.Gang]; len(g.members) == 0 {
		g.satisfied = false
	}
	if grp := b.groups[key]; grp != nil {
		if b.waitsFor(key) != "" {
			out = b.forget(key, m.Pod+" left and the rest is too few")
		} else {
			out = grp.wakeNext()
			if rep := b.representative(key); grp.waiting && rep != nil { // who may speak for the group now
				out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			}
		}
	}
	out = append(out, b.Review(m.Gang)...)
	b.tidy(m.Gang)
	return out
}

// Review is called when something about a gang has changed: whoever watches it is
// told, and a group that can be planned sends its representative.
func (b *Book) Review(name string) (out []Effect) {
	key := b.groupKey(name)
	for _, other := range b.groupOf(name) {
		out = append(out, Effect{Verb: Report, Gang: other})
	}
	if g := b.groups[key]; g != nil && len(g.plan) > 0 {
		return out
	}
	rep := b.representative(key)
	ready := rep != nil && b.waitsFor(key) == ""
	b.unplanned(key, ready)
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
func (b *Book) unplanned(key string, ready bool) {
	g := b.groups[key]
	if g == nil {
		return
	}
	*g = group{why: g.why, retry: g.retry, failures: g.failures, avoid: g.avoid, since: g.since, claim: g.claim, grown: g.grown}
	if !ready {
		b.fed(key, g)
	}
	if g.idle() {
		delete(b.groups, key)
	}
}

// gang returns a gang, which it makes if need be.
func (b *Book) gang(name string) *gang {
	g := b.gangs[name]
	if g == nil {
		g = &gang{members: map[string]*member{}, pending: line{names: b.names}}
		b.gangs[name] = g
		b.regroup([]string{name})
	}
	return g
}

// lists are the gangs that a gang says must start together with it.
func (g *gang) lists() []string {
	if g.spec == nil {
		return nil
	}
	return g.spec.Group
}

// stays says that the gang was whole and that this is enough: members may follow one by
// one.
func (g *gang) stays() bool { return g.satisfied && g.spec.Policy == OnceSatisfied }

func (g *gang) nonStrict() bool { return g.spec != nil && g.spec.NonStrict }

// tidy drops a gang that nobody declares and that has no member.
func (b *Book) tidy(name string) {
	if g := b.gangs[name]; g != nil && g.spec == nil && len(g.members) == 0 {
		delete(b.gangs, name)
	}
}
