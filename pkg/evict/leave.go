package evict

import "github.com/muster-scheduler/muster/pkg/choice"

// Leave says which gangs leave whole where so many members of each do: those of whom more leave
// than they can spare, and all of a group that cannot run on without those.
func Leave(gangs []Gang, members []int) []bool {
	out := make([]bool, len(gangs))
	for i, g := range gangs {
		out[i] = members[i] > g.Spare
	}
	for i, g := range gangs {
		if out[i] && g.Group > 0 && !runsOn(gangs, g.Group, func(k int) bool { return out[k] }) {
			for k := range gangs {
				out[k] = out[k] || gangs[k].Group == g.Group
			}
		}
	}
	return out
}

// optional says whether others of its group may run on without the gang.
func (g Gang) optional() bool { return g.Group > 0 && len(g.Above) > 0 }

// runsOn says whether a group may run on when some of its gangs have left.
func runsOn(gangs []Gang, group int, left func(int) bool) bool {
	c, set := &choice.Choice{}, choice.Set(nil)
	for i, g := range gangs {
		switch {
		case g.Group != group:
		case len(g.Above) == 0:
			if left(i) {
				return false
			}
		default:
			c.Gangs, set = append(c.Gangs, choice.Gang{Above: g.Above}), append(set, !left(i) && !g.Short)
		}
	}
	return c.Holds(set)
}
