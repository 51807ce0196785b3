package place

import (
	"context"
	"slices"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// setPenalties sets each kind's penalties of nodes: for preferred affinity, PreferNoSchedule taints and degraded nodes. All pods of the
// snapshot count, even victims. Pending members and reservations do not count.
func (a *Attempt) setPenalties(ctx context.Context) error {
	nodes, err := a.profile.SnapshotSharedLister().NodeInfos().HavePodsWithAffinityList()
	if err != nil {
		return err
	}
	soft := fit.Soft{Taints: a.softTainted, Pods: fit.Preferring(nodes)}
	for k := range a.kinds {
		penalty, err := a.kinds[k].counter.Penalty(ctx, a.Nodes, soft)
		if err != nil {
			return err
		}
		a.kinds[k].penalty = penalty
	}
	a.chargeDegraded()
	for _, k := range a.kinds {
		if a.World.Penalty == nil {
			a.World.Penalty = slices.Clone(k.penalty)
			continue
		}
		for i, n := range k.penalty {
			a.World.Penalty[i] += n // the sum only guides the search for victims; plans use the penalties of each kind
		}
	}
	return nil
}

// penalties returns the penalties by kind and node index; nil if there are none.
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
