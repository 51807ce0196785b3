package status_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestTopology: the tree that is in use, and whether it is the one of the spec; a tree that
// is still in use is told of, too, when the spec is invalid any more.
func TestTopology(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer"}, []topology.Node{
		{Name: "n-10", Path: []string{"s1"}}, {Name: "n-2", Path: []string{"s1"}}, {Name: "n-3", Path: []string{""}},
	})
	object := &koordinator.ClusterNetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 7}}
	first := metav1.NewTime(time.Unix(100, 0))
	good := status.Topology(object, tree, "", first)
	require.Len(t, good.Conditions, 1)
	require.Equal(t, metav1.Condition{
		Type: status.Ready, Status: metav1.ConditionTrue, Reason: reasons.InUse, Message: "the tree in use is built from this spec",
		ObservedGeneration: 7, LastTransitionTime: first,
	}, good.Conditions[0])
	require.NotEmpty(t, good.DetailStatus)
	require.EqualValues(t, 1, good.UnnamedDomains, "counted, not listed")

	object.Status = good
	require.Equal(t, good, status.Topology(object, tree, "", metav1.NewTime(time.Unix(200, 0))), "nothing changed, so nothing may be written")

	object.Generation = 8
	bad := status.Topology(object, tree, `layer "x" has no parent`, metav1.NewTime(time.Unix(300, 0)))
	c := meta.FindStatusCondition(bad.Conditions, status.Ready)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	require.Equal(t, reasons.InvalidSpec, c.Reason)
	require.Equal(t, `layer "x" has no parent; the last good tree stays in use`, c.Message)
	require.EqualValues(t, 300, c.LastTransitionTime.Unix())
	require.Equal(t, good.DetailStatus, bad.DetailStatus)
	require.Len(t, good.Conditions, 1, "what was given is not changed")
	require.Equal(t, metav1.ConditionTrue, good.Conditions[0].Status)
}

// TestTopologyTooLarge: of a network whose domains one object cannot hold the lowest layers are not listed, and a
// condition says which; it goes when all are listed again.
func TestTopologyTooLarge(t *testing.T) {
	network := func(spines, blocks int) *topology.Tree {
		var nodes []topology.Node
		for i := range spines * blocks {
			nodes = append(nodes, topology.Node{Name: fmt.Sprint("n-", i), Path: []string{fmt.Sprint("spine-", i/blocks), fmt.Sprint("block-", i)}})
		}
		return topology.Build([]string{"SpineLayer", "BlockLayer"}, nodes)
	}
	object := &koordinator.ClusterNetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 7}}
	object.Status = status.Topology(object, network(10, 1000), "", metav1.NewTime(time.Unix(100, 0)))
	require.Len(t, object.Status.DetailStatus, 11)
	require.EqualValues(t, 1000, object.Status.DetailStatus[1].NodeNum)
	require.Equal(t, "BlockLayer", object.Status.DetailStatus[1].ChildTopologyLayer)
	require.True(t, meta.IsStatusConditionTrue(object.Status.Conditions, status.Ready), "the tree is in use, listed or not")
	require.Equal(t, metav1.Condition{
		Type: status.Truncated, Status: metav1.ConditionTrue, Reason: reasons.TooManyDomains, ObservedGeneration: 7,
		LastTransitionTime: metav1.NewTime(time.Unix(100, 0)),
		Message: "detailStatus ends above BlockLayer: not listed are BlockLayer (10000 domains), because one object is too small for them. " +
			"Plans " +
			"use these domains; musterctl topology lists them",
	}, *meta.FindStatusCondition(object.Status.Conditions, status.Truncated))
	raw, err := json.Marshal(status.Topology(object, network(2, 2100), "", metav1.NewTime(time.Unix(200, 0))))
	require.NoError(t, err)
	require.Greater(t, len(raw), 800_000, "there is capacity for 4,200 blocks")
	require.Less(t, len(raw), 3<<19, "what etcd takes")

	object.Status = status.Topology(object, network(10, 10), "", metav1.NewTime(time.Unix(300, 0)))
	require.Len(t, object.Status.DetailStatus, 111)
	require.Nil(t, meta.FindStatusCondition(object.Status.Conditions, status.Truncated))
}

