package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/plan"
)

// chooseAll is Choose for a job that needs all its gangs. It examines at most vecs vectors before it tries members one by one.
func chooseAll(w World, j Job, vecs int) (*Plan, *plan.Refusal) {
	if w.Trial != nil {
		known := newMemory(w.Trial)
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

// passesTrial returns whether a plan passes the trial, if there is one, and records the order in which it does.
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

// rehearse puts members in the trial, each as soon as it fits, and returns the placed ones. It gives up after many tries.
func rehearse(s Trial, j Job, puts []Put) (order []Put, ok bool) {
	remaining := slices.Clone(puts)
	tries := len(puts) + askedInAll
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
