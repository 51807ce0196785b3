package gang

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// Some gangs of a group may be optional (Spec.Levels). The group does not wait for an incomplete optional gang. An
// optional gang outside of the group's plan starts later, complete, in a plan of its own.

// optional returns whether the group may start without the gang.
func (g *gang) optional() bool { return g.spec != nil && len(g.spec.Levels) > 0 }

// IsOptionalNow returns whether the group of the gang has what it needs without the gang. It is false for a gang that was complete once, is
// not optional, or is unknown.
func (b *Book) IsOptionalNow(ref Ref) bool {
	g := b.gangs[ref]
	if g == nil || !g.optional() || g.satisfied {
		return false
	}
	v, ok := b.GroupOf(b.groupKey(ref))
	return ok && v.Need() == 0
}

// complete returns whether the gang has minMember members, or continues with fewer.
func (g *gang) complete() bool {
	return g.remainsSatisfied() || g.counts.exist+g.absentFinished() >= g.spec.Min
}

// tooFewWaiting returns whether match policy OnlyWaiting excludes the waiting members: they are fewer than minMember.
func (g *gang) tooFewWaiting() bool {
	if g.spec == nil || g.spec.Policy != OnlyWaiting {
		return false
	}
	waiting := g.counts.exist - g.counts.bound
	return 0 < waiting && waiting < g.spec.Min
}

// excluded returns whether the optional gang takes no part in its group's next plan. exclusion returns why.
func (b *Book) excluded(g *gang) bool {
	return g.optional() &&
		(!g.complete() || g.tooFewWaiting() || !g.remainsSatisfied() && (g.spec.TreeObstacle.Exists() || b.incompleteLevel(g) != ""))
}

// continues returns whether a started optional gang of the group has a pending member. Such members need not wait for missing gangs.
func (b *Book) continues(key Ref) bool {
	return slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool {
		g := b.gangs[ref]
		return g != nil && g.optional() && g.remainsSatisfied() && g.pending.first() != nil
	})
}

// incompleteLevel returns the lowest level above a gang that has too few complete gangs; "" if none.
func (b *Book) incompleteLevel(excludedGang *gang) string {
	if len(excludedGang.spec.Levels) < 2 {
		return "" // the only level is the group itself
	}
	c, index := b.optionalGangs(excludedGang.key), -1
	set := make(choice.Set, len(c.Gangs))
	for i, g := range c.gangs {
		set[i] = g.complete()
		if g == excludedGang {
			index = i
		}
	}
	sustainable := c.Sustainable(set)
	if index < 0 || !set[index] || sustainable[index] {
		return ""
	}
	for _, l := range excludedGang.spec.Levels {
		hasSustainableGang := false
		for i, g := range c.gangs {
			hasSustainableGang = hasSustainableGang || sustainable[i] &&
				slices.ContainsFunc(g.spec.Levels, func(o choice.Level) bool { return o.Name == l.Name })
		}
		if !hasSustainableGang {
			return l.Name
		}
	}
	return ""
}

// optionalGangs is the optional gangs of a group, as a choice between them.
type optionalGangs struct {
	choice.Choice
	gangs []*gang
}

// optionalGangs returns the optional gangs of a group; empty if it has none.
func (b *Book) optionalGangs(key Ref) (c optionalGangs) {
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.optional() {
			c.Gangs, c.gangs = append(c.Gangs, choice.Gang{Above: g.spec.Levels, Open: true}), append(c.gangs, g)
		}
	}
	return c
}

// countsAsStarted returns whether a choice treats the gang as started, so that it cannot be omitted.
func (g *gang) countsAsStarted() bool { return g.remainsSatisfied() || g.started() >= g.spec.Min }

// inPlan returns whether members of the gang have an assignment or are at the barrier.
func (g *gang) inPlan() bool { return g.counts.planned+g.counts.held > 0 }

// wakeNewRepresentative wakes the representative of a reservation if it was never tried: its optional gang was incomplete before.
func (b *Book) wakeNewRepresentative(key Ref, g *group) []Effect {
	rep := b.representative(key)
	if !g.unconfirmed || rep == nil || rep.tried || !b.gangs[rep.Gang].optional() {
		return nil
	}
	return []Effect{{Verb: Wake, Pod: rep.Pod}}
}

// mayRunWith returns whether the selected optional gangs may run without the other ones of the group.
func (b *Book) mayRunWith(key Ref, selected func(*gang) bool) bool {
	c := b.optionalGangs(key)
	set := make(choice.Set, len(c.Gangs))
	for i, g := range c.gangs {
		set[i] = selected(g)
	}
	return len(set) == 0 || c.Holds(set)
}

// tooFewGangs returns an Obstacle that names an incomplete gang, if too few optional gangs are complete.
func (b *Book) tooFewGangs(key Ref) Obstacle {
	c := b.optionalGangs(key)
	set := make(choice.Set, len(c.Gangs))
	for i, g := range c.gangs {
		set[i] = g.complete()
	}
	if c.Holds(c.Sustainable(set)) {
		return Obstacle{}
	}
	for _, ref := range b.groupOf(key) {
		if g := b.gangs[ref]; g != nil && g.optional() && !g.complete() {
			return b.incomplete(ref)
		}
	}
	return missing("fewer gangs exist than are needed")
}

