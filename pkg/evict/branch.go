package evict

import (
	"maps"
	"slices"
)

// branch is a part of all sets of victims: those gangs leave whole, and those pods stay.
// In it every victim of a charged budget violates it; what the budget allows is taken off
// again.
type branch struct {
	whole   map[int]bool
	stay    map[Pick]bool
	charged map[Budget]bool
	// plain are the budgets that were charged to no avail.
	plain map[Budget]bool
}

// split says, of a node's victims, who may still be chosen and who has left.
func (b branch) split(node int, victims []Victim) (left, gone []int) {
	for v := range victims {
		switch gang := victims[v].Gang; {
		case gang > 0 && b.whole[gang]:
			gone = append(gone, v)
		case !b.stay[Pick{node, v}]:
			left = append(left, v)
		}
	}
	return left, gone
}

// leaves says whether a branch leaves the victims of a node as they are.
func (b branch) leaves(node int, victims []Victim) bool {
	if len(b.whole)+len(b.stay)+len(b.charged) == 0 {
		return true
	}
	for v := range victims {
		victim := &victims[v]
		if victim.Gang > 0 && b.whole[victim.Gang] || b.stay[Pick{node, v}] {
			return false
		}
		for _, budget := range victim.Budgets {
			if b.charged[budget] {
				return false
			}
		}
	}
	return true
}

// pick returns some of the victims as the branch has them.
func (b branch) pick(victims []Victim, some []int) []Victim {
	out := make([]Victim, len(some))
	for i, v := range some {
		out[i] = victims[v]
		if len(b.charged) > 0 {
			out[i].Budgets = slices.Clone(out[i].Budgets)
			for k, budget := range out[i].Budgets {
				if b.charged[budget] {
					out[i].Budgets[k].Allowed = 0
				}
			}
		}
	}
	return out
}

// union is gone and those of left that out names.
func union(gone, left, out []int) []int {
	all := slices.Clone(gone)
	for _, v := range out {
		all = append(all, left[v])
	}
	return sorted(all)
}

func (b branch) with(gangs ...int) branch {
	b.whole = set(b.whole, gangs...)
	return b
}

func (b branch) without(some ...Pick) branch {
	b.stay = set(b.stay, some...)
	return b
}

func (b branch) charge(some ...Budget) branch {
	b.charged = set(b.charged, some...)
	return b
}

// discharge no longer charges some budgets, and never again.
func (b branch) discharge(some ...Budget) branch {
	b.plain = set(b.plain, some...)
	b.charged = maps.Clone(b.charged)
	maps.DeleteFunc(b.charged, func(budget Budget, _ bool) bool { return b.plain[budget] })
	return b
}

func set[K comparable](had map[K]bool, more ...K) map[K]bool {
	out := make(map[K]bool, len(had)+len(more))
	maps.Copy(out, had)
	for _, k := range more {
		out[k] = true
	}
	return out
}
