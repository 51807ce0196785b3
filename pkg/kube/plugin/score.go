package plugin

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// scoresKey is where PreScore leaves the scores.
const scoresKey fwk.StateKey = stateKey + "/scores"

// scores are by node name. A node that is not there has 0.
type scores map[string]int64

// Clone implements fwk.StateData. Scores are not changed after PreScore.
func (s scores) Clone() fwk.StateData { return s }

// attracted returns a pod's network-topology-selector if scores are to carry it out:
// members of a gang are placed by their plan, which counts attraction too.
func attracted(pod *v1.Pod) string {
	if convert.GangOf(pod) != "" {
		return ""
	}
	return convert.Selector(pod)
}

// PreScore scores the nodes for a pod that others attract. All other pods skip Score.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	selector := attracted(pod)
	if selector == "" || !p.args.AwareNetworkTopology {
		return fwk.NewStatus(fwk.Skip)
	}
	all, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err)
	}
	tree := p.Cache.Topology().Tree
	count := make([]offer.Slots, tree.NumNodes())
	p.profile.Parallelizer().Until(ctx, len(all), func(i int) {
		if at, ok := tree.NodeIndex(all[i].Node().Name); ok {
			count[at] = attracting(all[i], selector)
		}
	}, Name)
	leaves := make([]topology.ID, 0, len(nodes))
	for _, n := range nodes {
		if i, ok := tree.NodeIndex(n.Node().Name); ok {
			leaves = append(leaves, tree.Node(i))
		}
	}
	s := nearest(tree, count, leaves)
	if s == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoresKey, s)
	return nil
}

// Score implements fwk.ScorePlugin.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	d, err := state.Read(scoresKey)
	if err != nil {
		return 0, nil // the profile has our PreScore disabled
	}
	s, _ := d.(scores)
	return s[node.Node().Name], nil
}

// ScoreExtensions implements fwk.ScorePlugin; nearest keeps to the legal range.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// attracting counts the pods of a node that attract others with the same selector,
// whoever schedules them and in whatever namespace. A pod that is leaving does not: in
// a rolling update its successor would follow it and not those that stay.
func attracting(node fwk.NodeInfo, selector string) (n offer.Slots) {
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); convert.Selector(pod) == selector && !convert.Finished(pod) {
			n++
		}
	}
	return n
}

// nearest scores leaves by how near they are to the pods counted by node index: first
// those with most of them, then those whose block has most, then those whose spine has
// most, and so on. It returns nil if that makes no difference.
//
// The first have the highest score, and each next kind one less by the same step. Of
// more kinds than there are scores the first 100 are told apart, and the rest have 0.
func nearest(tree *topology.Tree, count []offer.Slots, leaves []topology.ID) scores {
	sum := offer.Sum(tree, count)
	compare := func(a, b topology.ID) int {
		for ; a != b; a, b = tree.Parent(a), tree.Parent(b) {
			if c := cmp.Compare(sum[b], sum[a]); c != 0 {
				return c
			}
		}
		return 0
	}
	order := slices.SortedFunc(slices.Values(leaves), compare)
	kinds := 1
	for i := 1; i < len(order); i++ {
		if compare(order[i-1], order[i]) != 0 {
			kinds++
		}
	}
	if kinds == 1 {
		return nil
	}
	step := max(1, fwk.MaxScore/int64(kinds-1))
	out, score := make(scores, len(order)), fwk.MaxScore
	for i, leaf := range order {
		if i > 0 && compare(order[i-1], leaf) != 0 {
			score = max(fwk.MinScore, score-step)
		}
		out[tree.Name(leaf)] = score
	}
	return out
}
