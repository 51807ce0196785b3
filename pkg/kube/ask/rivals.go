package ask

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
)

// takers returns the gangs, in queue order, that may take some of nodes, the reserved nodes of gang ref, before ref starts. Gangs of
// equal or lower priority must respect a reservation. But if ref had no reservation at the start, its victims may terminate before it
// gets one: then each gang ahead in the queue may take the nodes, also for members beyond minMember.
//
// Only a later plan decides whether a gang takes the nodes. So takers returns the rivals with a member that fits on one of the nodes,
// except rivals for which wouldTake is false.
func (v *View) takers(ctx context.Context, ref gang.Ref, t *plugin.Trial, nodes []string) (names []string, err error) {
	for _, r := range v.rivals(ref) {
		may, err := v.anyFits(ctx, r.pods, t, nodes)
		if may {
			may, err = v.wouldTake(ctx, r.gang, r.above, v.hadReservation[ref])
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

// rival is a gang that need not respect the reserved nodes of another gang.
type rival struct {
	gang  gang.Ref
	pods  []*v1.Pod // without a reserved node
	above bool      // has higher priority
}

// rivals returns the rivals of a waiting gang, in queue order, whether they fit or not.
func (v *View) rivals(ref gang.Ref) (all []rival) {
	mine := v.cache().Pending(ref)
	if len(mine) == 0 {
		return nil
	}
	position := slices.Index(v.queue, ref)
	for i, other := range v.queue {
		pods := slices.DeleteFunc(v.cache().Pending(other), v.hasPlace)
		if len(pods) == 0 || v.group(other) == v.group(ref) || v.initial[other].Refusal.WaitsForUser() {
			continue
		}
		above := v.cache().Priority(pods[0]) > v.cache().Priority(mine[0])
		if above || i <= position && !v.hadReservation[ref] {
			all = append(all, rival{other, pods, above})
		}
	}
	return all
}

// hasPlace says whether the pod has a node assignment, such as a reserved node.
func (v *View) hasPlace(pod *v1.Pod) bool {
	node, _ := v.cache().Place(pod)
	return node != ""
}

// wouldTake says whether gang taker may take nodes of another gang. above: taker has higher priority. held: the nodes were reserved
// at the start. A taker that has its minimum, or a reservation, takes only nodes that were not. A taker with higher priority must
// have a plan once all terminating pods are gone. Any other taker is excluded only if it never fits.
func (v *View) wouldTake(ctx context.Context, taker gang.Ref, above, held bool) (bool, error) {
	if r, ok := v.cache().Report(taker); ok && (hasMinimum(r) || r.Reserved) {
		return !held, nil
	}
	t, err := v.try(ctx, taker)
	switch {
	case err != nil || t == nil:
		return false, err
	case !above:
		return t.Refusal == nil || t.Shortage(ctx).Never == nil, nil
	}
	nodes, err := v.nodesAfterTermination(ctx, t, taker)
	return len(nodes) > 0, err
}

// anyFits reports whether one of the pods fits on one of the nodes of an attempt when all terminating pods there are gone.
func (v *View) anyFits(ctx context.Context, pods []*v1.Pod, t *plugin.Trial, nodes []string) (bool, error) {
	known := map[string]bool{}
	for _, pod := range pods {
		template, profile := v.templateKey(pod), v.Profile(pod.Spec.SchedulerName)
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
			if slots, _ := c.CountWithout(ctx, n, nil, v.terminatingOn(t, n)); slots > 0 {
				return true, nil
			}
		}
	}
	return false, nil
}
