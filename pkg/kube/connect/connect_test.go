package connect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// answering is a client whose API server answers questions for permissions so. It returns
// what was asked, as "verb resource/subresource.group".
func answering(answer func(asked string) (bool, error)) (*fake.Clientset, *[]string) {
	var all []string
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorization.SelfSubjectAccessReview).DeepCopy()
		a := review.Spec.ResourceAttributes
		asked := strings.TrimSuffix(a.Verb+" "+strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")+"."+a.Group, ".")
		all = append(all, asked)
		ok, err := answer(asked)
		review.Status.Allowed = ok
		return true, review, err
	})
	return client, &all
}

func TestPermissions(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "selfsubjectaccessreviews"}, "", errors.New("no"))
	for name, c := range map[string]struct {
		without string // what is not permitted
		err     error  // of every question
		says    []string
	}{
		"all are there": {},
		"one of a pod":  {without: "create pods/binding", says: []string{`permission is missing: create pods/binding (API group "")`}},
		"a custom one": {
			without: "list clusternetworktopologies.scheduling.koordinator.sh",
			says:    []string{`permission is missing: list clusternetworktopologies (API group "scheduling.koordinator.sh")`},
		},
		"a source's": {
			without: "watch podgroups.scheduling.sigs.k8s.io",
			says:    []string{`permission is missing: watch podgroups (API group "scheduling.sigs.k8s.io")`},
		},
		"requests for permissions are forbidden": {err: forbidden},
		"requests for permissions fail": {
			err: errors.New("no route to host"), says: []string{"asking the API server for the scheduler's permissions: no route to host"},
		},
		"several": {
			without: "delete pods|patch pods/status", says: []string{"delete pods", "patch pods/status", "apply manifests/rbac"},
		},
		"an unneeded permission": {without: "get secrets"},
	} {
		t.Run(name, func(t *testing.T) {
			client, asked := answering(func(a string) (bool, error) { return !slices.Contains(strings.Split(c.without, "|"), a), c.err })
			err := connect.CheckPermissions(t.Context(), client)
			if c.says == nil {
				require.NoError(t, err)
			}
			for _, says := range c.says {
				require.ErrorContains(t, err, says)
			}
			if c.err == nil {
				require.Equal(t, len(*asked), len(slices.Compact(slices.Sorted(slices.Values(*asked)))), "each is asked for once")
				require.Contains(t, *asked, "delete pods")
			} else {
				require.Len(t, *asked, 1, "the first answer is enough")
			}
		})
	}
}

// TestPermissionsHaveAnEnd: an API server that does not answer does not hold the process up.
func TestPermissionsHaveAnEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, ctx.Err() })
	require.ErrorIs(t, connect.CheckPermissions(ctx, client), context.Canceled)
}

func TestServed(t *testing.T) {
	groups := schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	for name, c := range map[string]struct {
		serves []*metav1.APIResourceList
		err    error
		served bool
	}{
		"no group": {},
		"another version": {
			serves: []*metav1.APIResourceList{{GroupVersion: "scheduling.sigs.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "podgroups"}}}},
		},
		"another resource": {
			serves: []*metav1.APIResourceList{
				{GroupVersion: "scheduling.sigs.k8s.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "elasticquotas"}}},
			},
		},
		"only a subresource": {
			serves: []*metav1.APIResourceList{
				{GroupVersion: "scheduling.sigs.k8s.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "podgroups/status"}}},
			},
		},
		"served": {
			serves: []*metav1.APIResourceList{
				{GroupVersion: "scheduling.sigs.k8s.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "podgroups"}}},
			},
			served: true,
		},
		"the answer is unknown": {err: errors.New("etcd is slow")},
		"not found, in words":   {err: apierrors.NewNotFound(schema.GroupResource{}, "")},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.Resources = c.serves
			client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) { return c.err != nil, nil, c.err })
			served, err := connect.Served(client.Discovery().(*fakediscovery.FakeDiscovery))(groups)
			require.Equal(t, c.served, served)
			require.Equal(t, c.err != nil && !apierrors.IsNotFound(c.err), err != nil, "%v", err)
		})
	}
	always, err := connect.Ours()(groups)
	require.True(t, always)
	require.NoError(t, err)
}

// TestCustomSpeaksJSON: custom resources are not known to protobuf, whatever the scheduler's
// own client speaks; that one is left as it is.
func TestCustomSpeaksJSON(t *testing.T) {
	own := &rest.Config{Host: "https://localhost:1", ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}}
	client, err := connect.Custom(own)
	require.NoError(t, err)
	require.NotNil(t, client)
	require.Equal(t, runtime.ContentTypeProtobuf, own.ContentType)
}

