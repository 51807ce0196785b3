package plan

import "github.com/muster-scheduler/muster/pkg/offer"

// PerPair is a preference that only tests know: it charges for every two members of a domain.
var PerPair = NewCharge(func(bound, n offer.Slots) int64 { return int64(n*(n-1)/2 + bound*n) })

// Compare puts the plan first that comes first by all rules, as a Judge does.
func Compare(w World, r Request, a, b *Plan) int {
	_, o := NewJudge(w, r).Decide(a, b)
	return o
}
