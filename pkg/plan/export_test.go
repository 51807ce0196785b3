package plan

import "github.com/muster-scheduler/muster/pkg/offer"

// PerPair is a preference that only tests know: it charges for every two members of a domain.
var PerPair = NewCharge(func(bound, n offer.Slots) int64 { return int64(n*(n-1)/2 + bound*n) })

// Left is how many vecs may yet be looked at.
func (w *Work) Left() int { return w.vecs }

// BeyondBound says of the domain of a plan for n members how many nodes more they touch than they must, as it
// was known before these were counted; ok is false if that was not asked.
func BeyondBound(w World, r Request, n offer.Slots) (more int64, ok bool) {
	s := NewSearch(w, r, 0, nil)
	p := s.Plan(n)
	b, ok := s.bounds[p.Domain]
	if !ok {
		return 0, false
	}
	price, _ := s.wholes[p.Domain].Price(n)
	return price[0]&(1<<s.coarse.shift()-1)>>s.shift() - b.least, true
}
