package place

import (
	"context"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Bare returns the capacity of each node without any pods, by node index, and the number of node changes.
func (a *Attempt) Bare(ctx context.Context) (slots []offer.Slots, changes int) {
	b, changes := a.attemptOnEmptyNodes(ctx)
	if b == nil {
		return nil, 0
	}
	return b.World.Free, changes
}
