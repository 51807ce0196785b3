package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// claim keeps the places that are free now for a gang whose turn it is, in a domain that
// can take all of it once others have finished. It says what is kept, "" if nothing.
func (p *Plugin) claim(ctx context.Context, a *attempt) string {
	if !a.group.Starving || !a.counted {
		return ""
	}
	w := a.world
	w.Bound = nil // where they are is in what is left
	w.Free = a.inCapable(ctx)
	chosen, refusal := plan.Choose(w, plan.Request{Want: offer.Slots(max(a.group.Need(), 1)), Min: 1, Must: a.all.Must, Prefer: a.all.Prefer})
	if refusal != nil {
		return ""
	}
	places := a.assign(chosen)
	p.Cache.Handle(gang.Claimed{Group: a.group.Key, Places: places})
	where := a.net.Tree.Path(chosen.Domain)
	if where != "" {
		where = " in " + where
	}
	return fmt.Sprintf(". Refused for so long that what is free%s is kept for it: %d of %d places", where, len(places), a.group.Need())
}

// inCapable returns the free slots of the domains of the Must layer that could take the
// gang if all pods but more important ones had gone; of the one where places are kept
// already, if it still could.
func (a *attempt) inCapable(ctx context.Context) []offer.Slots {
	tree := a.net.Tree
	priority := convert.Priority(a.lowest())
	gone := make([][]*v1.Pod, len(a.nodes))
	a.onEach(ctx, func(i int, n fwk.NodeInfo) {
		for _, info := range n.GetPods() {
			if convert.Priority(info.GetPod()) <= priority {
				gone[i] = append(gone[i], info.GetPod())
			}
		}
	})
	capacity := offer.Sum(tree, a.freeWithout(ctx, gone))
	bound := offer.Sum(tree, a.world.Bound)
	kept := make([]offer.Slots, len(a.nodes))
	for _, node := range a.group.Claim {
		if i, ok := tree.NodeIndex(node); ok {
			kept[i]++
		}
	}
	keptIn := offer.Sum(tree, kept)

	free := make([]offer.Slots, len(a.nodes))
	add := func(d topology.ID) {
		lo, hi := tree.Nodes(d)
		copy(free[lo:hi], a.world.Free[lo:hi])
	}
	for d := topology.Root; int(d) < tree.Len(); d++ {
		capable := tree.Layer(d) == a.all.Must && capacity[d] >= offer.Slots(a.group.Need()) &&
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
