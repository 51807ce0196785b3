package extend

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// ThinName is how profiles name Thin.
const ThinName = "Thin"

// crowd charges for each member of a gang beyond the second in a domain.
var crowd = plan.NewCharge(func(bound, members offer.Slots) int64 {
	return int64(max(0, bound+members-2) - max(0, bound-2))
})

// Thin is a preference: where a gang is larger than any block, no more than two of its members share one, if that is possible.
type Thin struct{}

// NewThin is its factory.
func NewThin(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Thin{}, nil }

// Name implements fwk.Plugin.
func (*Thin) Name() string { return ThinName }

// Prefer implements place.Preferrer.
func (*Thin) Prefer(_ *cache.Group, tree *topology.Tree) []plan.Preference {
	block, ok := tree.LayerIndex("BlockLayer")
	if !ok {
		return nil
	}
	return []plan.Preference{{Layer: block, Charge: crowd}}
}
