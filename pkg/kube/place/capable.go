package place

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// FreeWhereCapable chooses, of the places that are free now, those in a domain that can
// take the whole gang once others have finished. It says where that is, "" for the whole
// cluster; there may be no such places.
func (a *Attempt) FreeWhereCapable(ctx context.Context) (places []gang.Place, where string) {
	w := a.World
	w.Bound = nil // where they are is in what is left
	w.Free = a.inCapable(ctx)
	chosen, refusal := plan.Choose(w, plan.Request{Want: offer.Slots(max(a.Group.Need(), 1)), Min: 1, Must: a.All.Must, Prefer: a.All.Prefer})
	if refusal != nil {
		return nil, ""
	}
	return a.Assign(chosen), a.Net.Tree.Path(chosen.Domain)
}

// inCapable returns the free slots of the domains of the Must layer that could take the
// gang if all pods but more important ones had gone; of the one where places are kept
// already, if it still could.
func (a *Attempt) inCapable(ctx context.Context) []offer.Slots {
	tree := a.Net.Tree
	priority := a.planner.cache.Priority(a.Lowest())
	gone := make([][]*v1.Pod, len(a.Nodes))
	a.OnEach(ctx, func(i int, n fwk.NodeInfo) {
		for _, info := range n.GetPods() {
			if a.planner.cache.Priority(info.GetPod()) <= priority {
				gone[i] = append(gone[i], info.GetPod())
			}
		}
	})
	capacity := offer.Sum(tree, a.FreeWithout(ctx, gone))
	bound := offer.Sum(tree, a.World.Bound)
	kept := make([]offer.Slots, len(a.Nodes))
	for _, node := range a.Group.Saved {
		if i, ok := tree.NodeIndex(node); ok {
			kept[i]++
		}
	}
	keptIn := offer.Sum(tree, kept)

	free := make([]offer.Slots, len(a.Nodes))
	add := func(d topology.ID) {
		lo, hi := tree.Nodes(d)
		copy(free[lo:hi], a.World.Free[lo:hi])
	}
	for d := topology.Root; int(d) < tree.Len(); d++ {
		capable := tree.Layer(d) == a.All.Must && capacity[d] >= offer.Slots(a.Group.Need()) &&
			(bound[topology.Root] == 0 || bound[d] > 0)
		switch {
		case capable && keptIn[d] > 0:
			clear(free)
			add(d)
			return free
		case capable:
			add(d)
		}
	}
	return free
}
