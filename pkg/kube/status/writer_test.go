package status_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// TestStatusWithoutSubresource: Koordinator's PodGroup has no status subresource. Then, and only
// then, the object itself is patched; one that is gone is asked for no more.
func TestStatusWithoutSubresource(t *testing.T) {
	gone := apierrors.NewNotFound(sigs.PodGroups.GroupResource(), "g")
	forbidden := apierrors.NewForbidden(sigs.PodGroups.GroupResource(), "g", nil)
	for name, test := range map[string]struct {
		atStatus, atObject error
		asked              []string
		want               error
	}{
		"there is one":                 {nil, nil, []string{"status"}, nil},
		"there is none":                {gone, nil, []string{"status", ""}, nil},
		"the object is gone":           {gone, gone, []string{"status", ""}, gone},
		"its status is not to be told": {forbidden, nil, []string{"status"}, forbidden},
	} {
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{sigs.PodGroups: "PodGroupList"})
		var asked []string
		client.PrependReactor("patch", "podgroups", func(a clienttesting.Action) (bool, runtime.Object, error) {
			asked = append(asked, a.GetSubresource())
			if a.GetSubresource() == "status" {
				return true, nil, test.atStatus
			}
			return true, nil, test.atObject
		})
		w := status.NewWriter(fake.NewClientset(), client)
		pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", UID: "u"}}
		is := pg.Status
		is.Scheduled = 1
		err := w.Custom(t.Context(), sigs.PodGroups, pg, pg.Status, is)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		w.Run(over, 1) // which ends its queue
		require.Equal(t, test.want, err, name)
		require.Equal(t, test.asked, asked, name)
	}
}
