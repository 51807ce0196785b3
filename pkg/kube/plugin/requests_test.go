package plugin_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// t12 is the cluster of the documented examples.
const t12 = "s0/b0/node-0=8 s0/b0/node-1=8 s0/b1/node-2=8 s0/b1/node-3=8 s0/b1/node-4=8 " +
	"s1/b2/node-5=8 s1/b2/node-6=8 s1/b3/node-7=8 s1/b3/node-8=8 s2/b4/node-9=8 s2/b4/node-10=8 s2/b4/node-11=8"

// failFirst has the first bindings of each pod answered with an error.
func failFirst(c *testcluster.Cluster, times int, err error) {
	var mu sync.Mutex
	asked := map[string]int{}
	c.Answering(func(r testcluster.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if r.What != "binding" || asked[r.Pod] == times {
			return nil
		}
		asked[r.Pod]++
		return err
	})
}

// Case 42: the plan of case 2 is retried, whatever the API server answers to bindings. No further pod is evicted.
func TestFailedBindingsBlameNoNode(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		times int
		err   error
	}{
		"504":          {1, apierrors.NewTimeoutError("the API server is slow", 1)},
		"409":          {1, apierrors.NewConflict(pods, "g", nil)},
		"504 for long": {4, apierrors.NewTimeoutError("the API server is slow", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := testcluster.New(t, t12)
			for _, low := range []string{"0", "1", "5"} {
				cluster.Pod(testcluster.A("low-"+low, 1000, "8", "node-"+low))
			}
			failFirst(cluster, c.times, c.err)
			cluster.Run()
			cluster.Gang("g", 4, testcluster.Pending(4, 1000000, "8")...)
			cluster.Wait("g-0=node-5 g-1=node-6 g-2=node-7 g-3=node-8", func() string { return cluster.Where("g-0", "g-1", "g-2", "g-3") })
			cluster.Wait("low-5", cluster.Evicted)
		})
	}
}

// A member was nominated while it waited in Permit, and lost its node; the request that clears the nomination
// failed. The gang lacks a member, so no retry happens. A nomination to another node stays.
func TestANominationThatTheSchedulerCannotClear(t *testing.T) {
	t.Parallel()
	for lost, stays := range map[string]bool{"n0": false, "n1": true} {
		c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
		c.Run()
		c.Gang("g", 2, testcluster.Pending(1, 100, "8")...)
		c.WaitSaid(1, "1 of 2 members exist")
		pod := c.Get("g-0").DeepCopy()
		pod.Status.NominatedNodeName = "n0"
		_, err := c.Client.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(t, err)
		c.Wait("n0", func() string { return c.Plugin.Cache.Pod("default/g-0").Status.NominatedNodeName })
		c.Plugin.Unnominate(pod, lost)
		if stays {
			c.Never(func() bool { return c.Get("g-0").Status.NominatedNodeName == "" })
		} else {
			c.Wait("g-0>", func() string { return c.Where("g-0") })
		}
	}
}
