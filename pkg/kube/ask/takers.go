package ask

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
)

// takers are the gangs, in the order of the queue, that may take places of a gang that waits for victims to leave.
// Reserved places are kept from whoever is no more important. But a gang that had none when the cluster was found
// gets them only if its victims take their time: if they are gone before it is tried, their places are free for
// whoever is tried before it, also for members beyond a minMember.
//
// Whether others take them in the end only a plan says that is not made yet. So those are named of whom a member that
// has no place fits on one of the nodes; not those of whom it is known that they find no room even then.
func (v *View) takers(ctx context.Context, ref gang.Ref, t *plugin.Trial, nodes []string) (names []string, err error) {
	for _, r := range v.rivals(ref) {
		may, err := v.anyFits(ctx, r.pods, t, nodes)
		if may {
			may, err = v.wouldTake(ctx, r.gang, r.above, v.held[ref])
		}
		if err != nil {
			return nil, err
		}
		if may {
			names = append(names, r.gang.String())
		}
	}
	return names, nil
}

// rival is a gang that is not kept from the places of another one.
type rival struct {
	gang  gang.Ref
	pods  []*v1.Pod // that have no places
	above bool      // it is more important
}

// rivals are those of a gang that waits, in the order of the queue, whether there is room for them or not.
func (v *View) rivals(ref gang.Ref) (all []rival) {
	mine := v.cache().Pending(ref)
	if len(mine) == 0 {
		return nil
	}
	before := slices.Index(v.queue, ref)
	for i, other := range v.queue {
		pods := slices.DeleteFunc(v.cache().Pending(other), v.hasPlace)
		if len(pods) == 0 || v.group(other) == v.group(ref) || v.listed[other].Refusal.Waits() {
			continue
		}
		above := v.cache().Priority(pods[0]) > v.cache().Priority(mine[0])
		if above || i <= before && !v.held[ref] {
			all = append(all, rival{other, pods, above})
		}
	}
	return all
}

func (v *View) hasPlace(pod *v1.Pod) bool {
	node, _ := v.cache().Place(pod)
	return node != ""
}

// wouldTake says whether a gang may take places of another one: it needs members for whom there is room when all have
// left who leave. Of one that is not above the other, and respects its places as they are now, only that it never
// fits says that it does not. Beyond those that it needs it takes none that were held when the cluster was found.
func (v *View) wouldTake(ctx context.Context, more gang.Ref, above, held bool) (bool, error) {
	if r, ok := v.cache().Report(more); ok && (whole(r) || r.Reserved) {
		return !held, nil
	}
	t, err := v.try(ctx, more)
	switch {
	case err != nil || t == nil:
		return false, err
	case !above:
		return t.Refusal == nil || t.Shortage(ctx).Never == nil, nil
	}
	nodes, err := v.whenGone(ctx, t, more)
	return len(nodes) > 0, err
}

// anyFits says whether one of some pods fits on one of some nodes of an attempt when all have left there who leave.
func (v *View) anyFits(ctx context.Context, pods []*v1.Pod, t *plugin.Trial, nodes []string) (bool, error) {
	known := map[string]bool{}
	for _, pod := range pods {
		template, profile := v.kind(pod), v.Profile(pod.Spec.SchedulerName)
		if known[template] || profile == nil {
			continue
		}
		known[template] = true
		c, err := counter(ctx, profile, pod)
		if err != nil {
			return false, err
		}
		for _, name := range nodes {
			i, ok := t.Attempt.Net.Tree.NodeIndex(name)
			if !ok || t.Attempt.Nodes[i] == nil {
				continue
			}
			n := t.Attempt.Nodes[i]
			if slots, _ := c.CountWithout(ctx, n, nil, v.leavers(t, n)); slots > 0 {
				return true, nil
			}
		}
	}
	return false, nil
}
