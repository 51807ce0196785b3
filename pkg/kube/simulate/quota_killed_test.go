package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// borrowed returns two spines of four nodes. Quota a has two gangs of four, and the younger one borrows. A waiting
// gang of quota b is within its min.
func borrowed() string {
	text := `
{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: default}, spec: {networkTopologySpec: [
  {topologyLayer: SpineLayer, labelKey: [spine]}, {topologyLayer: NodeTopologyLayer, parentTopologyLayer: SpineLayer}]}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: a, namespace: default}, spec: {min: {cpu: 32}, max: {cpu: 64}}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: b, namespace: default}, spec: {min: {cpu: 32}, max: {cpu: 64}}}
`
	for i := range 8 {
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: n%d, labels: {spine: s%d}}, status: {allocatable: {cpu: 8, "+
			"pods: 20}}}\n", i, i/4)
	}
	gang := func(name, quota, rules string, node, second int) {
		text += fmt.Sprintf("---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, annotations: {%s}}, "+
			"spec: {minMember: 4}}\n", name, rules)
		for i := range 4 {
			at, status := "", ""
			if node >= 0 {
				at = fmt.Sprintf(", nodeName: n%d", node+i)
				status = fmt.Sprintf(", status: {phase: Running, startTime: '2026-01-01T00:00:%02dZ'}", second)
			}
			text += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s-%d, labels: {pod-group.scheduling.sigs.k8s.io: %s, "+
				"quota.scheduling.koordinator.sh/name: %s}}, "+
				"spec: {schedulerName: muster-scheduler%s, containers: [{name: c, image: i, resources: {requests: {cpu: 8}}}]}%s}\n", name, i, name,
				quota, at, status)
		}
	}
	gang("old", "a", "", 0, 1)
	gang("young", "a", "", 4, 2)
	gang("g", "b",
		`gang.scheduling.koordinator.sh/network-topology-spec: '{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}'`, -1, 0)
	return text
}

const takenOver = "g-0=n4 g-1=n5 g-2=n6 g-3=n7 old-0=n0 old-1=n1 old-2=n2 old-3=n3"

// where says on which nodes pods are.
func where(pods []*v1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name+"="+p.Spec.NodeName)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestQuotaKilled (case 20): the scheduler is killed at any request while a borrowing gang is evicted for one
// of equal priority. The next scheduler evicts no other pod, no member of the victim gang remains, and its
// nodes are taken.
func TestQuotaKilled(t *testing.T) {
	quietLogs(t)
	killed := 0
	for left := range 30 {
		for _, carried := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			d := &doom{left: left, carried: carried}
			w, err := Open(ctx, Options{intercept: d.between}, setOf(t, borrowed()))
			require.NoError(t, err)
			require.NoError(t, w.Settle(ctx, d.is))
			if d.is() {
				killed++
			}
			restart(t, ctx, w, func() { d.set(-1, false) })
			require.NoError(t, w.Settle(ctx, nil))
			require.Equal(t, takenOver, where(w.Pods()), "killed at request %d, %s, carried out: %v", left, d.at, carried)
			require.Len(t, w.cluster.evictedPods(), 4)
			w.Close()
			cancel()
		}
	}
	require.Greater(t, killed, 20)
}

// TestQuotaKilledMidway (case 20): two of the four victims are gone, and the others terminate.
func TestQuotaKilledMidway(t *testing.T) {
	quietLogs(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := Open(ctx, Options{VictimsStay: true}, setOf(t, borrowed()))
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Settle(ctx, nil))
	require.Len(t, w.cluster.evictedPods(), 4)
	restart(t, ctx, w, func() {
		for _, name := range []string{"young-0", "young-1"} {
			leftForGood(t, w, name)
		}
	})
	require.NoError(t, w.Settle(ctx, nil))
	require.Len(t, w.cluster.evictedPods(), 4)
	require.Contains(t, where(w.Pods()), "g-0= g-1= g-2= g-3= ")
	for _, name := range []string{"young-2", "young-3"} {
		leftForGood(t, w, name)
	}
	require.NoError(t, w.Settle(ctx, nil))
	require.Equal(t, takenOver, where(w.Pods()))
	require.Len(t, w.cluster.evictedPods(), 4)
}

// leftForGood deletes a terminating pod.
func leftForGood(t *testing.T, w *World, name string) {
	_, err := w.cluster.change(pods, key{"default", name}, func(runtime.Object) (runtime.Object, error) { return nil, nil })
	require.NoError(t, err)
}
