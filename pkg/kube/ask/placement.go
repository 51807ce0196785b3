package ask

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// placementOf returns the domains of the running members, and how few domains they would need on empty nodes.
func (v *View) placementOf(ctx context.Context, ref gang.Ref, running []*v1.Pod) (*Placement, error) {
	tree := v.cache().Topology().Tree
	var indices []int
	for _, pod := range running {
		if i, ok := tree.NodeIndex(pod.Spec.NodeName); ok {
			indices = append(indices, i)
		}
	}
	domain, _ := tree.Enclosing(slices.Values(indices))
	w := &Placement{Domain: tree.Path(domain)}
	empty, err := v.capacity(ctx, tree, running)
	if err != nil {
		return nil, err
	}
	sums := offer.Sum(tree, empty)
	for layer := 1; layer <= tree.Depth(); layer++ {
		touched := map[topology.ID]bool{}
		for _, i := range indices {
			touched[tree.Ancestor(tree.Node(i), layer)] = true
		}
		name := tree.LayerNames()[layer]
		w.Touched = append(w.Touched, Layer{name, len(touched)})
		w.LeastPossible = append(w.LeastPossible, Layer{name, min(len(touched), fewest(tree, sums, layer, len(indices)))})
	}
	return w, nil
}

// fewest returns the least number of domains of a layer that together take members members. capacity is by domain.
func fewest(tree *topology.Tree, capacity []offer.Slots, layer, members int) (n int) {
	var sizes []int
	for d := topology.Root; int(d) < tree.Len(); d++ {
		if tree.Layer(d) == layer {
			sizes = append(sizes, int(capacity[d]))
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	for n < len(sizes) && members > 0 {
		members -= sizes[n]
		n++
	}
	return n
}

// capacity returns how many of the pods each node would take if empty, by node index: of differing pods, the most demanding ones.
func (v *View) capacity(ctx context.Context, tree *topology.Tree, pods []*v1.Pod) ([]offer.Slots, error) {
	var least []offer.Slots
	err := v.eachTemplate(ctx, tree, pods, func(c *fit.Counter, nodes []fwk.NodeInfo) {
		capacity := make([]offer.Slots, len(nodes))
		v.onEach(ctx, pods[0], nodes, func(i int, n fwk.NodeInfo) { capacity[i], _ = c.CountWithout(ctx, n, nil, podsOn(n)) })
		least = fewer(least, capacity, least, capacity)
	})
	return least, err
}

// fewer returns the minimum of the counts a and b of two templates, node by node; nil a is no count. emptyA and emptyB are their counts
// on empty nodes. If one template does not fit on an empty node, the other's count is used: members may be bound to one node each.
func fewer(a, b, emptyA, emptyB []offer.Slots) []offer.Slots {
	if a == nil {
		return b
	}
	out := slices.Clone(a)
	for i := range out {
		switch {
		case emptyB[i] == 0:
		case emptyA[i] == 0:
			out[i] = b[i]
		default:
			out[i] = min(a[i], b[i])
		}
	}
	return out
}

// podsOn returns the pods on a node.
func podsOn(n fwk.NodeInfo) (all []*v1.Pod) {
	for _, info := range n.GetPods() {
		all = append(all, info.GetPod())
	}
	return all
}

// eachTemplate calls do for each template among pods of one profile, with the nodes by index of the tree; nil for a missing node.
func (v *View) eachTemplate(ctx context.Context, tree *topology.Tree, pods []*v1.Pod, do func(*fit.Counter, []fwk.NodeInfo)) error {
	profile := v.Profile(pods[0].Spec.SchedulerName)
	if profile == nil {
		return nil
	}
	nodes, err := v.infos(ctx, tree, profile)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, pod := range pods {
		template := v.templateKey(pod)
		if known[template] {
			continue
		}
		known[template] = true
		c, err := counter(ctx, profile, pod)
		if err != nil {
			return err
		}
		do(c, nodes)
	}
	return nil
}

// templateKey returns a key that is equal for pods with equal requirements. A waiting pod with a volume or devices of its own has its
// own key. The devices of a running pod do not count.
func (v *View) templateKey(pod *v1.Pod) string {
	if p := v.Shared().Profile(pod.Spec.SchedulerName); p != nil && pod.Spec.NodeName == "" {
		return p.Template(pod)
	}
	return convert.Template(pod)
}

// counter returns a Counter of how many pods like pod fit on a node. The node on which pod itself runs has no effect.
func counter(ctx context.Context, profile framework.Framework, pod *v1.Pod) (*fit.Counter, error) {
	fresh := pod.DeepCopy()
	fresh.Spec.NodeName, fresh.Status.NominatedNodeName = "", "" // otherwise it fits on no other node
	return fit.NewCounter(ctx, profile, fresh)
}

// onEach calls do for each node in nodes that is not nil, in parallel, with its index.
func (v *View) onEach(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo, do func(int, fwk.NodeInfo)) {
	v.Profile(pod.Spec.SchedulerName).Parallelizer().Until(ctx, len(nodes), func(i int) {
		if nodes[i] != nil {
			do(i, nodes[i])
		}
	}, "Coscheduling")
}
