package connect_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

var podResource = v1.SchemeGroupVersion.WithResource("pods")

// written is a pod as an API server of 1.35 has it.
func written(name, uid, workload string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "ns", "name": name, "uid": uid}},
	}
	if workload != "" {
		u.Object["spec"] = map[string]any{"workloadRef": map[string]any{"name": workload, "podGroup": "g"}}
	}
	return u
}

// read is the same pod as this scheduler's types have it.
func read(name, uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(uid), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
	}
}

func serves(is bool, err error) func(schema.GroupVersionResource) (bool, error) {
	return func(schema.GroupVersionResource) (bool, error) { return is, err }
}

// TestWorkloadRefs: no handler sees a pod before the field is known that its Go type lacks.
func TestWorkloadRefs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{podResource: "PodList"}, written("old", "u-old", "train"))
		var away atomic.Bool // whether requests for one pod fail
		client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("no route to host")
		})
		pods := client.Resource(podResource).Namespace("ns")
		fill, err := connect.WorkloadRefs(t.Context(), client, serves(true, nil))
		require.NoError(t, err)
		gang := func(pod *v1.Pod) string {
			out, err := fill(pod)
			require.NoError(t, err)
			require.Empty(t, out.(*v1.Pod).ManagedFields)
			require.Nil(t, pod.Spec.SchedulingGroup, "what was given is left as it is")
			return source.GangOf(out.(*v1.Pod)).Name
		}
		require.Equal(t, "train/g", gang(read("old", "u-old")))

		// Pods are seen in the one watch before the other.
		for _, workload := range []string{"train", ""} {
			saw := make(chan string)
			go func() { saw <- gang(read("new", "u-"+workload)) }()
			synctest.Wait()
			select {
			case <-saw:
				require.Fail(t, "it is not known what it says")
			default:
			}
			_, err = pods.Create(t.Context(), written("new", "u-"+workload, workload), metav1.CreateOptions{})
			require.NoError(t, err)
			require.Equal(t, map[string]string{"train": "train/g", "": ""}[workload], <-saw)
			require.NoError(t, pods.Delete(t.Context(), "new", metav1.DeleteOptions{}))
		}
		require.Equal(t, "train/g", gang(read("new", "u-train")), "a deleted pod is still known")
		time.Sleep(2 * time.Minute)
		require.Empty(t, gang(read("new", "u-train")), "not for ever: it is asked for, and there is none")

		// What was never seen is asked for, and asked for again; it is gone, or another one has its name.
		away.Store(true)
		began, saw := time.Now(), make(chan string)
		go func() { saw <- gang(read("gone", "u-gone")) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		select {
		case <-saw:
			require.Fail(t, "there was no answer")
		default:
		}
		away.Store(false)
		require.Empty(t, <-saw)
		require.Less(t, time.Since(began), 12*time.Second)
		require.Empty(t, gang(read("old", "u-other")))

		// Later versions say it in a field of their own, which counts.
		_, err = pods.Create(t.Context(), written("later", "u-later", "train"), metav1.CreateOptions{})
		require.NoError(t, err)
		name := "native"
		pod := read("later", "u-later")
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		out, err := fill(pod)
		require.NoError(t, err)
		require.Equal(t, name, source.GangOf(out.(*v1.Pod)).Name)
	})
}

// TestWorkloadRefsOnlyWhereServed: API versions without Workloads cost no requests. Without permission to read
// Workloads their pods are members all the same, and report the missing permission.
func TestWorkloadRefsOnlyWhereServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{podResource: "PodList"})
		fill, err := connect.WorkloadRefs(t.Context(), client, serves(false, nil))
		require.NoError(t, err)
		require.Nil(t, fill)
		require.Empty(t, client.Actions())
		fill, err = connect.WorkloadRefs(t.Context(), client, serves(false, watch.ErrNoPermission))
		require.NoError(t, err)
		require.NotNil(t, fill)
		_, err = connect.WorkloadRefs(t.Context(), client, serves(false, errors.New("no route to host")))
		require.ErrorContains(t, err, "no route to host")
	})
}
