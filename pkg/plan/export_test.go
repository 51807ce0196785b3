package plan

import "github.com/muster-scheduler/muster/pkg/offer"

// PerPair is a preference that only tests know: it charges for every two members of a domain.
var PerPair = NewCharge(func(bound, n offer.Slots) int64 { return int64(n*(n-1)/2 + bound*n) })

// Left is how many vecs may yet be looked at.
func (w *Work) Left() int { return w.vecs }

// EachGang is the sets of gangs that all gather in one way, each by itself.
func EachGang(gangs int, how Gather) (sets []Set) {
	for g := range gangs {
		sets = append(sets, Set{Gangs: []int{g}, Gather: how})
	}
	return sets
}

// Compare puts the plan first that comes first by all rules, as a Judge does.
func Compare(w World, r Request, a, b *Plan) int {
	_, o := NewJudge(w, r).Decide(a, b)
	return o
}

// CompareJob is Compare for members that differ, but for how they are spread.
func CompareJob(w JobWorld, j Job, a, b *JobPlan) int {
	w.Free = w.Room
	m := newOutline(w, j)
	_, o := m.decide(m.draft(a), m.draft(b), "")
	return o
}

// Possible says whether the sums, and a short count, leave a plan for a job. Take may be nil: then only counts are asked.
func Possible(w JobWorld, j Job) bool {
	w.Trial = nil
	if w.Take == nil {
		m := newOutline(w, j)
		return !m.split && m.possible()
	}
	m := newMixed(w, j)
	if m.never || !m.possible() {
		return false
	}
	m.makeTables()
	possible, exact := m.count(m.little())
	return possible || !exact
}
