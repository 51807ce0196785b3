package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/attract"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// scoresKey is the key under which PreScore stores the scores.
const scoresKey fwk.StateKey = stateKey + "/scores"

// scores are by node name. A missing node has 0.
type scores map[string]int64

// Clone implements fwk.StateData. Invariant: scores do not change after PreScore.
func (s scores) Clone() fwk.StateData { return s }

// attractionSelector returns a pod's network-topology-selector. It returns "" for members of gangs, whose plan considers it.
func attractionSelector(pod *v1.Pod) string {
	if IsMember(pod) {
		return ""
	}
	return convert.Selector(pod)
}

// evictableAlone returns whether a pod without a gang declares that it is evicted first.
func evictableAlone(pod *v1.Pod) bool {
	return !IsMember(pod) && pod.Annotations[scheduling.AnnotationBackfill] == scheduling.BackfillEvictable
}

// PreScore computes the scores of nodes for a pod without a gang. With a network-topology-selector it scores nodes near pods with the same
// one. For an Evictable pod, nodes from which it would be evicted for a promised start have 0. Other pods skip Score.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	var s scores
	if selector := attractionSelector(pod); selector != "" && p.args.Load().AwareNetworkTopology {
		attraction, err := attract.Scores(ctx, p.profile, p.Cache.Topology().Tree, selector, nodes)
		if err != nil {
			return fwk.AsStatus(err)
		}
		s = attraction
	}
	if evictableAlone(pod) {
		if yielded := p.Cache.NodesToYield(pod); len(yielded) > 0 {
			s = s.without(yielded, nodes)
		}
	}
	if s == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoresKey, s)
	return nil
}

// without returns the scores of nodes, with 0 for the excluded ones. Nil scores count as equal.
func (s scores) without(excluded map[string]bool, nodes []fwk.NodeInfo) scores {
	out := scores{}
	for _, n := range nodes {
		name := n.Node().Name
		switch {
		case excluded[name]:
		case s == nil:
			out[name] = fwk.MaxScore
		default:
			out[name] = s[name]
		}
	}
	return out
}

// Score implements fwk.ScorePlugin.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	d, err := state.Read(scoresKey)
	if err != nil {
		return 0, nil // the profile disables our PreScore
	}
	s, _ := d.(scores)
	return s[node.Node().Name], nil
}

// ScoreExtensions implements fwk.ScorePlugin; the scores are within the valid range.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
