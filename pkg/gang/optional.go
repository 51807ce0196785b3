package gang

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// Of the gangs of a group some may be left out (Spec.Above). Who cannot be whole yet is not
// waited for, and who is not in the group's plan stands in nobody's way: both start later, whole,
// in a plan of their own beside those who run.

// optional says whether a group may do without a gang: others may be enough.
func (g *gang) optional() bool { return g.spec != nil && len(g.spec.Above) > 0 }

// DoesWithout says whether a gang's group has what it needs without the gang: it starts when there is room
// for it, and is missed by nobody.
func (b *Book) DoesWithout(ref Ref) bool {
	g := b.gangs[ref]
	if g == nil || !g.optional() || g.satisfied {
		return false
	}
	v, ok := b.GroupOf(b.groupKey(ref))
	return ok && v.Need() == 0
}

// complete says whether a gang has as many members as it needs, or goes on without.
func (g *gang) complete() bool {
	return g.stays() || g.counts.exist+g.standIns() >= g.spec.Min
}

// under says whether so few members wait that the match policy keeps them from being tried: it
// does not count running members.
func (g *gang) under() bool {
	if g.spec == nil || g.spec.Policy != OnlyWaiting {
		return false
	}
	waiting := g.counts.exist - g.counts.bound
	return 0 < waiting && waiting < g.spec.Min
}

// out says whether a gang takes no part in what its group does next: it is not whole, or is below
// a level that has too few gangs which are.
func (b *Book) out(g *gang) bool {
	return g.optional() && (!g.complete() || g.under() || !g.stays() && (g.spec.Lacks.Is() || b.lacking(g) != ""))
}

// goesOn says that members wait of a gang in a tree that runs. They need not wait for gangs of it that are no more.
func (b *Book) goesOn(key Ref) bool {
	return slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool {
		g := b.gangs[ref]
		return g != nil && g.optional() && g.stays() && g.pending.first() != nil
	})
}

// lacking is the level above a gang that has too few gangs which are whole; "" if none has.
func (b *Book) lacking(of *gang) string {
	if len(of.spec.Above) < 2 {
		return "" // that is the group itself
	}
	c, at := b.counted(of.key), -1
	set := make(choice.Set, len(c.Gangs))
	for i, g := range c.of {
		set[i] = g.complete()
		if g == of {
			at = i
		}
	}
	last := c.Lasting(set)
	if at < 0 || !set[at] || last[at] {
		return ""
	}
	for _, l := range of.spec.Above {
		alone := false // whoever is below it is out
		for i, g := range c.of {
			alone = alone || last[i] && slices.ContainsFunc(g.spec.Above, func(o choice.Level) bool { return o.Name == l.Name })
		}
		if !alone {
			return l.Name
		}
	}
	return ""
}

// counted are the gangs of a group that it may do without, as a choice between them.
type counted struct {
	choice.Choice
	of []*gang
}

func (b *Book) counted(key Ref) (c counted) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.optional() {
			c.Gangs, c.of = append(c.Gangs, choice.Gang{Above: g.spec.Above, Open: true}), append(c.of, g)
		}
	}
	return c
}

// ran says that a gang of those counts as having started.
func (g *gang) ran() bool { return g.stays() || g.started() >= g.spec.Min }

// inPlan says whether members of a gang have a place, or hold one.
func (g *gang) inPlan() bool { return g.counts.planned+g.counts.held > 0 }

// newSpeaker sends the representative of a group whose places are reserved, if it has become that when
// its gang became whole: it was kept out until then, and nobody else is let in.
func (b *Book) newSpeaker(key Ref, g *group) []Effect {
	rep := b.representative(key)
	if !g.waiting || rep == nil || rep.tried || !b.gangs[rep.Gang].optional() {
		return nil
	}
	return []Effect{{Verb: Wake, Pod: rep.Pod}}
}

// holds says whether the gangs of a group that are meant may run without the others.
func (b *Book) holds(key Ref, are func(*gang) bool) bool {
	c := b.counted(key)
	set := make(choice.Set, len(c.Gangs))
	for i, g := range c.of {
		set[i] = are(g)
	}
	return len(set) == 0 || c.Holds(set)
}

// tooFewGangs says which gang a group waits for that could do without some.
func (b *Book) tooFewGangs(key Ref) Refusal {
	c := b.counted(key)
	set := make(choice.Set, len(c.Gangs))
	for i, g := range c.of {
		set[i] = g.complete()
	}
	if c.Holds(c.Lasting(set)) {
		return Refusal{}
	}
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.optional() && !g.complete() {
			return b.incomplete(ref)
		}
	}
	return missing("fewer gangs exist than are needed")
}

// falters says that a plan is not one any more for a gang that has a part in it, or for too few.
func (b *Book) falters(key Ref) bool {
	if g := b.groups[key]; g == nil || len(g.plan) == 0 {
		return false
	}
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.optional() && g.inPlan() && !g.complete() {
			return true
		}
	}
	return !b.mayRun(key)
}

