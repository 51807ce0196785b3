package fit

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Soft says which soft preferences nodes and running pods of a snapshot have.
type Soft struct {
	Taints bool // a node has a PreferNoSchedule taint
	Pods   bool // a running pod has a preferred term of pod affinity or anti-affinity
}

// HasSoftTaint returns whether a node has a PreferNoSchedule taint.
func HasSoftTaint(node *v1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Effect == v1.TaintEffectPreferNoSchedule })
}

// Preferring returns whether any pod on the nodes has a preferred term of pod affinity or anti-affinity.
func Preferring(nodes []fwk.NodeInfo) bool {
	return slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool {
		return slices.ContainsFunc(n.GetPodsWithAffinity(), prefersPods)
	})
}

func prefersPods(p fwk.PodInfo) bool {
	return len(p.GetPreferredAffinityTerms())+len(p.GetPreferredAntiAffinityTerms()) > 0
}

// scorers returns the Score plugins for the soft preferences of the member, of nodes and of running pods.
// Default topology spread constraints are ignored, because the pod does not contain them.
func (c *Counter) scorers(soft Soft) sets.Set[string] {
	pod, found := c.member.GetPod(), sets.New[string]()
	if soft.Taints {
		found.Insert(names.TaintToleration)
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		found.Insert(names.NodeAffinity)
	}
	if soft.Pods || prefersPods(c.member) {
		found.Insert(names.InterPodAffinity)
	}
	isSoft := func(t v1.TopologySpreadConstraint) bool { return t.WhenUnsatisfiable == v1.ScheduleAnyway }
	if slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, isSoft) {
		found.Insert(names.PodTopologySpread)
	}
	return found
}

// Penalty returns, by node index, the best score of all nodes minus the node's score, summed over the Score plugins for soft preferences.
// It returns nil if all nodes are equal. A nil node has 0. The error is a plugin's failure.
func (c *Counter) Penalty(ctx context.Context, nodes []fwk.NodeInfo, soft Soft) ([]int64, error) {
	wanted := c.scorers(soft)
	if wanted.Len() == 0 || c.rejected != nil {
		return nil, nil
	}
	skip := sets.New[string]()
	for _, p := range c.plugins.Score.Enabled {
		if !wanted.Has(p.Name) {
			skip.Insert(p.Name)
		}
	}
	if skip.Len() == len(c.plugins.Score.Enabled) {
		return nil, nil
	}
	present := slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool { return n == nil })
	state := c.state.Clone()
	ctx = context.WithValue(ctx, whatIfKey{}, true)
	if s := c.profile.RunPreScorePlugins(ctx, state, c.asked, present); !s.IsSuccess() {
		return nil, s.AsError()
	}
	state.SetSkipScorePlugins(skip.Union(state.GetSkipScorePlugins()))
	scores, s := c.profile.RunScorePlugins(ctx, state, c.asked, present)
	if !s.IsSuccess() {
		return nil, s.AsError()
	}
	byScore := func(a, b fwk.NodePluginScores) int { return int(a.TotalScore - b.TotalScore) }
	if len(scores) == 0 || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	best := slices.MaxFunc(scores, byScore).TotalScore
	if best == slices.MinFunc(scores, byScore).TotalScore {
		return nil, nil
	}
	penalty, k := make([]int64, len(nodes)), 0
	for i, n := range nodes {
		if n != nil {
			penalty[i], k = best-scores[k].TotalScore, k+1
		}
	}
	return penalty, nil
}