// planBroken returns whether the plan contains an incomplete optional gang, or too few gangs.
func (b *Book) planBroken(key Ref) bool {
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

// mayRun returns whether the started and planned gangs may run without the other gangs. If every planned gang is started, they may.
func (b *Book) mayRun(key Ref) bool {
	if b.mayRunWith(key, func(g *gang) bool { return g.inPlan() || g.countsAsStarted() }) {
		return true
	}
	return !slices.ContainsFunc(b.groupOf(key), func(ref Ref) bool {
		g := b.gangs[ref]
		return g != nil && g.inPlan() && !g.countsAsStarted()
	})
}

// addChoice sets Choice of v if some of its gangs are optional.
func (b *Book) addChoice(v *Group) {
	c := &choice.Choice{}
	hasOptional := false
	for _, declared := range v.Gangs {
		g := b.gangs[declared.Ref]
		hasOptional = hasOptional || g.optional()
		gang := choice.Gang{Above: declared.Levels, Need: declared.Need, Open: g.optional() && !g.countsAsStarted() && !g.inPlan()}
		c.Gangs = append(c.Gangs, gang)
	}
	if hasOptional {
		v.Choice = c
		v.Count()
	}
}

// Count sets Members of each gang of the choice to the number of its pending members. The choice must not be nil.
func (g *Group) Count() {
	index := map[Ref]int{}
	for i, declared := range g.Gangs {
		index[declared.Ref], g.Choice.Gangs[i].Members = i, 0
	}
	for _, m := range g.Pending {
		if i, ok := index[m.Gang]; ok {
			g.Choice.Gangs[i].Members++
		}
	}
}

// leastTries limits the sets of gangs that are searched for the smallest.
const leastTries = 1 << 10

// smallest returns the group restricted to its smallest set of gangs. Without a choice it returns the group itself.
func (g *Group) smallest() *Group {
	if sets := g.sets(1, func(int) string { return "as many" }); len(sets) > 0 { // their classes do not matter for one set
		return sets[0]
	}
	return g
}

// sets returns the group restricted to each of up to limit minimal sets of gangs; nil if no set is valid. classOf returns equal strings for
// interchangeable gangs, given by index. A group without a choice returns itself.
func (g *Group) sets(limit int, classOf func(int) string) (all []*Group) {
	if !g.Choice.Any() {
		return []*Group{g}
	}
	c := &choice.Choice{Gangs: slices.Clone(g.Choice.Gangs), Totals: g.Choice.Totals}
	for i := range c.Gangs {
		c.Gangs[i].Like = classOf(i)
	}
	for _, set := range c.Least(limit, leastTries, nil) {
		if restricted, ok := g.Restricted(set); ok {
			all = append(all, restricted)
		}
	}
	return all
}

// Startable returns members, and omits each optional gang of which fewer than Need are among them. If no gang is optional, it omits none.
func (g *Group) Startable(members []Member) []Member {
	if !g.Choice.Any() {
		return members
	}
	count := map[Ref]int{}
	for _, m := range members {
		count[m.Gang]++
	}
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		option := g.Choice.Gangs[slices.IndexFunc(g.Gangs, func(x Gang) bool { return x.Ref == m.Gang })]
		return option.Open && count[m.Gang] < option.Need
	})
}

// Sets returns the group restricted to each of up to limit minimal sets of gangs that may start alone. If the group has what it needs, the
// sets are its further gangs, one each. It returns the group itself if nothing can be omitted. classOf returns equal strings for
// interchangeable gangs.
func (g *Group) Sets(limit int, classOf func(*Group) string) (all []*Group) {
	known := map[string]bool{}
	gangClass := func(i int) string {
		single := *g
		single.Pending = slices.DeleteFunc(slices.Clone(g.Pending), func(m Member) bool { return m.Gang != g.Gangs[i].Ref })
		return classOf(&single)
	}
	all = slices.DeleteFunc(g.sets(limit, gangClass), func(restricted *Group) bool { return len(restricted.Pending) == 0 })
	if len(all) > 0 || !g.Choice.Any() {
		return all
	}
	for i, option := range g.Choice.Gangs {
		set := g.Choice.Mandatory()
		set[i] = true
		class := gangClass(i)
		if restricted, ok := g.Restricted(set); option.Open && ok && len(restricted.Pending) > 0 && !known[class] && len(all) < limit {
			known[class] = true
			all = append(all, restricted)
		}
	}
	if len(all) == 0 {
		return []*Group{g}
	}
	return all
}

// Restricted returns a copy of the group as if the gangs outside of the set had no pending members. Need is then what each gang needs in
// the set. ok is false if the set must not run alone, or has too few members.
func (g *Group) Restricted(set choice.Set) (out *Group, ok bool) {
	needs, ok := g.Choice.Needs(set)
	if !ok {
		return nil, false
	}
	restricted := *g
	restricted.Choice = nil
	restricted.Pending = nil
	restricted.Gangs = append([]Gang(nil), g.Gangs...)
	selected := map[Ref]bool{}
	for i := range restricted.Gangs {
		declared := &restricted.Gangs[i]
		selected[declared.Ref] = set[i]
		declared.Need = needs[i]
		declared.Min += max(0, needs[i]-g.Choice.Gangs[i].Need) // a total requires more
	}
	for _, m := range g.Pending {
		if selected[m.Gang] {
			restricted.Pending = append(restricted.Pending, m)
		}
	}
	return &restricted, true
}
