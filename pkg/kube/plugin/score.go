package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/attract"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// scoresKey is the key under which PreScore stores the scores.
const scoresKey fwk.StateKey = stateKey + "/scores"

// scores are by node name. A missing node has 0.
type scores map[string]int64

// Clone implements fwk.StateData. Invariant: scores do not change after PreScore.
func (s scores) Clone() fwk.StateData { return s }

// attractionSelector returns a pod's network-topology-selector. It returns "" for members of gangs, whose plan considers it.
func attractionSelector(pod *v1.Pod) string {
	if !source.GangOf(pod).IsZero() {
		return ""
	}
	return convert.Selector(pod)
}

// PreScore computes the scores of nodes for a pod with a network-topology-selector: near pods with the same one. Other pods skip Score.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	selector := attractionSelector(pod)
	if selector == "" || !p.args.Load().AwareNetworkTopology {
		return fwk.NewStatus(fwk.Skip)
	}
	s, err := attract.Scores(ctx, p.profile, p.Cache.Topology().Tree, selector, nodes)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if s == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoresKey, scores(s))
	return nil
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
