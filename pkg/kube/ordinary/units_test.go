package ordinary

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestViolating: how many victims of an ordinary pod's preemption the budgets do not allow. As in
// the scheduler's own preemption a budget without a selector, or with an empty one, selects nobody.
func TestViolating(t *testing.T) {
	pod := func(namespace, name, app string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if app != "" {
			p.Labels = map[string]string{"app": app}
		}
		return p
	}
	budget := func(namespace, app string, allowed int32, left ...string) *policy.PodDisruptionBudget {
		b := &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-" + app}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		b.Status.DisruptionsAllowed, b.Status.DisruptedPods = allowed, map[string]metav1.Time{}
		for _, name := range left {
			b.Status.DisruptedPods[name] = metav1.Now()
		}
		return b
	}
	empty, none, wrong := budget("ns", "web", 0), budget("ns", "web", 0), budget("ns", "web", 0)
	empty.Spec.Selector, none.Spec.Selector = &metav1.LabelSelector{}, nil
	wrong.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Unlike"}}
	web := []*v1.Pod{pod("ns", "a", "web"), pod("ns", "b", "web"), pod("ns", "c", "web")}
	for name, c := range map[string]struct {
		victims []*v1.Pod
		budgets []*policy.PodDisruptionBudget
		want    int
	}{
		"no budgets":                         {web, nil, 0},
		"all are allowed":                    {web, []*policy.PodDisruptionBudget{budget("ns", "web", 3)}, 0},
		"one too many":                       {web, []*policy.PodDisruptionBudget{budget("ns", "web", 2)}, 1},
		"nobody is allowed":                  {web, []*policy.PodDisruptionBudget{budget("ns", "web", 0)}, 3},
		"another namespace's":                {web, []*policy.PodDisruptionBudget{budget("other", "web", 0)}, 0},
		"another app's":                      {web, []*policy.PodDisruptionBudget{budget("ns", "db", 0)}, 0},
		"who was let go counts no more":      {web, []*policy.PodDisruptionBudget{budget("ns", "web", 2, "b")}, 0},
		"who breaks two is counted once":     {web[:1], []*policy.PodDisruptionBudget{budget("ns", "web", 0), budget("ns", "web", 0)}, 1},
		"each has its own count":             {append(web[:2:2], pod("ns", "d", "db")), []*policy.PodDisruptionBudget{budget("ns", "web", 1), budget("ns", "db", 1)}, 1},
		"a pod without labels":               {[]*v1.Pod{pod("ns", "a", "")}, []*policy.PodDisruptionBudget{budget("ns", "web", 0)}, 0},
		"selectors that select nobody":       {web, []*policy.PodDisruptionBudget{empty, none, wrong}, 0},
		"the same pod name, other namespace": {[]*v1.Pod{pod("other", "a", "web")}, []*policy.PodDisruptionBudget{budget("ns", "web", 0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, (&PodPreemption{}).violating(c.victims, c.budgets))
		})
	}
}