// mayRun says whether those who run and who are in the plan may run without the others. Who has
// started goes on, whoever is left of its group.
func (b *Book) mayRun(key Ref) bool {
	if b.holds(key, func(g *gang) bool { return g.inPlan() || g.ran() }) {
		return true
	}
	return !slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool {
		g := b.gangs[ref]
		return g != nil && g.inPlan() && !g.ran()
	})
}

// choice notes what may be left out of a group, gang by gang.
func (b *Book) choice(v *Group) {
	c := &choice.Choice{}
	any := false
	for _, of := range v.Gangs {
		g := b.gangs[of.Ref]
		any = any || g.optional()
		gang := choice.Gang{Above: of.Above, Need: of.Need, Open: g.optional() && !g.ran() && !g.inPlan()}
		c.Gangs = append(c.Gangs, gang)
	}
	if any {
		v.Choice = c
		v.Count()
	}
}

// Count counts the members that wait, for the choice.
func (g *Group) Count() {
	at := map[Ref]int{}
	for i, of := range g.Gangs {
		at[of.Ref], g.Choice.Gangs[i].Members = i, 0
	}
	for _, m := range g.Pending {
		if i, ok := at[m.Gang]; ok {
			g.Choice.Gangs[i].Members++
		}
	}
}

// leastTries bounds how many sets of gangs are looked at to find the least.
const leastTries = 1 << 10

// least is the group with as few gangs as it can do with: it is itself if it has no choice.
func (g *Group) least() *Group {
	if sets := g.sets(1, func(int) string { return "as many" }); len(sets) > 0 { // nothing else matters here
		return sets[0]
	}
	return g
}

// sets returns the group with only the gangs of a set, for each set of gangs of which none can be left out; gangs that are like each other are
// not told apart, by their indexes. A group that needs all of its gangs is itself.
func (g *Group) sets(most int, like func(int) string) (all []*Group) {
	if !g.Choice.Any() {
		return []*Group{g}
	}
	c := &choice.Choice{Gangs: slices.Clone(g.Choice.Gangs), Totals: g.Choice.Totals}
	for i := range c.Gangs {
		c.Gangs[i].Like = like(i)
	}
	for _, set := range c.Least(most, leastTries, nil) {
		if only, ok := g.Only(set); ok {
			all = append(all, only)
		}
	}
	return all
}

// Startable returns some members without those of gangs that may be left out and of which they are too few to start.
func (g *Group) Startable(members []Member) []Member {
	if !g.Choice.Any() {
		return members
	}
	count := map[Ref]int{}
	for _, m := range members {
		count[m.Gang]++
	}
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		of := g.Choice.Gangs[slices.IndexFunc(g.Gangs, func(x Gang) bool { return x.Ref == m.Gang })]
		return of.Open && count[m.Gang] < of.Need
	})
}

// Sets returns the group with only the gangs of a set, for each set that may start alone and of which none can be left out. Of a group that has
// what it needs these are its further gangs, each with those that run. Gangs are told apart by what like returns for a group with only their members.
func (g *Group) Sets(most int, like func(*Group) string) (all []*Group) {
	known := map[string]bool{}
	likeOf := func(i int) string {
		one := *g
		one.Pending = slices.DeleteFunc(slices.Clone(g.Pending), func(m Member) bool { return m.Gang != g.Gangs[i].Ref })
		return like(&one)
	}
	all = slices.DeleteFunc(g.sets(most, likeOf), func(only *Group) bool { return len(only.Pending) == 0 })
	if len(all) > 0 || !g.Choice.Any() {
		return all
	}
	for i, of := range g.Choice.Gangs {
		set := g.Choice.Nobody()
		set[i] = true
		is := likeOf(i)
		if only, ok := g.Only(set); of.Open && ok && len(only.Pending) > 0 && !known[is] && len(all) < most {
			known[is] = true
			all = append(all, only)
		}
	}
	if len(all) == 0 {
		return []*Group{g}
	}
	return all
}

// Only is the group as if nobody waited of the gangs that are not in a set, all of whom it needs;
// ok is false if these must not run without the others.
func (g *Group) Only(set choice.Set) (only *Group, ok bool) {
	needs, ok := g.Choice.Needs(set)
	if !ok {
		return nil, false
	}
	some := *g
	some.Choice, some.Pending, some.Gangs = nil, nil, append([]Gang(nil), g.Gangs...)
	in := map[Ref]bool{}
	for i := range some.Gangs {
		of := &some.Gangs[i]
		in[of.Ref] = set[i]
		of.Need = needs[i]
		of.Min += max(0, needs[i]-g.Choice.Gangs[i].Need) // that a total asks for
	}
	for _, m := range g.Pending {
		if in[m.Gang] {
			some.Pending = append(some.Pending, m)
		}
	}
	return &some, true
}