// handle is a scheduler's, of which only where objects come from is asked.
type handle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
	client  kubernetes.Interface
	config  *rest.Config
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) KubeConfig() *rest.Config                               { return h.config }

func newHandle(client kubernetes.Interface) handle {
	return handle{factory: informers.NewSharedInformerFactory(client, 0), client: client, config: &rest.Config{Host: "https://localhost:1"}}
}

// TestGivenTrimsNodes: nodes are kept without managed fields, and the given node objects are not changed.
func TestGivenTrimsNodes(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{"spine": "s"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
	}}
	h := newHandle(fake.NewClientset(node))
	given := connect.FromClient(nil)
	_, err := given(t.Context(), h)
	require.NoError(t, err)
	lister := h.factory.Core().V1().Nodes().Lister()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer h.factory.Shutdown()
	defer cancel()
	h.factory.StartWithContext(ctx)
	h.factory.WaitForCacheSyncWithContext(ctx)
	kept, err := lister.Get("n")
	require.NoError(t, err)
	require.Empty(t, kept.ManagedFields)
	require.Equal(t, node.Labels, kept.Labels)
	require.Len(t, node.ManagedFields, 1)

	_, err = given(ctx, h) // too late to leave anything out: it says so and goes on
	require.NoError(t, err)
}

// TestClusterAsksFirst: without the scheduler's permissions no objects are watched. With them only served resources
// are watched.
func TestClusterAsksFirst(t *testing.T) {
	for name, may := range map[string]bool{"permitted": true, "not permitted": false} {
		client, asked := answering(func(string) (bool, error) { return may, nil })
		src, err := connect.Cluster(t.Context(), newHandle(client))
		require.NotEmpty(t, *asked, name)
		if !may {
			require.ErrorContains(t, err, "permission is missing", name)
			require.Nil(t, src.Dynamic, name)
			continue
		}
		require.NoError(t, err, name)
		require.NotNil(t, src.Core, name)
		require.NotNil(t, src.Dynamic, name)
		require.NotNil(t, src.Finished, name)
		served, err := src.Served(sigs.PodGroups)
		require.NoError(t, err, name)
		require.False(t, served, name)

		client, asked = answering(func(string) (bool, error) { return false, nil })
		src, err = connect.FromClient(src.Dynamic)(t.Context(), newHandle(client))
		require.NoError(t, err)
		require.Empty(t, *asked)
		served, err = src.Served(sigs.PodGroups)
		require.NoError(t, err)
		require.True(t, served)
	}
}

// TestOthersMayBeLeftOut: without permission for the objects of other projects they are not watched, and no informer
// waits for them.
func TestOthersMayBeLeftOut(t *testing.T) {
	foreign := source.Owners[0].Resource
	for name, c := range map[string]struct {
		served  bool
		without string
		is      bool
		says    string
	}{
		"all is well":      {true, "", true, ""},
		"it is not served": {false, "list", false, ""},
		"no list":          {true, "list", false, "permission is missing: list leaderworkersets"},
		"no watch":         {true, "watch", false, "apply manifests/rbac/sources/leaderworkerset.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := answering(func(asked string) (bool, error) {
				return c.without == "" || !strings.HasPrefix(asked, c.without+" leaderworkersets"), nil
			})
			if c.served {
				client.Resources = []*metav1.APIResourceList{
					{GroupVersion: foreign.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: foreign.Resource}}},
				}
			}
			src, err := connect.Cluster(t.Context(), newHandle(client))
			require.NoError(t, err, "they are nothing that the scheduler must be permitted")
			is, err := src.Served(foreign)
			require.Equal(t, c.is, is)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				require.ErrorIs(t, err, watch.ErrNoPermission, "so that gangs can say it")
			} else {
				require.NoError(t, err)
			}
		})
	}
}
