package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/plan"
)

// chooseAll returns the first plan for a job that needs all its gangs, or a refusal. It uses tables; if they exceed vecs vectors or find no
// plan that passes the trial, it places members one by one.
func chooseAll(w World, j Job, vecs int) (*Plan, *plan.Refusal) {
	if w.Trial != nil {
		known := &memory{trial: w.Trial, answers: map[fitsCall]bool{}}
		defer known.catchUp()
		w.Trial = known
	}
	m := newSearch(w, j)
	p, exact := m.choose(vecs)
	if p != nil && !m.passesTrial(p) {
		p = nil
	}
	switch {
	case p == nil && (m.impossible || exact && w.Trial == nil):
		return nil, m.refuse(false)
	case p == nil:
		s := newTrials(m)
		if p = s.choose(0); p == nil {
			return nil, m.refuse(s.cut)
		}
	case w.Trial != nil && len(p.Puts) < int(j.members()):
		// Members that fit nowhere now may fit beside other members.
		s := newTrials(m)
		p = cmp.Or(s.choose(len(p.Puts)), p)
		p.NotAll = p.NotAll || s.cut
	}
	return p, nil
}

// passesTrial returns whether the trial accepts the members of p in an order that rehearse finds; true without a trial. It sorts p.Puts in
// this order. If it returns false, p.Puts lacks members, and the caller discards p.
func (m *search) passesTrial(p *Plan) bool {
	if m.Trial == nil {
		return true
	}
	order, ok := rehearse(m.Trial, m.Job, p.Puts)
	for range order {
		m.Trial.Undo()
	}
	p.Puts, p.InOrder = order, true
	return ok
}

// rehearse puts members on s, each as soon as it fits, and returns them in that order. ok is false if a member fits in no order tried, or
// after too many tries. The caller undoes the puts.
func rehearse(s Trial, j Job, puts []Put) (order []Put, ok bool) {
	remaining := slices.Clone(puts)
	tries := len(puts) + fitsCallsInAll
	for len(remaining) > 0 {
		rejected := Put{Class: -1} // equal puts are tried once
		i := slices.IndexFunc(remaining, func(p Put) bool {
			if p == rejected || tries == 0 {
				return false
			}
			tries--
			rejected = p
			return s.Fits(j.Classes[p.Class].Kind, p.Node)
		})
		if i < 0 {
			return order, false
		}
		s.Put(j.Classes[remaining[i].Class].Kind, remaining[i].Node)
		order = append(order, remaining[i])
		remaining = slices.Delete(remaining, i, i+1)
	}
	return order, true
}