// TestTopologyIsToldSeldom: while nodes come one by one, the status is written once a second, and after the last one it
// says how it is.
func TestTopologyIsToldSeldom(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(koordinator.ClusterNetworkTopologies, "", map[string]any{
			"apiVersion": koordinator.GroupVersion.String(), "kind": "ClusterNetworkTopology", "metadata": map[string]any{"name": "default"},
			"spec": map[string]any{"networkTopologySpec": []any{map[string]any{"topologyLayer": "NodeTopologyLayer"}}},
		})
		w.pass(5 * time.Second)
		require.Equal(t, "default/status", w.written())
		for i := range 100 {
			_, err := w.client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i)}},
				metav1.CreateOptions{})
			require.NoError(t, err)
			w.pass(100 * time.Millisecond)
		}
		writes := len(strings.Fields(w.written()))
		require.GreaterOrEqual(t, writes, 9)
		require.LessOrEqual(t, writes, 11, "in ten seconds")
		w.pass(time.Second)
		is, err := w.custom.Resource(koordinator.ClusterNetworkTopologies).Get(t.Context(), "default", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, int64(100), is.Object["status"].(map[string]any)["detailStatus"].([]any)[0].(map[string]any)["nodeNum"])
	})
}

// TestTopologyIsTold: the ClusterNetworkTopology's status is written when it is seen, once,
// and a spec that is invalid is an event.
func TestTopologyIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		layer := func(name, parent string) any {
			return map[string]any{"topologyLayer": name, "parentTopologyLayer": parent, "labelKey": []any{"spine"}}
		}
		spec := func(layers ...any) map[string]any {
			return map[string]any{
				"apiVersion": koordinator.GroupVersion.String(), "kind": "ClusterNetworkTopology", "metadata": map[string]any{"name": "default"},
				"spec": map[string]any{"networkTopologySpec": layers},
			}
		}
		w.create(koordinator.ClusterNetworkTopologies, "",
			spec(layer("SpineLayer", ""), map[string]any{"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "SpineLayer"}))
		w.pass(time.Second)
		require.Equal(t, "default/status", w.written())
		w.teller.Topology()
		w.pass(time.Second)
		require.Empty(t, w.written())
		require.Empty(t, w.said())

		require.NoError(t, w.custom.Resource(koordinator.ClusterNetworkTopologies).Delete(t.Context(), "default", metav1.DeleteOptions{}))
		w.pass(time.Second)
		w.written()
		w.create(koordinator.ClusterNetworkTopologies, "", spec(layer("SpineLayer", "nowhere")))
		w.pass(time.Second)
		require.Equal(t, "default/status", w.written())
		said := w.said()
		require.Len(t, said, 1)
		require.Regexp(t, `(?s)^default Warning InvalidSpec: .*nowhere`, said[0])
	})
}

// TestUnusedTopology: one of another name has no effect, and says so once: in its condition and in
// an event.
func TestUnusedTopology(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(koordinator.ClusterNetworkTopologies, "", map[string]any{
			"apiVersion": koordinator.GroupVersion.String(), "kind": "ClusterNetworkTopology", "metadata": map[string]any{
				"name": "mine", "uid": "u",
			},
			"spec": map[string]any{"networkTopologySpec": []any{map[string]any{"topologyLayer": "NodeTopologyLayer"}}},
		})
		w.pass(time.Second)
		require.Equal(t, "mine/status", w.written())
		require.Equal(t, []string{"mine Warning NotUsed: this object has no effect: only ClusterNetworkTopology default is used"}, w.said())
		w.teller.Topology()
		w.pass(time.Second)
		require.Empty(t, w.written())
		require.Empty(t, w.said())

		require.NoError(t, w.custom.Resource(koordinator.ClusterNetworkTopologies).Delete(t.Context(), "mine", metav1.DeleteOptions{}))
		w.pass(time.Second)
		w.teller.Topology()
		w.pass(time.Second)
		require.Empty(t, w.written())
	})
}

// TestAboutWhatIsWritten: errors in a user's object are told apart from results of scheduling.
func TestAboutWhatIsWritten(t *testing.T) {
	for _, reason := range []string{
		reasons.InvalidAnnotation, reasons.TwoGangs, reasons.TierMissing, reasons.LeaderFirst, reasons.QuotaNotFound, reasons.InvalidSpec,
		reasons.NotUsed,
	} {
		require.True(t, status.ReportsUserError(reason), reason)
	}
	for _, reason := range []string{
		reasons.InUse, reasons.Scheduled, reasons.NeverFits, reasons.ScheduleTimeout, reasons.ReservationGivenUp,
		reasons.EvictionFailed, "",
	} {
		require.False(t, status.ReportsUserError(reason), reason)
	}
}
