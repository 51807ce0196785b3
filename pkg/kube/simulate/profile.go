package simulate

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/topology"
)

// profile is a scheduler profile without randomness: it scores all nodes, and among nodes of equal score the first by name wins. In
// kube-scheduler, the node that a thread finds first wins, and batching depends on times. Gangs are not affected: their nodes are planned.
type profile struct {
	framework.Framework
	binding *atomic.Int64 // pods in PreBind
	gate    *gate         // orders the goroutines of permitted pods
}

// PercentageOfNodesToScore implements framework.Framework.
func (p *profile) PercentageOfNodesToScore() *int32 { return new(int32(100)) }

// RunScorePlugins implements framework.Framework.
func (p *profile) RunScorePlugins(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := p.Framework.RunScorePlugins(ctx, state, pod, nodes)
	best := -1
	for i, n := range scores {
		if best < 0 || n.TotalScore > scores[best].TotalScore ||
			n.TotalScore == scores[best].TotalScore && topology.CompareNames(n.Name, scores[best].Name) < 0 {
			best = i
		}
	}
	if best >= 0 {
		scores[best].Randomizer = 1 // more than every other node has
	}
	return scores, status
}

// GetNodeHint implements framework.Framework.
func (p *profile) GetNodeHint(context.Context, *v1.Pod, fwk.PodSignature, fwk.CycleState, int64) string {
	return ""
}

// StoreScheduleResults implements framework.Framework.
func (p *profile) StoreScheduleResults(context.Context, fwk.PodSignature, string, string, framework.SortedScoredNodes, int64) {
}

// WaitOnPermit implements framework.Framework. Each pod waits in its own goroutine, and the gate releases these one after the other.
func (p *profile) WaitOnPermit(ctx context.Context, pod *v1.Pod) *fwk.Status {
	status := p.Framework.WaitOnPermit(ctx, pod)
	_ = p.gate.pass(ctx, "waited "+pod.Namespace+"/"+pod.Name) // an ended ctx is reported by the next caller
	return status
}

// RunPreBindPlugins implements framework.Framework. Only here does the scheduler wait for an outside component: the volume controllers.
func (p *profile) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.binding.Add(1)
	defer p.binding.Add(-1)
	return p.Framework.RunPreBindPlugins(ctx, state, pod, node)
}
