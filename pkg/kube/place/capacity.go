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

// FreeWhereCapable returns assignments to free nodes in a domain that can take the whole gang after other pods have finished.
// where is the path of that domain, "" for the cluster. Both are empty if there are no such nodes.
func (a *Attempt) FreeWhereCapable(ctx context.Context) (places []gang.Assignment, where string) {
	w := a.World
	w.Bound = nil // freeInCapable already considers the running members
	w.Free = a.freeInCapable(ctx)
	chosen, refusal := plan.Choose(w, plan.Request{Want: offer.Slots(max(a.Group.Need(), 1)), Min: 1, Must: a.All.Must, Prefer: a.All.Prefer})
	if refusal != nil {
		return nil, ""
	}
	return a.Assign(chosen), a.Net.Tree.Path(chosen.Domain)
}

// freeInCapable returns the free slots by node index, and 0 for nodes outside the capable domains. A domain of the Must layer is capable if
// it could take the gang without all pods of equal or lower priority. If the gang has a capacity hold in one, only that domain counts.
func (a *Attempt) freeInCapable(ctx context.Context) []offer.Slots {
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
	held := make([]offer.Slots, len(a.Nodes))
	for _, node := range a.Group.HeldNodes {
		if i, ok := tree.NodeIndex(node); ok {
			held[i]++
		}
	}
	heldIn := offer.Sum(tree, held)

	free := make([]offer.Slots, len(a.Nodes))
	add := func(d topology.ID) {
		lo, hi := tree.Nodes(d)
		copy(free[lo:hi], a.World.Free[lo:hi])
	}
	for d := topology.Root; int(d) < tree.Len(); d++ {
		capable := tree.Layer(d) == a.All.Must && capacity[d] >= offer.Slots(a.Group.Need()) &&
			(bound[topology.Root] == 0 || bound[d] > 0)
		switch {
		case capable && heldIn[d] > 0:
			clear(free)
			add(d)
			return free
		case capable:
			add(d)
		}
	}
	return free
}
