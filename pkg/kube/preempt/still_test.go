package preempt_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// still is a cluster in which no pod is scheduled. The gang "want" is held back, and tests search victims for it.
type still struct {
	*testcluster.Cluster
	t testing.TB
}

// wanting returns a still cluster. wants are the members of the preemptor, and least is its minMember; given creates
// the rest.
func wanting(
	t testing.TB, nodes string, least int, wants []*v1.Pod, given func(c *testcluster.Cluster), budgets ...*policy.PodDisruptionBudget,
) *still {
	t.Helper()
	c := testcluster.New(t, nodes)
	for _, b := range budgets {
		b.Namespace = "default"
		require.NoError(t, c.Client.Tracker().Add(b))
	}
	given(c)
	for _, p := range wants {
		if p.Spec.NodeName == "" {
			testcluster.Held(p, "outside")
		}
	}
	says := map[string]string{scheduling.AnnotationTopologySpec: testcluster.InOneSpine}
	for _, p := range wants {
		maps.Copy(says, p.Annotations)
	}
	c.GangWith(says, "want", least, wants...)
	c.Run()
	s := &still{c, t}
	c.Wait("seen", func() string {
		if group, refusal := c.Plugin.Cache.Group(c.Get("want-0")); !refusal.Exists() && len(group.Pending)+len(group.Bound) == len(wants) &&
			c.Plugin.Cache.Open() {
			return "seen"
		}
		return "not yet"
	})
	return s
}

// attempt plans the preemptor, without some nodes.
func (s *still) attempt(avoid ...string) *place.Attempt {
	s.t.Helper()
	pods, err := s.Client.CoreV1().Pods("default").List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	pending := slices.IndexFunc(pods.Items, func(p v1.Pod) bool { return strings.HasPrefix(p.Name, "want-") && p.Spec.NodeName == "" })
	return s.try(&pods.Items[pending], place.NewPlanner(s.Profile(), s.Plugin.Cache), s.infos(), avoid...)
}

// try plans a pod's gang, without some nodes.
func (s *still) try(pod *v1.Pod, planner *place.Planner, infos []fwk.NodeInfo, avoid ...string) *place.Attempt {
	s.t.Helper()
	group, refusal := s.Plugin.Cache.Group(pod)
	require.False(s.t, refusal.Exists(), refusal)
	a := planner.NewAttempt(group, infos, func(n fwk.NodeInfo) bool { return slices.Contains(avoid, n.Node().Name) })
	_, _, err := a.Plan(s.t.Context())
	require.NoError(s.t, err)
	return a
}

// infos returns the nodes with their pods, as in the scheduler's snapshot.
func (s *still) infos() []fwk.NodeInfo {
	s.t.Helper()
	pods, err := s.Client.CoreV1().Pods("default").List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	nodes, err := s.Client.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	var placed []*v1.Pod
	for i := range pods.Items {
		if w := s.Profile().GetWaitingPod(pods.Items[i].UID); w != nil { // the scheduler counts it at its place
			pods.Items[i].Spec.NodeName = w.GetPod().Spec.NodeName
		}
		if pods.Items[i].Spec.NodeName != "" {
			placed = append(placed, &pods.Items[i])
		}
	}
	var all []*v1.Node
	for i := range nodes.Items {
		all = append(all, &nodes.Items[i])
	}
	infos, err := internalcache.NewSnapshot(placed, all).NodeInfos().List()
	require.NoError(s.t, err)
	return infos
}

// listCandidates returns the candidates.
func (s *still) listCandidates() string {
	return strings.Join(s.Plugin.Preemptor.ListCandidates(s.t.Context(), s.attempt()), "\n")
}

// evicts returns the victims and the nodes of the members, or why there are none.
func (s *still) evicts(avoid ...string) string {
	gone, places, verdict := s.Plugin.Preemptor.Asked(s.t.Context(), s.attempt(avoid...))
	if verdict != preempt.Evicts {
		return verdict.Says(0, 0)
	}
	slices.Sort(gone)
	return strings.Join(gone, " ") + " for " + strings.Join(places, " ")
}

// budget returns a budget for the pods of an app with a number of allowed disruptions.
func budget(name string, allowed int32, app string) *policy.PodDisruptionBudget {
	return &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// app labels a pod.
func app(p *v1.Pod, name string) *v1.Pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, "app", name)
	return p
}

// onlyWaiting sets a match policy that does not count running members.
func onlyWaiting(p *v1.Pod) *v1.Pod {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, scheduling.AnnotationMatchPolicy, "only-waiting")
	return p
}

// group makes two gangs of one GangGroup: a launcher, and workers of which least are needed.
func group(c *testcluster.Cluster, least int, launcher *v1.Pod, workers ...*v1.Pod) {
	both := map[string]string{scheduling.AnnotationGroups: `["default/l","default/w"]`}
	c.GangWith(both, "l", 1, launcher)
	c.GangWith(both, "w", least, workers...)
}
