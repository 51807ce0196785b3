package place

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// Never says why a counted attempt would find no plan even if every pod had gone, those of the group
// that run, too: it waits for other nodes, or other rules, and nobody who leaves helps. It is nil if there
// would be a plan, and where nobody can know: members may need what others bring.
func (a *Attempt) Never(ctx context.Context) *plan.Refusal {
	if !a.counted || slices.ContainsFunc(a.kinds, func(k kind) bool { return !k.counter.Local() || k.counter.Everywhere() }) {
		return nil
	}
	b, gone := a.emptied(ctx, true)
	for k := range b.kinds {
		b.kinds[k].slots = make([]offer.Slots, len(b.Nodes))
		b.OnEach(ctx, func(i int, n fwk.NodeInfo) {
			b.kinds[k].slots[i], _ = b.kinds[k].counter.CountWithout(ctx, n, nil, gone[i])
		})
	}
	_, refusal, err := b.Choose(ctx, gone)
	if err != nil {
		return nil
	}
	return refusal
}

// Empty is how many members each node takes, by node index, when every pod but the group's own has gone.
func (a *Attempt) Empty(ctx context.Context) []offer.Slots {
	b, gone := a.emptied(ctx, false)
	return b.FreeWithout(ctx, gone)
}

// emptied is the attempt without anybody who is to be counted besides the snapshot, and the pods
// that would have to go until nobody but the group is there, or nobody at all.
func (a *Attempt) emptied(ctx context.Context, own bool) (*Attempt, [][]*v1.Pod) {
	b := *a
	b.Nodes, b.own, b.beside, b.limited, b.unlimited = a.all, false, nil, limited{}, true
	b.kinds, b.answers = slices.Clone(a.kinds), make([]map[string]offer.Slots, len(a.Nodes))
	stay := map[string]bool{}
	if !own {
		for _, m := range a.Group.Bound {
			stay[m.Pod] = true
		}
	}
	gone := make([][]*v1.Pod, len(b.Nodes))
	b.OnEach(ctx, func(i int, n fwk.NodeInfo) {
		for _, info := range n.GetPods() {
			if pod := info.GetPod(); !stay[convert.PodKey(pod)] {
				gone[i] = append(gone[i], pod)
			}
		}
	})
	return &b, gone
}
