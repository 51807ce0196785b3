package place

import (
	"context"
	"slices"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// soften finds out what soft preferences charge members of each kind. Pods count as they run now, also those that are to be
// evicted. The members that wait, and those who have places, do not count.
func (a *Attempt) soften(ctx context.Context) error {
	nodes, err := a.profile.SnapshotSharedLister().NodeInfos().HavePodsWithAffinityList()
	if err != nil {
		return err
	}
	soft := fit.Soft{Taints: a.suspects, Pods: fit.Preferring(nodes)}
	for k := range a.kinds {
		penalty, err := a.kinds[k].counter.Penalty(ctx, a.Nodes, soft)
		if err != nil {
			return err
		}
		a.kinds[k].penalty = penalty
		if a.World.Penalty == nil {
			a.World.Penalty = slices.Clone(penalty)
			continue
		}
		for i, n := range penalty {
			a.World.Penalty[i] += n // as if each member needed what all kinds do: it only guides the search for victims
		}
	}
	return nil
}

// penalties returns what soft preferences charge, by kind; nil if they charge nobody.
func (a *Attempt) penalties() [][]int64 {
	if a.World.Penalty == nil {
		return nil
	}
	out := make([][]int64, len(a.kinds))
	for k := range a.kinds {
		out[k] = a.kinds[k].penalty
	}
	return out
}
