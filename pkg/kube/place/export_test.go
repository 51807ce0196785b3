package place

import (
	"context"

	"github.com/muster-scheduler/muster/pkg/offer"
)

// Bare is how many members each node takes, by node index, with no pod on any node, and the number of that state of the nodes.
func (a *Attempt) Bare(ctx context.Context) (slots []offer.Slots, changes int) {
	b, changes := a.onEmpty(ctx)
	if b == nil {
		return nil, 0
	}
	return b.World.Free, changes
}
