// Package attract scores nodes by their distance to pods with the same network-topology-selector.
//
// It knows pods, nodes of a snapshot and the tree. It must not know gangs, plans or the cache. Invariant: the nearest nodes score the most,
// and nodes at equal distance score the same.
package attract

import (
	"cmp"
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Pods returns how many pods of a node have this network-topology-selector, whatever their scheduler and namespace.
// Finished or terminating pods do not count: in a rolling update the new pods would follow the old ones.
func Pods(node fwk.NodeInfo, selector string) (n offer.Slots) {
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); convert.Selector(pod) == selector && !convert.Finished(pod) {
			n++
		}
	}
	return n
}

// Scores scores nodes, by name, from 0 to 100 (nearest) for pods whose network-topology-selector is selector; nil if all are equal.
// It counts the pods of the handle's snapshot.
func Scores(ctx context.Context, handle fwk.Handle, tree *topology.Tree, selector string, nodes []fwk.NodeInfo) (map[string]int64, error) {
	all, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	count := make([]offer.Slots, tree.NumNodes())
	handle.Parallelizer().Until(ctx, len(all), func(i int) {
		if index, ok := tree.NodeIndex(all[i].Node().Name); ok {
			count[index] = Pods(all[i], selector)
		}
	}, "Coscheduling")
	leaves := make([]topology.ID, 0, len(nodes))
	for _, n := range nodes {
		if i, ok := tree.NodeIndex(n.Node().Name); ok {
			leaves = append(leaves, tree.Node(i))
		}
	}
	return Nearest(tree, count, leaves), nil
}

// Nearest scores leaves by their distance to the pods in count, which is by node index.
// Nodes with the most such pods come first, then nodes in the block with the most, and so on upwards.
// It returns nil if all leaves are equal. Scores fall in equal steps; after 100 distinct kinds they stay 0.
func Nearest(tree *topology.Tree, count []offer.Slots, leaves []topology.ID) map[string]int64 {
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
	out, score := make(map[string]int64, len(order)), fwk.MaxScore
	for i, leaf := range order {
		if i > 0 && compare(order[i-1], leaf) != 0 {
			score = max(fwk.MinScore, score-step)
		}
		out[tree.Name(leaf)] = score
	}
	return out
}
