package plan

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Preference is a soft rule about the domains of a layer: among plans that are equal by the
// rules before it, that comes first whose members are charged less.
type Preference struct {
	Layer  int
	Charge Charge
}

// Charge names what members of a plan are charged in each domain of a layer.
type Charge int

// PerDomain charges for each domain that is newly touched: PreferGather.
const PerDomain Charge = iota

// charges says what it costs that so many members come to a domain, at least one, in which
// so many are bound. It must not fall with the members, and does not depend on the domain.
var charges = []func(bound, members offer.Slots) int64{
	PerDomain: func(bound, _ offer.Slots) int64 {
		if bound > 0 {
			return 0
		}
		return 1
	},
}

// NewCharge adds a charge to those that there are: a preference of somebody's own. It is to be called when the program begins, by
// variables of packages, before anything is planned. The function is as charges says.
func NewCharge(charge func(bound, members offer.Slots) int64) Charge {
	charges = append(charges, charge)
	return Charge(len(charges) - 1)
}

// Of is what members cost; nobody costs nothing.
func (c Charge) Of(bound, members offer.Slots) int64 {
	if members == 0 {
		return 0
	}
	return charges[c](bound, members)
}

// PreferGather is the preferences for few domains of some layers.
func PreferGather(layers ...int) (out []Preference) {
	for _, l := range layers {
		out = append(out, Preference{Layer: l})
	}
	return out
}

// InOrder lists preferences as they are asked: from the top down, each once.
func InOrder(prefer []Preference) []Preference {
	return slices.Compact(slices.SortedFunc(slices.Values(prefer), func(a, b Preference) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Charge, b.Charge))
	}))
}
