package acceptance

import (
	"context"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// cluster is an API server that only holds objects, and notes what is written.
type cluster struct {
	client client.Client
	writes []string
	fail   func(verb, name string) error // nil is never
	native string
	told   []string // reasons of notes
}

// written are the kinds that backends write.
var written = []schema.GroupVersionKind{
	{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Kind: "PodGroup"},
	{Group: "scheduling.k8s.io", Version: "v1alpha1", Kind: "Workload"},
	{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "Workload"},
	{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "PodGroup"},
	{Group: "scheduler.grove.io", Version: "v1alpha1", Kind: "PodGang"},
	{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"},
}

func newCluster(t require.TestingT) *cluster {
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	for _, kind := range written {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
	}
	c := &cluster{native: "v1alpha1"}
	note := func(verb, name string) error {
		if c.fail != nil {
			if err := c.fail(verb, name); err != nil {
				return err
			}
		}
		c.writes = append(c.writes, verb+" "+name)
		return nil
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields()
	builder = builder.WithTypeConverters(managedfields.NewDeducedTypeConverter())
	c.client = builder.WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, w client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			name := ""
			if named, ok := obj.(interface{ GetName() string }); ok {
				name = named.GetName()
			}
			if err := note("apply", name); err != nil {
				return err
			}
			return w.Apply(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := note("delete", obj.GetName()); err != nil {
				return err
			}
			return w.Delete(ctx, obj, opts...)
		},
	}).Build()
	return c
}

// registry are some backends that write to the cluster. One alone serves every name.
func (c *cluster) registry(r *run, names ...string) *backend.Registry {
	out, err := backend.NewRegistry()
	require.NoError(r, err)
	for _, name := range names {
		require.NoError(r, out.Register(backend.New(r.translator(name), backend.Options{
			Client: c.client,
			Cluster: func(context.Context) (backend.Cluster, error) {
				return backend.Cluster{Topology: r.topology, Native: c.native}, nil
			},
			Tell: func(_ *podgang.PodGangInfo, n podgang.Note) { c.told = append(c.told, n.Reason) },
		})))
	}
	if len(names) == 1 {
		require.NoError(r, out.SetDefault(names[0]))
	}
	return out
}

// names returns the names of the objects of a kind, by default of PodGroups.
func (c *cluster) names(r *run, kinds ...schema.GroupVersionKind) (out []any) {
	for _, u := range c.objects(r, kinds...) {
		out = append(out, u.GetName())
	}
	return out
}

func (c *cluster) objects(r *run, kinds ...schema.GroupVersionKind) (out []unstructured.Unstructured) {
	kind := append(kinds, written[0])[0]
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	require.NoError(r, c.client.List(r.Context(), list, client.InNamespace("default")))
	return list.Items
}

// podGroup is one PodGroup.
func (c *cluster) podGroup(r *run, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(written[0])
	require.NoError(r, c.client.Get(r.Context(), types.NamespacedName{Namespace: "default", Name: name}, u))
	return u
}

func (c *cluster) remove(r *run, name string) {
	require.NoError(r, c.client.Delete(r.Context(), c.podGroup(r, name)))
}

func (c *cluster) pod(r *run, gang, clique, name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{workloads.LabelPodGang: gang, workloads.LabelPodClique: clique},
		},
	}
	require.NoError(r, c.client.Create(r.Context(), pod))
	return pod
}
