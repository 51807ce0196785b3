package ask

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestOneListOfEachKind: of a cluster that serves all that a scheduler reads, each kind is listed once, from the API
// server's memory; beside that it is asked what it serves, and nothing is watched or written.
func TestOneListOfEachKind(t *testing.T) {
	served := map[string][]metav1.APIResource{}
	lists := map[string]string{} // the kind, by path
	for _, k := range simulate.Kinds() {
		version, path := k.Resource.GroupVersion().String(), "/apis/"+k.Resource.GroupVersion().String()+"/"+k.Resource.Resource
		if k.Resource.Group == "" {
			path = "/api/v1/" + k.Resource.Resource
		}
		if lists[path] == "" {
			served[version] = append(served[version], metav1.APIResource{Name: k.Resource.Resource, Kind: k.Kind, Verbs: []string{"list"}})
		}
		lists[path] = k.Kind
	}
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var answer any
		version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
		switch kind := lists[r.URL.Path]; {
		case kind != "":
			asked[r.URL.Path]++
			if q := r.URL.Query(); q.Get("resourceVersion") != "0" || q.Get("watch") != "" {
				t.Errorf("asked was %s", r.URL)
			}
			group := strings.TrimSuffix(version, "/"+r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
			answer = map[string]any{"kind": kind + "List", "apiVersion": group, "metadata": map[string]any{"resourceVersion": "7"}, "items": []any{}}
		case r.URL.Path == "/api":
			answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
		case r.URL.Path == "/apis":
			answer = groupsOf(served)
		case served[version] != nil:
			answer = metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version, APIResources: served[version],
			}
		default:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil || r.Method != http.MethodGet {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	set, notes, err := List(t.Context(), &rest.Config{Host: server.URL, QPS: -1})
	require.NoError(t, err)
	require.Empty(t, notes)
	require.NotNil(t, set)
	for path := range lists {
		require.Equal(t, 1, asked[path], path)
	}
}

func groupsOf(served map[string][]metav1.APIResource) metav1.APIGroupList {
	of := map[string][]metav1.GroupVersionForDiscovery{}
	for gv := range served {
		if group, version, ok := strings.Cut(gv, "/"); ok {
			of[group] = append(of[group], metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version})
		}
	}
	out := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for group, versions := range of {
		out.Groups = append(out.Groups, metav1.APIGroup{Name: group, Versions: versions, PreferredVersion: versions[0]})
	}
	return out
}

// TestListWithoutPermission: a kind that may not be listed is named with the consequence. If no answer is
// possible without it, that is the error, and the error does not blame the API server.
func TestListWithoutPermission(t *testing.T) {
	served := map[string][]metav1.APIResource{
		"v1":                              {{Name: "nodes", Kind: "Node"}},
		"scheduling.sigs.k8s.io/v1alpha1": {{Name: "podgroups", Kind: "PodGroup"}},
	}
	for name, c := range map[string]struct {
		forbidden string
		notes     []string
		err       string
	}{
		"PodGroups": {
			"/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
			[]string{"no permission to list podgroups.scheduling.sigs.k8s.io in the whole cluster: they count as if there were none"},
			"",
		},
		"nodes":     {"/api/v1/nodes", nil, "nodes must be readable in the whole cluster: "},
		"discovery": {"/api", nil, "you have no permission to read what the API server serves: "},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
				var answer any
				switch {
				case r.URL.Path == c.forbidden:
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusForbidden)
					answer = metav1.Status{
						TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
						Code: http.StatusForbidden, Message: "forbidden",
					}
				case r.URL.Path == "/api":
					answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
				case r.URL.Path == "/apis":
					answer = groupsOf(served)
				case served[version] != nil:
					answer = metav1.APIResourceList{
						TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version, APIResources: served[version],
					}
				default:
					answer = map[string]any{"kind": "NodeList", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}}
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(answer)
			}))
			defer server.Close()
			defer http.DefaultClient.CloseIdleConnections()
			set, notes, err := List(t.Context(), &rest.Config{Host: server.URL, QPS: -1})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.notes, notes)
			require.True(t, set.Unlisted("podgroups.scheduling.sigs.k8s.io"))
		})
	}
}
