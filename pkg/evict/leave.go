package evict

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/choice"
)

// Leave says which gangs leave whole where so many members of each do: those of whom more leave
// than they can spare, and who cannot run without those.
func Leave(gangs []Gang, members []int) []bool {
	out := make([]bool, len(gangs))
	for i, g := range gangs {
		out[i] = members[i] > g.Spare
	}
	for _, f := range families(gangs) {
		for _, i := range f.leave(func(i int) bool { return out[i] }) {
			out[i] = true
		}
	}
	return out
}

// Apart sorts gangs that leave into parts: who of a part leaves takes all of it along at the most,
// and nobody of another part. leave is as Leave returns it.
func Apart(gangs []Gang, leave []bool) (parts [][]int) {
	for _, f := range families(gangs) {
		var own [][]int
		for _, i := range f.of {
			if !leave[i] || !f.some && len(own) > 0 {
				continue
			}
			part := f.unit(i, func(i int) bool { return leave[i] }, func(int) bool { return true })
			own = slices.DeleteFunc(own, func(other []int) bool {
				if !meet(part, other) {
					return false
				}
				part = append(part, other...)
				return true
			})
			slices.Sort(part)
			own = append(own, slices.Compact(part))
		}
		parts = append(parts, own...)
	}
	return parts
}

// meet says whether anybody is in both.
func meet(a, b []int) bool {
	return slices.ContainsFunc(a, func(i int) bool { return slices.Contains(b, i) })
}

// family is the gangs of one group, by index.
//
// Where some are enough, gangs hang in a tree. A level goes down if too few of its children run
// on; then all below it leave, and it is a child less of the next one up. If the topmost goes
// down, all leave.
type family struct {
	gangs []Gang
	of    []int
	some  bool          // it may run without some of them
	alone map[int][]int // by gang, who leaves where only it breaks, as far as it was asked
}

// families lists the groups; who is in none is one.
func families(gangs []Gang) (out []*family) {
	known := map[int]*family{}
	for i, g := range gangs {
		f := known[g.Group]
		if f == nil {
			f = &family{gangs: gangs}
			out = append(out, f)
			if g.Group > 0 {
				known[g.Group] = f
			}
		}
		f.of, f.some = append(f.of, i), f.some || g.optional()
	}
	return out
}

// optional says whether others of its group may run on without the gang.
func (g Gang) optional() bool { return g.Group > 0 && len(g.Above) > 0 }

// leave lists those who leave where some break: these, and who cannot run without them. The more
// break the more leave, and if all of those break nobody leaves besides.
func (f *family) leave(breaks func(int) bool) (out []int) {
	if !slices.ContainsFunc(f.of, breaks) {
		return nil
	}
	down, holds := f.down(breaks)
	if !holds {
		return f.of
	}
	for _, i := range f.of {
		if breaks(i) || slices.ContainsFunc(f.gangs[i].Above, func(l choice.Level) bool { return down[l.Name] }) {
			out = append(out, i)
		}
	}
	return out
}

// down are the levels that go down where some break; holds is false if all do.
func (f *family) down(breaks func(int) bool) (down map[string]bool, holds bool) {
	if !f.some {
		return nil, false
	}
	c, set := &choice.Choice{}, choice.Set(nil)
	for _, i := range f.of {
		switch g := f.gangs[i]; {
		case len(g.Above) > 0:
			c.Gangs, set = append(c.Gangs, choice.Gang{Above: g.Above, Open: true}), append(set, !breaks(i) && !g.Short)
		case breaks(i):
			return nil, false
		}
	}
	last := c.Lasting(set)
	if !c.Holds(last) {
		return nil, false
	}
	runs := map[string]bool{}
	for k, g := range c.Gangs {
		for _, l := range g.Above {
			runs[l.Name] = runs[l.Name] || last[k]
		}
	}
	down = map[string]bool{}
	for _, i := range f.of { // what was down before is nobody's fault
		above := f.gangs[i].Above
		for k, l := range above {
			down[l.Name] = down[l.Name] || breaks(i) && !runs[l.Name] && k < len(above)-1
		}
	}
	return down, true
}

// unit lists, of those who leave, who stays if a gang does, so that nobody who stays misses
// anybody: those who would take it along, or all below a level, the lowest that will do, or all. Of those who
// leave some break whoever stays.
func (f *family) unit(gang int, leave, breaks func(int) bool) []int {
	var all []int
	for _, i := range f.of {
		if leave(i) {
			all = append(all, i)
		}
	}
	if !f.some {
		return all
	}
	may := func(some func(int) bool) []int {
		unit := f.with(all, some)
		left := f.leave(func(i int) bool { return leave(i) && breaks(i) && !slices.Contains(unit, i) })
		if meet(unit, left) {
			return nil
		}
		return unit
	}
	unit := may(func(i int) bool { return i == gang })
	for _, l := range f.gangs[gang].Above {
		if unit == nil {
			unit = may(func(i int) bool {
				return slices.ContainsFunc(f.gangs[i].Above, func(o choice.Level) bool { return o.Name == l.Name })
			})
		}
	}
	if unit == nil {
		return all
	}
	return unit
}

// with lists, of all who leave, some and those who take any of them along.
func (f *family) with(all []int, some func(int) bool) (out []int) {
	for _, i := range all {
		if f.alone == nil {
			f.alone = map[int][]int{}
		}
		if _, known := f.alone[i]; !known {
			f.alone[i] = f.leave(func(k int) bool { return k == i })
		}
		if slices.ContainsFunc(f.alone[i], some) {
			out = append(out, i)
		}
	}
	return out
}
