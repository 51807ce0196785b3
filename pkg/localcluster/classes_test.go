package localcluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestAwaitClasses: the API server's admission is late: at first it knows no class, then an old one.
func TestAwaitClasses(t *testing.T) {
	refused := apierrors.NewForbidden(v1.Resource("pods"), "class-", errors.New("no PriorityClass with name high was found"))
	class := func(name string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 7}
	}
	await := func(ctx context.Context, answers ...any) error {
		client := fake.NewClientset(class("high"), class("system-node-critical"))
		client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			create := action.(clienttesting.CreateActionImpl)
			require.Equal(t, []string{metav1.DryRunAll}, create.CreateOptions.DryRun)
			pod := create.Object.(*v1.Pod).DeepCopy()
			require.Equal(t, "high", pod.Spec.PriorityClassName)
			answer := answers[0]
			if len(answers) > 1 {
				answers = answers[1:]
			}
			if err, ok := answer.(error); ok {
				return true, nil, err
			}
			pod.Spec.Priority = new(int32(answer.(int)))
			return true, pod, nil
		})
		return AwaitClasses(ctx, client)
	}
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, await(t.Context(), refused, refused, 6, 7, refused))
		require.ErrorContains(t, await(t.Context(), refused), "no PriorityClass with name high was found")
		require.ErrorContains(t, await(t.Context(), 6), `PriorityClass "high": context deadline exceeded`)
		require.ErrorContains(t, await(t.Context(), errors.New("down")), "down")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, await(ctx, refused), context.Canceled)
	})
}
