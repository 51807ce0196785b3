package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
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
	if !source.Of(pod).IsZero() {
		return ""
	}
	return convert.Selector(pod)
}

// PreScore scores the nodes for a pod that others attract. All other pods skip Score.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	selector := attracted(pod)
	if selector == "" || !p.args.Load().AwareNetworkTopology {
		return fwk.NewStatus(fwk.Skip)
	}
	s, err := p.planner.Attraction(ctx, selector, nodes)
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
		return 0, nil // the profile has our PreScore disabled
	}
	s, _ := d.(scores)
	return s[node.Node().Name], nil
}

// ScoreExtensions implements fwk.ScorePlugin; nearest keeps to the legal range.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
