package plugin

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

func selecting(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Labels: map[string]string{},
		Annotations: map[string]string{scheduling.AnnotationTopologySelector: "ring"},
	}}
	for _, f := range change {
		f(p)
	}
	return p
}

// TestPodsWithoutAttractionAreNotScored: ordinary pods and members cost nothing. The plugin has no
// profile here: to look at the cluster would be to panic.
func TestPodsWithoutAttractionAreNotScored(t *testing.T) {
	for name, c := range map[string]struct {
		aware bool
		pod   *v1.Pod
	}{
		"no annotation":    {true, selecting(func(p *v1.Pod) { p.Annotations = nil })},
		"empty":            {true, selecting(func(p *v1.Pod) { p.Annotations[scheduling.AnnotationTopologySelector] = "" })},
		"member of a gang": {true, selecting(func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = "g" })},
		"not aware":        {false, selecting()},
	} {
		p := &Plugin{}
		p.args.Store(&config.Args{AwareNetworkTopology: c.aware})
		require.True(t, p.PreScore(t.Context(), framework.NewCycleState(), c.pod, nil).IsSkip(), name)
	}
}

// TestScoreWithoutPreScore: a profile may disable PreScore alone.
func TestScoreWithoutPreScore(t *testing.T) {
	node := framework.NewNodeInfo()
	node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	score, status := (&Plugin{}).Score(context.Background(), framework.NewCycleState(), selecting(), node)
	require.True(t, status.IsSuccess())
	require.Zero(t, score)
}

// The scores of a pod with attraction must not be reused for the next pod.
func TestSigning(t *testing.T) {
	for name, c := range map[string]struct {
		pod      *v1.Pod
		signable bool
	}{
		"ordinary":  {selecting(func(p *v1.Pod) { p.Annotations = nil }), true},
		"attracted": {selecting(), false},
		"member":    {selecting(func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = "g" }), false},
	} {
		fragments, status := (&Plugin{}).SignPod(t.Context(), c.pod)
		require.Equal(t, c.signable, status.IsSuccess(), name)
		require.Empty(t, fragments)
	}
}
