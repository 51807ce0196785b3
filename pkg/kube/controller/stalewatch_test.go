package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-scheduler/muster/pkg/kube/controller"
)

// behind is a cache that misses a field of each LeaderWorkerSet, as a watch does for a moment after its CRD has changed.
type behind struct{ client.Client }

func (b behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := b.Client.Get(ctx, key, o, opts...)
	if u, ok := o.(*unstructured.Unstructured); ok && err == nil && u.GroupVersionKind() == lwsKind {
		err = unstructured.SetNestedField(u.Object, int64(0), "spec", "replicas")
	}
	return err
}

// TestYoung: an object with a field from an overlay is read from the API server while the object is young. It is
// reconciled once more when all caches have the field.
func TestYoung(t *testing.T) {
	for name, test := range map[string]struct {
		age   time.Duration
		names []string
		again bool
	}{
		"just made":          {0, []string{"x-0-aaaa"}, true},
		"when it is due":     {15 * time.Second, []string{"x-0-aaaa"}, false},
		"the cache knows it": {time.Minute, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lws("x", 1, 2, "aaaa")
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(lwsKind)
			require.NoError(t, w.users.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "x"}, object))
			object.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-test.age)))
			require.NoError(t, w.users.Update(t.Context(), object))
			r := w.sources[lwsKind]
			r.Client = behind{r.Client}
			w.left = -1
			result, err := r.Reconcile(t.Context(), controller.Request{NamespacedName: client.ObjectKeyFromObject(object), UID: object.GetUID()})
			require.NoError(t, err)
			require.ElementsMatch(t, test.names, w.names())
			require.Equal(t, test.again, result.RequeueAfter > 0, result)
			require.LessOrEqual(t, result.RequeueAfter, 10*time.Second)
		})
	}
}
