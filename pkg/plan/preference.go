package plan

import (
	"cmp"
	"slices"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Preference is a soft constraint on the domains of a layer: among plans equal by earlier rules, the plan with the lower charge is first.
type Preference struct {
	Layer  int
	Charge Charge
}

// Charge identifies a function of charges: what a preference charges for the members in one domain.
type Charge int

// PerDomain charges for each newly touched domain: PreferGather.
const PerDomain Charge = iota

// charges are the charging functions: the charge for at least one new member in a domain with bound members.
// A charge must not fall when members increase, and does not depend on the domain.
var charges = []func(bound, members offer.Slots) int64{
	PerDomain: func(bound, _ offer.Slots) int64 {
		if bound > 0 {
			return 0
		}
		return 1
	},
}

// NewCharge adds a charging function for a custom preference, and returns its number. Call it while package variables are initialized.
func NewCharge(charge func(bound, members offer.Slots) int64) Charge {
	charges = append(charges, charge)
	return Charge(len(charges) - 1)
}

// Of returns the charge for new members in a domain with bound ones; 0 without new members.
func (c Charge) Of(bound, members offer.Slots) int64 {
	if members == 0 {
		return 0
	}
	return charges[c](bound, members)
}

// PreferGather returns the preferences to touch few domains of the given layers.
func PreferGather(layers ...int) (out []Preference) {
	for _, l := range layers {
		out = append(out, Preference{Layer: l})
	}
	return out
}

// InOrder returns preferences from the top layer down, without duplicates.
func InOrder(prefer []Preference) []Preference {
	return slices.Compact(slices.SortedFunc(slices.Values(prefer), func(a, b Preference) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Charge, b.Charge))
	}))
}
