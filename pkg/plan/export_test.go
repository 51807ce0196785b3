package plan

import "github.com/muster-scheduler/muster/pkg/offer"

// PerPair is a preference that only tests know: it charges for every two members of a domain.
var PerPair = NewCharge(func(bound, n offer.Slots) int64 { return int64(n*(n-1)/2 + bound*n) })

// Left is how many vecs may yet be looked at.
func (w *Work) Left() int { return w.vecs }
