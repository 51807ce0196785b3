package preempt

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// at returns a pod on a node, with its name as UID. A pod whose name ends in "!" is terminating.
func at(node, name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: node}}
	if strings.HasSuffix(name, "!") {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return p
}

var (
	gangG = gang.Ref{Source: "podgroup", Namespace: "ns", Name: "g"}
	gangH = gang.Ref{Source: "podgroup", Namespace: "ns", Name: "h"}
)

// The names of the budgets that do not allow the eviction of all pods of a set. As in policy/v1, an empty selector
// selects all pods.
func TestViolatedBudgets(t *testing.T) {
	budgets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	add := func(name string, allowed int32, selects *metav1.LabelSelector, left ...string) {
		b := &policy.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: policy.PodDisruptionBudgetSpec{Selector: selects},
		}
		b.Status.DisruptionsAllowed, b.Status.DisruptedPods = allowed, map[string]metav1.Time{}
		for _, name := range left {
			b.Status.DisruptedPods[name] = metav1.Now()
		}
		require.NoError(t, budgets.Add(b))
	}
	app := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	wrong := app("web")
	wrong.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Unlike"}}
	add("web", 1, app("web"), "w2")
	add("db", -1, app("db"))
	add("all", 3, &metav1.LabelSelector{})
	add("none", 0, nil)
	add("unreadable", 0, wrong)
	p := &Preemptor{budgets: policylisters.NewPodDisruptionBudgetLister(budgets)}
	for leave, want := range map[string]string{
		"":               "",
		"x":              "",
		"w0":             "",
		"w0 w1":          "ns/web",
		"w0 w2":          "",
		"d0":             "ns/db",
		"w0 w1 d0":       "ns/db ns/web",
		"x y z w0":       "ns/all",
		"w1 w0 d0 d1 w2": "ns/all ns/db ns/web",
	} {
		var some []*v1.Pod
		for name := range strings.FieldsSeq(leave) {
			pod := at("n0", name)
			pod.Labels = map[string]string{"app": map[byte]string{'w': "web", 'd': "db"}[name[0]]}
			some = append(some, pod)
		}
		require.Equal(t, want, strings.Join((&candidates{budgets: p.listBudgets()}).violated(some), " "), leave)
	}
	elsewhere := at("n0", "d0")
	elsewhere.Namespace, elsewhere.Labels = "other", map[string]string{"app": "db"}
	require.Empty(t, (&candidates{budgets: p.listBudgets()}).violated([]*v1.Pod{elsewhere}))
}

// A bounded number of failed searches is remembered. The one that was not used for the longest time is forgotten
// first.
func TestOldestFailedSearchIsForgotten(t *testing.T) {
	v := &searchMemory{byRequest: map[string]*failedSearch{}}
	for i := range mostRemembered {
		v.put(fmt.Sprint(i), map[string]failedDomain{"n0": {digest: uint64(i)}})
	}
	v.put("0", nil) // again
	require.Len(t, v.byRequest, mostRemembered)
	require.NotNil(t, v.get("1"))
	v.put("new", map[string]failedDomain{"n1": {hadCandidates: true}})
	require.Len(t, v.byRequest, mostRemembered)
	require.Nil(t, v.get("1"))
	require.Equal(t, map[string]failedDomain{"n1": {hadCandidates: true}}, maps.Clone(v.get("new")))
	require.Contains(t, v.byRequest, "0")
}
