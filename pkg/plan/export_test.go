package plan

import "github.com/muster-scheduler/muster/pkg/offer"

// PerPair is a preference that only tests know: it charges for every two members of a domain.
var PerPair = addCharge(func(bound, n offer.Slots) int64 { return int64(n*(n-1)/2 + bound*n) })

func addCharge(charge func(bound, members offer.Slots) int64) Charge {
	charges = append(charges, charge)
	return Charge(len(charges) - 1)
}

// Left is how many vecs may yet be looked at.
func (w *Work) Left() int { return w.vecs }
