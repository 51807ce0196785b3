package gang

import (
	"cmp"
	"slices"
)

// declare adds a gang or changes its spec. If the gang lists other gangs than before, the plan of the old group is dropped.
func (b *Book) declare(spec Spec) []Effect {
	g := b.gang(spec.Ref)
	previous, current := g.groupList(), (&gang{spec: &spec}).groupList()
	known := g.spec != nil
	g.spec = &spec
	g.markIfComplete()
	if known && slices.Equal(previous, current) {
		b.noteGroupProblem(spec.Ref)
		return append(b.recheck(g), b.Review(spec.Ref)...)
	}
	touched := b.setListed(spec.Ref, previous, current)
	if !known {
		touched = append(touched, b.Listers(spec.Ref)...)
	}
	return append(b.rearrange(touched), b.recheck(g)...)
}

// recheck drops the plan of g's group if, after a change of g, the group cannot start any more.
func (b *Book) recheck(g *gang) []Effect {
	if group := b.groups[g.key]; group != nil && len(group.plan) > 0 {
		why := b.obstacle(g.key)
		if !why.Exists() && group.unconfirmed {
			why = b.tooFewWait(g.key)
		}
		if !why.Exists() && b.planBroken(g.key) {
			why = missing("other gangs are needed now")
		}
		if why.Exists() {
			return append(b.forget(g.key, why.String()), b.Review(g.key)...)
		}
	}
	return nil
}

