package gang

import (
	"fmt"
	"slices"
)

// Gangs start together if each lists the other, and so on through those that these list. Who
// lists a gang that does not list it waits alone, and that gang knows nothing of it: nobody
// can stop a stranger's gang by naming it.
//
// Who belongs together is asked at every step and seldom changes: each gang keeps its group,
// and what keeps it from forming one. regroup is called for all whose group may be another
// now.

// MaxGroupSize is how many gangs a group has at the most.
const MaxGroupSize = 64

// groupOf returns, sorted, the gangs that must start together with the named one. The
// slice is shared.
func (b *Book) groupOf(ref Ref) []Ref {
	if g := b.gangs[ref]; g != nil {
		return g.group
	}
	return []Ref{ref}
}

// groupKey names the group of a gang: by its first gang.
func (b *Book) groupKey(ref Ref) Ref {
	if g := b.gangs[ref]; g != nil {
		return g.key
	}
	return ref
}

// isKey says whether there is a group of this key now.
func (b *Book) isKey(key Ref) bool {
	g := b.gangs[key]
	return g != nil && g.key == key
}

// lists are the gangs that a gang says must start together with it; none, if they are too
// many.
func (g *gang) lists() []Ref {
	if g.spec == nil || len(g.spec.Group) > MaxGroupSize {
		return nil
	}
	return g.spec.Group
}

// agree says whether of two gangs each lists the other.
func (b *Book) agree(x, y Ref) bool { return b.listed[x][y] && b.listed[y][x] }

// connected finds the group of a gang, sorted: those with whom it agrees, and theirs. If
// they are too many, all says so, and the group holds some of them.
func (b *Book) connected(ref Ref) (group []Ref, all bool) {
	group = []Ref{ref}
	g := b.gangs[ref]
	if g == nil || len(g.lists()) == 0 {
		return group, true
	}
	seen := map[Ref]bool{ref: true}
	for i := 0; i < len(group); i++ {
		for _, other := range b.gangs[group[i]].lists() {
			if !seen[other] && b.agree(group[i], other) {
				seen[other] = true
				group = append(group, other)
			}
		}
		if len(group) > MaxGroupSize {
			return group, false
		}
	}
	slices.SortFunc(group, b.names.refs)
	return group, true
}

// list notes whom a gang lists now, and returns those whose group or whose waiting may be
// another because of that, itself the first.
func (b *Book) list(ref Ref, was, is []Ref) (touched []Ref) {
	for _, other := range was {
		delete(b.listed[other], ref)
		if len(b.listed[other]) == 0 {
			delete(b.listed, other)
		}
	}
	for _, other := range is {
		if b.listed[other] == nil {
			b.listed[other] = map[Ref]bool{}
		}
		b.listed[other][ref] = true
	}
	touched = []Ref{ref}
	for _, other := range slices.Concat(was, is) {
		if other != ref && b.listed[ref][other] {
			touched = append(touched, other)
		}
	}
	return touched
}

// listersOf are the gangs that list one, sorted.
func (b *Book) listersOf(ref Ref) []Ref {
	listers := make([]Ref, 0, len(b.listed[ref]))
	for other := range b.listed[ref] {
		if other != ref {
			listers = append(listers, other)
		}
	}
	slices.SortFunc(listers, b.names.refs)
	return listers
}

// regroup finds the groups of these gangs, and of all that are in one with them, anew. What
// was planned for a group that is another now is void. It returns the gangs of the groups
// that have changed, too.
func (b *Book) regroup(refs []Ref) (changed []Ref, out []Effect) {
	type change struct {
		gang  *gang
		group []Ref
		whole bool
	}
	var changes []change
	done := map[Ref]bool{}
	for _, ref := range refs {
		// Of a group that has become too large or has fallen apart, each.
		for _, start := range append([]Ref{ref}, b.groupOf(ref)...) {
			if done[start] || b.gangs[start] == nil {
				continue
			}
			group, all := b.connected(start)
			for _, other := range group {
				done[other] = true
				g, to := b.gangs[other], group
				if !all {
					to = []Ref{other}
				}
				if !slices.Equal(g.group, to) || g.crowded == all {
					changes = append(changes, change{g, to, all})
					changed = append(changed, other)
				}
			}
		}
	}
	for _, c := range changes {
		if c.gang.group != nil {
			out = append(out, b.disband(c.gang.key)...)
		}
	}
	for _, c := range changes {
		c.gang.group, c.gang.key, c.gang.crowded = c.group, c.group[0], !c.whole
		for _, m := range c.gang.members {
			b.change(m, b.notePlace)
		}
	}
	return changed, out
}

// noteStrangers notes what keeps a gang from forming the group that it lists.
func (b *Book) noteStrangers(ref Ref) {
	if g := b.gangs[ref]; g != nil {
		g.stranger = b.stranger(ref, g)
	}
}

// stranger says which of the gangs that one lists is missing or does not list it, or that
// there are too many.
func (b *Book) stranger(ref Ref, g *gang) Refusal {
	switch {
	case g.spec == nil:
		return Refusal{}
	case len(g.spec.Group) > MaxGroupSize:
		return Refusal{By: Declaration, Words: fmt.Sprintf("it lists %d gangs; supported values: at most %d", len(g.spec.Group), MaxGroupSize)}
	case g.crowded:
		return Refusal{By: Consent, Words: fmt.Sprintf("its group has more than %d gangs", MaxGroupSize)}
	}
	for _, other := range g.lists() {
		o := b.gangs[other]
		switch {
		case other == ref:
		case o == nil || o.spec == nil:
			return missing("gang %s of the group is missing", other)
		case !b.listed[ref][other]:
			return Refusal{By: Consent, Words: fmt.Sprintf("gang %s does not list %s", other, ref)}
		}
	}
	return Refusal{}
}

// Misses says whether a gang lists one that does not exist, without which it does not start.
func (b *Book) Misses(ref Ref) bool {
	g := b.gangs[ref]
	if g == nil || g.optional() {
		return false
	}
	return slices.ContainsFunc(g.lists(), func(other Ref) bool { return b.gangs[other] == nil || b.gangs[other].spec == nil })
}

// disband forgets all of a group that will be another one.
func (b *Book) disband(key Ref) []Effect {
	delete(b.resumed, key)
	if b.groups[key] == nil {
		return b.endAhead(key)
	}
	out := b.forget(key, "the GangGroup changed")
	delete(b.groups, key)
	return append(out, b.endAhead(key)...)
}
