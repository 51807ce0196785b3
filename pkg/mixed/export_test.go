package mixed

import "github.com/muster-scheduler/muster/pkg/plan"

// Left is how many vecs may yet be looked at.
func (w *Work) Left() int { return w.vecs }

// EachGang is the sets of gangs that all gather in one way, each by itself.
func EachGang(gangs int, how plan.Gather) (sets []Set) {
	for g := range gangs {
		sets = append(sets, Set{Gangs: []int{g}, Gather: how})
	}
	return sets
}

// Compare puts the plan first that comes first by all rules, but for how members are spread.
func Compare(w World, j Job, a, b *Plan) int {
	w.Free = w.Capacity
	m := newOutline(w, j)
	_, o := m.Order(m.draft(a), m.draft(b), "")
	return o
}

// Possible says whether the sums, and a short count, leave a plan for a job. Take may be nil: then only counts are asked.
func Possible(w World, j Job) bool {
	w.Trial = nil
	if w.Take == nil {
		m := newOutline(w, j)
		return !m.Split && m.possible()
	}
	m := newSearch(w, j)
	if m.impossible || !m.possible() {
		return false
	}
	m.makeTables()
	possible, exact := m.count(m.smallEffort())
	return possible || !exact
}
