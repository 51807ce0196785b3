package gang

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// declare adds a gang or changes its spec. A change of who belongs together ends
// what was planned for the old group.
func (b *Book) declare(spec Spec) (out []Effect) {
	g := b.gang(spec.Name)
	if g.spec != nil && !slices.Equal(g.spec.Group, spec.Group) {
		delete(b.resumed, b.groupKey(spec.Name))
		out = b.forget(b.groupKey(spec.Name), "the GangGroup changed")
		b.unlist(g.spec)
	}
	g.spec = &spec
	for _, other := range spec.Group {
		if b.listed[other] == nil {
			b.listed[other] = map[string]bool{}
		}
		b.listed[other][spec.Name] = true
	}
	if key := b.groupKey(spec.Name); b.groups[key] != nil && len(b.groups[key].plan) > 0 {
		if why := b.waitsFor(key); why != "" {
			out = append(out, b.forget(key, why)...)
		}
	}
	return append(out, b.Review(spec.Name)...)
}

func (b *Book) unlist(spec *Spec) {
	for _, other := range spec.Group {
		delete(b.listed[other], spec.Name)
		if len(b.listed[other]) == 0 {
			delete(b.listed, other)
		}
	}
}

// remove forgets that a gang is declared. Its members wait until it is again.
func (b *Book) remove(name string) []Effect {
	g := b.gangs[name]
	if g == nil || g.spec == nil {
		return nil
	}
	group := b.groupOf(name)
	delete(b.resumed, b.groupKey(name))
	out := b.forget(b.groupKey(name), "gang "+name+" was removed")
	b.unlist(g.spec)
	g.spec, g.satisfied = nil, false
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
	if old == nil {
		old = &member{}
		b.pods[m.Pod] = old
		b.gang(m.Gang).members[m.Pod] = old
	} else if old.Member == m {
		return out
	}
	old.Member = m
	if m.Node != "" {
		out = append(out, b.bound(old)...)
	}
	return append(out, b.Review(m.Gang)...)
}

// bound takes a member out of its group's plan. Bound elsewhere than planned (by
// hand, by another scheduler), it makes the rest of the plan void.
func (b *Book) bound(m *member) (out []Effect) {
	m.held, m.assumed, m.allowed, m.back = false, false, false, false
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
	g := b.gang(m.Gang)
	if _, have := b.count(g); g.spec != nil && have >= g.spec.Min {
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
	delete(b.pods, m.Pod)
	g := b.gangs[m.Gang]
	delete(g.members, m.Pod)
	if len(g.members) == 0 {
		g.satisfied = false
	}
	if grp := b.groups[key]; grp != nil {
		if b.waitsFor(key) != "" {
			out = b.forget(key, m.Pod+" left and the rest is too few")
		} else {
			out = b.wakeNext(grp)
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
	if g := b.groups[key]; g != nil {
		if len(g.plan) > 0 {
			return out
		}
		*g = group{why: g.why, retry: g.retry, failures: g.failures, avoid: g.avoid, since: g.since, claim: g.claim, grown: g.grown}
		if b.representative(key) == nil || b.waitsFor(key) != "" {
			b.fed(key, g)
		}
		if g.idle() {
			delete(b.groups, key)
		}
	}
	rep := b.representative(key)
	if rep == nil && b.groups[key] != nil {
		b.groups[key].avoid = nil // nobody is left to place
	}
	waits := b.waitsFor(key) != ""
	if rep == nil || waits {
		delete(b.resumed, key)
	}
	if rep != nil && !waits {
		out = append(out, Effect{Verb: Wake, Pod: rep.Pod})
	}
	return out
}

// gang returns a gang, which it makes if need be.
func (b *Book) gang(name string) *gang {
	g := b.gangs[name]
	if g == nil {
		g = &gang{members: map[string]*member{}}
		b.gangs[name] = g
	}
	return g
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

// groupOf returns, sorted, the gangs that must start together with the named one:
// those that it lists, those that list it, and theirs.
func (b *Book) groupOf(name string) []string {
	if g := b.gangs[name]; len(b.listed[name]) == 0 && (g == nil || g.spec == nil || len(g.spec.Group) == 0) {
		return []string{name}
	}
	seen := map[string]bool{name: true}
	for todo := []string{name}; len(todo) > 0; {
		n := todo[0]
		todo = todo[1:]
		var next []string
		if g := b.gangs[n]; g != nil && g.spec != nil {
			next = g.spec.Group
		}
		for _, other := range append(slices.Collect(maps.Keys(b.listed[n])), next...) {
			if !seen[other] {
				seen[other] = true
				todo = append(todo, other)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), b.compareNames)
}

// groupKey names the group of a gang.
func (b *Book) groupKey(name string) string { return strings.Join(b.groupOf(name), ",") }

func gangsOf(key string) []string { return strings.Split(key, ",") }

// count counts the members that exist for the scheduler, and of those the bound.
func (b *Book) count(g *gang) (exist, bound int) {
	for _, m := range g.members {
		switch {
		case m.Node != "":
			exist++
			bound++
		case !m.Gated:
			exist++
		}
	}
	return exist, bound
}

// sorted returns the members of a group for which keep holds, by rank, gang, name.
func (b *Book) sorted(key string, keep func(*member) bool) (out []*member) {
	for _, name := range gangsOf(key) {
		if g := b.gangs[name]; g != nil {
			for _, m := range g.members {
				if keep(m) {
					out = append(out, m)
				}
			}
		}
	}
	slices.SortFunc(out, b.compareMembers)
	return out
}

func (b *Book) compareMembers(x, y *member) int {
	return cmp.Or(cmp.Compare(x.Rank, y.Rank), b.compareNames(x.Gang, y.Gang), b.compareNames(x.Pod, y.Pod))
}

func pending(m *member) bool { return m.Node == "" && !m.Gated }

// representative is the pending member that speaks for a group without a plan: the
// first by rank, gang, name.
func (b *Book) representative(key string) (first *member) {
	for _, name := range gangsOf(key) {
		if g := b.gangs[name]; g != nil {
			for _, m := range g.members {
				if pending(m) && (first == nil || b.compareMembers(m, first) < 0) {
					first = m
				}
			}
		}
	}
	return first
}
