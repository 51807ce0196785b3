package mixed

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/plan"
)

// chooseAll is Choose for a job that needs all of its gangs, which looks at no more than so many
// vecs before it tries one by one.
func chooseAll(w World, j Job, vecs int) (*Plan, *plan.Refusal) {
	if w.Trial != nil {
		known := newMemory(w.Trial)
		defer known.catchUp()
		w.Trial = known
	}
	m := newSearch(w, j)
	p, exact := m.choose(vecs)
	if p != nil && !m.holds(p) {
		p = nil
	}
	switch {
	case p == nil && (m.never || exact && w.Trial == nil):
		return nil, m.refuse(false)
	case p == nil:
		s := newTrials(m)
		if p = s.choose(0); p == nil {
			return nil, m.refuse(s.cut)
		}
	case w.Trial != nil && len(p.Puts) < int(j.members()):
		// Members who fit nowhere now may fit when others are there.
		s := newTrials(m)
		p = cmp.Or(s.choose(len(p.Puts)), p)
		p.NotAll = p.NotAll || s.cut
	}
	return p, nil
}

// holds says whether a plan passes in the trial, if there is one, and notes the order
// in which it does.
func (m *search) holds(p *Plan) bool {
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

// rehearse puts members in the trial, each as soon as it fits, and returns those that
// are there then. If that is too much to ask, it gives up.
func rehearse(s Trial, j Job, puts []Put) (order []Put, ok bool) {
	left := slices.Clone(puts)
	tries := len(puts) + askedInAll
	for len(left) > 0 {
		refused := Put{Class: -1} // of puts that are alike, one is asked
		i := slices.IndexFunc(left, func(p Put) bool {
			if p == refused || tries == 0 {
				return false
			}
			tries--
			refused = p
			return s.Fits(j.Classes[p.Class].Kind, p.Node)
		})
		if i < 0 {
			return order, false
		}
		s.Put(j.Classes[left[i].Class].Kind, left[i].Node)
		order = append(order, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return order, true
}
