package gang

import (
	"fmt"
	"slices"
)

// Gangs start together if each lists the other, directly or through further gangs. A gang that lists a gang which
// does not list it waits alone. So no user can stop a foreign gang by naming it.
//
// Groups are read often and change seldom, so each gang keeps its group and what prevents it. regroup is called for
// all gangs whose group may have changed.

// MaxGroupSize is the largest number of gangs in a group.
const MaxGroupSize = 64

// groupOf returns the gangs that must start together with ref, sorted. The slice is shared.
func (b *Book) groupOf(ref Ref) []Ref {
	if g := b.gangs[ref]; g != nil {
		return g.group
	}
	return []Ref{ref}
}

// groupKey returns the key of a gang's group: its first gang.
func (b *Book) groupKey(ref Ref) Ref {
	if g := b.gangs[ref]; g != nil {
		return g.key
	}
	return ref
}

// isKey returns whether a group has this key now.
func (b *Book) isKey(key Ref) bool {
	g := b.gangs[key]
	return g != nil && g.key == key
}

// groupList returns the gangs that the gang lists; nil if they are too many.
func (g *gang) groupList() []Ref {
	if g.spec == nil || len(g.spec.Group) > MaxGroupSize {
		return nil
	}
	return g.spec.Group
}

// agree returns whether two gangs list each other.
func (b *Book) agree(x, y Ref) bool { return b.listedBy[x][y] && b.listedBy[y][x] }

// connected returns the gangs connected to ref by agree, itself included, sorted. If complete is false, there are too many, and some miss.
func (b *Book) connected(ref Ref) (group []Ref, complete bool) {
	group = []Ref{ref}
	g := b.gangs[ref]
	if g == nil || len(g.groupList()) == 0 {
		return group, true
	}
	seen := map[Ref]bool{ref: true}
	for i := 0; i < len(group); i++ {
		for _, other := range b.gangs[group[i]].groupList() {
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

// setListed records that ref now lists the gangs current instead of previous. It returns ref and the gangs whose group may have changed.
func (b *Book) setListed(ref Ref, previous, current []Ref) (touched []Ref) {
	for _, other := range previous {
		delete(b.listedBy[other], ref)
		if len(b.listedBy[other]) == 0 {
			delete(b.listedBy, other)
		}
	}
	for _, other := range current {
		if b.listedBy[other] == nil {
			b.listedBy[other] = map[Ref]bool{}
		}
		b.listedBy[other][ref] = true
	}
	touched = []Ref{ref}
	for _, other := range slices.Concat(previous, current) {
		if other != ref && b.listedBy[ref][other] {
			touched = append(touched, other)
		}
	}
	return touched
}

// Listers returns the gangs that list ref, without itself, sorted.
func (b *Book) Listers(ref Ref) []Ref {
	listers := make([]Ref, 0, len(b.listedBy[ref]))
	for other := range b.listedBy[ref] {
		if other != ref {
			listers = append(listers, other)
		}
	}
	slices.SortFunc(listers, b.names.refs)
	return listers
}

// regroup recomputes the groups of these gangs and of all gangs in a group with them. The plan of a changed group is dropped. It returns
// the gangs whose group changed.
func (b *Book) regroup(refs []Ref) (changed []Ref, out []Effect) {
	type change struct {
		gang  *gang
		group []Ref
		whole bool
	}
	var changes []change
	done := map[Ref]bool{}
	for _, ref := range refs {
		// A group that became too large or fell apart is handled gang by gang.
		for _, start := range append([]Ref{ref}, b.groupOf(ref)...) {
			if done[start] || b.gangs[start] == nil {
				continue
			}
			group, complete := b.connected(start)
			for _, other := range group {
				done[other] = true
				g, target := b.gangs[other], group
				if !complete {
					target = []Ref{other}
				}
				if !slices.Equal(g.group, target) || g.oversized == complete {
					changes = append(changes, change{g, target, complete})
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
		c.gang.group = c.group
		c.gang.key = c.group[0]
		c.gang.oversized = !c.whole
		for _, m := range c.gang.members {
			b.change(m, b.notePlanned)
		}
	}
	return changed, out
}

// noteGroupProblem updates groupProblem of a gang.
func (b *Book) noteGroupProblem(ref Ref) {
	if g := b.gangs[ref]; g != nil {
		g.groupProblem = b.findGroupProblem(ref, g)
	}
}

// findGroupProblem returns an Obstacle if a listed gang is missing or does not list ref, or if there are too many gangs.
func (b *Book) findGroupProblem(ref Ref, g *gang) Obstacle {
	switch {
	case g.spec == nil:
		return Obstacle{}
	case len(g.spec.Group) > MaxGroupSize:
		return Obstacle{By: Declaration, Words: fmt.Sprintf("the gang lists %d gangs; list at most %d", len(g.spec.Group), MaxGroupSize)}
	case g.oversized:
		return Obstacle{By: Consent, Words: fmt.Sprintf("the gang group has more than %d gangs", MaxGroupSize)}
	}
	for _, other := range g.groupList() {
		o := b.gangs[other]
		switch {
		case other == ref:
		case o == nil || o.spec == nil:
			return missing("gang %s of the gang group does not exist: create it, or remove it from the group", other)
		case !b.listedBy[ref][other]:
			return Obstacle{By: Consent, Words: fmt.Sprintf("gang %s does not list %s, which waits: each gang of a gang group must list the others",
				other, ref)}
		}
	}
	return Obstacle{}
}

// MissesListedGang returns whether the gang lists a gang that does not exist. It is false for an optional gang.
func (b *Book) MissesListedGang(ref Ref) bool {
	g := b.gangs[ref]
	if g == nil || g.optional() {
		return false
	}
	return slices.ContainsFunc(g.groupList(), func(other Ref) bool { return b.gangs[other] == nil || b.gangs[other].spec == nil })
}

// disband deletes the plan and the state of a group whose gangs will change.
func (b *Book) disband(key Ref) []Effect {
	delete(b.resumed, key)
	if b.groups[key] == nil {
		return b.releaseFuture(key)
	}
	out := b.forget(key, "the GangGroup changed")
	delete(b.groups, key)
	return append(out, b.releaseFuture(key)...)
}