// rearrange recomputes the groups of the touched gangs, and reviews each of these groups once.
func (b *Book) rearrange(touched []Ref) []Effect {
	changed, out := b.regroup(touched)
	touched = append(touched, changed...)
	for _, ref := range touched {
		b.noteGroupProblem(ref)
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

// remove deletes a gang's spec. Its members wait until it is declared again.
func (b *Book) remove(ref Ref) []Effect {
	g := b.gangs[ref]
	if g == nil || g.spec == nil {
		return nil
	}
	delete(b.resumed, g.key)
	out := b.forget(g.key, "gang "+ref.String()+" was removed")
	if g.spec.UID != "" { // its object was deleted, so that no successors come
		out = append(out, b.releaseFuture(g.key)...)
	}
	previous := g.groupList()
	g.spec = nil
	touched := append(b.setListed(ref, previous, nil), b.Listers(ref)...)
	out = append(out, b.rearrange(touched)...)
	b.deleteIfEmpty(ref)
	return out
}

// observe records the state of a pod. A pod with a different UID under the same name is a different pod.
func (b *Book) observe(m Member) (out []Effect) {
	old := b.pods[m.Pod]
	if old != nil && (old.UID != m.UID || old.Gang != m.Gang) {
		out = b.removeMember(MemberDeleted{Pod: old.Pod, UID: old.UID})
		old = nil
	}
	if old != nil && old.Node != "" && m.Node == "" {
		return out // a late delivery: a bound pod stays bound
	}
	if old != nil && old.Done && !m.Done {
		return out // a finished pod stays finished
	}
	switch {
	case old == nil:
		g := b.gang(m.Gang)
		if g.startsNewRun(m) {
			g.satisfied = false
		}
		g.restoreSatisfied(m)
		old = b.addMember(m)
	case old.Member == m:
		return out
	default:
		b.change(old, func(old *member) { old.Member = m })
	}
	if m.Node != "" {
		out = append(out, b.noteBound(old)...)
	}
	return append(out, b.Review(m.Gang)...)
}

// confirm records a binding of a known member. It never restores a deleted pod.
func (b *Book) confirm(ev Bound) []Effect {
	m := b.pods[ev.Pod]
	if m == nil || m.UID != ev.UID || m.Node != "" {
		return nil
	}
	b.change(m, func(m *member) { m.Node = ev.Node })
	return append(b.noteBound(m), b.Review(m.Gang)...)
}

// noteBound removes a bound member from its group's plan. A binding to another node than planned drops the plan.
func (b *Book) noteBound(m *member) (out []Effect) {
	b.change(m, (*member).detach)
	m.bindFailures = 0
	key := b.groupKey(m.Gang)
	if g := b.groups[key]; g != nil {
		node, planned := g.plan[m.Pod]
		b.unassign(g, m.Pod)
		out = b.releaseNodeHold(g, m.Pod)
		g.failures = 0
		delete(g.avoid, m.Node)
		if planned && node != m.Node {
			out = append(out, b.forget(key, m.Pod+" was bound to "+m.Node+" instead of "+node)...)
		}
	}
	b.gangs[m.Gang].markIfComplete()
	return out
}

// removeMember deletes a pod. The plan continues if the group can start without that member.
func (b *Book) removeMember(ev MemberDeleted) (out []Effect) {
	m := b.pods[ev.Pod]
	if m == nil || m.UID != ev.UID {
		return nil
	}
	key := b.groupKey(m.Gang)
	if m.held && !m.allowed || m.requeued {
		out = []Effect{{Verb: Reject, Pod: m.Pod, UID: m.UID, Why: "the pod was deleted"}}
	}
	lost, wasPlanned := b.unplan(key, m.Pod)
	out = append(out, lost...)
	if g := b.groups[key]; g != nil {
		out = append(out, b.releaseNodeHold(g, m.Pod)...)
	}
	g := b.gangs[m.Gang]
	remaining := g.remaining()
	b.deleteMember(m)
	if m.Succeeded { // it is not lost
		g.most -= remaining - g.remaining()
	}
	switch {
	case len(g.members) == 0:
		g.resetEmpty(m.UID)
	case m.evicted && g.counts.bound == 0: // evicted as a whole, the gang starts as a whole, whichever members had finished
		g.satisfied = false
	default:
		g.resetIdle()
	}
	if grp := b.groups[key]; grp != nil {
		switch {
		case b.obstacle(key).Exists() || b.planBroken(key) || grp.unconfirmed && b.tooFewWait(key).Exists():
			out = append(out, b.forget(key, m.Pod+" left and the rest is too few")...)
		case wasPlanned && b.mayViolate(key):
			out = append(out, b.replan(key, m.Pod+" left and the rest may break a rule")...)
		default:
			out = append(out, grp.wakeNext()...)
			if rep := b.representative(key); grp.unconfirmed && rep != nil { // the representative may have changed
				out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
			}
		}
	}
	out = append(out, b.Review(m.Gang)...)
	b.deleteIfEmpty(m.Gang)
	return out
}

// Review reports the gangs of ref's group. If the group can be planned, it wakes the representative; if not, its reservation ends.
func (b *Book) Review(ref Ref) (out []Effect) {
	key := b.groupKey(ref)
	out = b.releaseOrphanedFuture(key)
	for _, other := range b.groupOf(ref) {
		out = append(out, Effect{Verb: Report, Gang: other})
	}
	if g := b.groups[key]; g != nil && g.unconfirmed && b.obstacle(key).Exists() {
		out = append(out, b.forget(key, b.obstacle(key).Words)...)
	} else if g != nil && len(g.plan) > 0 {
		return append(out, b.wakeNewRepresentative(key, g)...)
	}
	rep := b.representative(key)
	ready := rep != nil && !b.obstacle(key).Exists()
	out = append(out, b.resetUnplanned(key, ready)...)
	if g := b.groups[key]; g != nil && rep == nil {
		g.avoid = nil // no member is left to place
	}
	if !ready {
		delete(b.resumed, key)
		return out
	}
	return append(out, Effect{Verb: Wake, Pod: rep.Pod})
}

// resetUnplanned clears the plan state of a group without a plan, and deletes an empty state. ready: the group can be planned.
func (b *Book) resetUnplanned(key Ref, ready bool) (out []Effect) {
	g := b.groups[key]
	if g == nil {
		return nil
	}
	*g = group{
		refusal: g.refusal, retryAt: g.retryAt, failures: g.failures, avoid: g.avoid, unschedulableSince: g.unschedulableSince,
		heldNodes: g.heldNodes, holdGrown: g.holdGrown, holdUntil: g.holdUntil, vainHolds: g.vainHolds, firstRefusal: g.firstRefusal,
		promise: g.promise, tryAt: g.tryAt,
	}
	if !ready {
		out = b.endStarvation(key, g)
	}
	if g.idle() {
		delete(b.groups, key)
	}
	return out
}

// gang returns the gang ref, and creates it if it does not exist.
func (b *Book) gang(ref Ref) *gang {
	g := b.gangs[ref]
	if g == nil {
		g = &gang{members: map[string]*member{}, pending: pendingQueue{names: b.names}}
		g.lastUID = cmp.Or(b.emptied[0][ref], b.emptied[1][ref])
		b.gangs[ref] = g
		b.regroup([]Ref{ref})
	}
	return g
}

// remainsSatisfied returns whether members may start one by one, because the gang was complete once and, if optional, still has any.
func (g *gang) remainsSatisfied() bool {
	return g.satisfied && g.spec.Policy == OnceSatisfied && (!g.optional() || g.started() > 0)
}

func (g *gang) nonStrict() bool { return g.spec != nil && g.spec.NonStrict }

// deleteIfEmpty deletes a gang that has neither spec nor members.
func (b *Book) deleteIfEmpty(ref Ref) {
	if g := b.gangs[ref]; g != nil && g.spec == nil && len(g.members) == 0 {
		if g.lastUID != "" {
			b.emptied[0][ref] = g.lastUID
		}
		delete(b.gangs, ref)
		delete(b.groups, ref) // without a spec it was alone
		delete(b.resumed, ref)
	}
}
