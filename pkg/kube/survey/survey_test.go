package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// TestReport: what is served, denied and not needed, and what gangs there are.
func TestReport(t *testing.T) {
	pod := func(name, scheduler string, labels, annotations map[string]string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", Labels: labels, Annotations: annotations},
			Spec:       v1.PodSpec{SchedulerName: scheduler},
		}
	}
	sigs := map[string]string{"pod-group.scheduling.sigs.k8s.io": "a"}
	client := clientset.NewClientset(
		pod("a-0", "muster-scheduler", sigs, nil), pod("a-1", "muster-scheduler", sigs, nil),
		pod("b-0", "volcano", nil, map[string]string{"scheduling.k8s.io/group-name": "b"}),
		pod("single", "muster-scheduler", nil, nil),
	)
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ns", "name": "a", "uid": "u", "annotations": map[string]any{
			"gang.scheduling.koordinator.sh/network-topology-spec": `{"gatherStrategy":[{"layer":"NodeTopologyLayer","strategy":"PreferGather"}]}`,
		}},
		"spec": map[string]any{"minMember": int64(2)},
	}}
	kinds := map[schema.GroupVersionResource]string{koordinator.ClusterNetworkTopologies: "ClusterNetworkTopologyList"}
	for i := range source.All {
		if o := source.All[i].Object; o != nil {
			for _, r := range o.Versions() {
				kinds[r] = o.Kind + "List"
			}
		}
	}
	for _, o := range source.Owners {
		kinds[o.Resource] = o.Kind + "List"
	}
	custom := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, group)
	served := func(r schema.GroupVersionResource) (bool, error) {
		switch {
		case r.Group == "jobset.x-k8s.io":
			return false, fmt.Errorf("%w: apply manifests/rbac/sources/jobset.yaml", watch.ErrNoPermission)
		case r.Group == "scheduling.k8s.io":
			return r.Version == "v1alpha2", nil // an older cluster's
		}
		return !source.Foreign(r) || r.Group == "batch", nil
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := cache.New(cache.Options{
		Aware: true, Limits: cache.Limits{Wait: time.Minute, Policy: gang.OnceSatisfied}, Clock: clock.RealClock{},
		Leading: func() bool { return true }, Do: func([]gang.Effect) {}, Note: func(cache.Note) {},
	})
	c.Serve("muster-scheduler")
	require.NoError(t, c.Start(t.Context(), cache.Source{Core: factory, Dynamic: custom, Served: served}))
	factory.StartWithContext(t.Context())
	require.Eventually(t, c.Open, time.Minute, time.Millisecond)

	r := report(c, served, "")
	require.Equal(t, []Gang{
		{
			Namespace: "ns", Name: "a", Way: "label pod-group.scheduling.sigs.k8s.io", Members: 2, Min: 2,
			Rule: "PodGroup ns/a annotation gang.scheduling.koordinator.sh/network-topology-spec",
		},
		{
			Namespace: "ns", Name: "b", Way: "annotation scheduling.k8s.io/group-name", Members: 1,
			Problem: "nothing declares it: its object does not exist, or is not read", Elsewhere: true,
		},
	}, r.Gangs)
	states := map[string]string{}
	for _, s := range r.Sources {
		states[s.Way] = fmt.Sprint(s.Resource, " ", s.State, " ", s.Gangs, " ", s.Members)
	}
	require.Equal(t, "podgroups.v1alpha1.scheduling.sigs.k8s.io read 1 2", states["label pod-group.scheduling.sigs.k8s.io"])
	require.Equal(t, "podgroups.v1beta1.scheduling.volcano.sh not served 1 1", states["annotation scheduling.k8s.io/group-name"])
	require.Equal(t, "podgroups.v1alpha2.scheduling.k8s.io read 0 0", states["field spec.schedulingGroup.podGroupName"])
	for _, o := range r.Owners {
		switch o.Kind {
		case "JobSet":
			require.Equal(t, Denied, o.State)
			require.Contains(t, o.Message, "apply manifests/rbac/sources/jobset.yaml")
		case "Job":
			require.Equal(t, Unused, o.State)
		case "LeaderWorkerSet":
			require.Equal(t, NotServed, o.State)
		}
	}
	require.Empty(t, report(c, served, "other").Gangs)
}

// TestWithoutRights: without a needed permission an error names it at once, and no list is awaited. If the user may
// not ask for permissions, the lists themselves are tried.
func TestWithoutRights(t *testing.T) {
	for name, c := range map[string]struct {
		mayAsk bool
		says   []string
	}{
		"a user who may ask for permissions": {true, []string{
			`permission is missing: list pods (API group "") in the whole cluster`,
			`permission is missing: watch pods (API group "") in the whole cluster`,
			"grant these permissions, or use --as with a user that has them",
		}},
		"a user who may not ask": {false, []string{`permission is missing: list pods (API group "") in the whole cluster`}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				forbid := func() {
					w.WriteHeader(http.StatusForbidden)
					_ = json.NewEncoder(w).Encode(metav1.Status{
						TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
						Code: http.StatusForbidden, Message: "forbidden",
					})
				}
				review := authorization.SelfSubjectAccessReview{}
				switch {
				case r.URL.Path == "/version":
					_, _ = w.Write([]byte(`{"major": "1", "minor": "37"}`))
				case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") && c.mayAsk && json.NewDecoder(r.Body).Decode(&review) == nil:
					review.Kind, review.APIVersion = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
					review.Status.Allowed = review.Spec.ResourceAttributes.Resource != "pods"
					w.WriteHeader(http.StatusCreated)
					_ = json.NewEncoder(w).Encode(review)
				case strings.HasSuffix(r.URL.Path, "/nodes"), strings.HasSuffix(r.URL.Path, "/namespaces"):
					_, _ = w.Write([]byte(`{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}`))
				case strings.Count(r.URL.Path, "/") == 3 && strings.HasPrefix(r.URL.Path, "/apis/"): // what a group serves
					http.NotFound(w, r)
				default:
					forbid()
				}
			}))
			defer server.Close()
			defer server.CloseClientConnections()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := Run(ctx, &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Options{})
			for _, says := range c.says {
				require.ErrorContains(t, err, says)
			}
			require.NotContains(t, err.Error(), "nodes")
		})
	}
}
