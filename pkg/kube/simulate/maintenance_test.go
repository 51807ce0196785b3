package simulate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const nodeWithMaintenance = `
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {muster.sh/maintenance: "2026-01-02T02:00:00Z/2026-01-02T06:00:00Z"}},
 status: {capacity: {cpu: 8}}}
`

// workOf returns pods with annotations: member is a gang of two, single has no gang, and agent is of a DaemonSet.
func workOf(annotations string) string {
	const pod = `---
{apiVersion: v1, kind: Pod, metadata: {name: %s, annotations: {%s}%s},
 spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}
`
	const member = ", labels: {pod-group.scheduling.sigs.k8s.io: member}"
	const owned = ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]"
	return `---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: member}, spec: {minMember: 2}}
` + fmt.Sprintf(pod, "member-0", annotations, member) + fmt.Sprintf(pod, "member-1", annotations, member) +
		fmt.Sprintf(pod, "single", annotations, "") + fmt.Sprintf(pod, "agent", annotations, owned)
}

// openAt opens a world whose clock is at a moment.
func openAt(t *testing.T, text, moment string) (*World, context.Context) {
	quietLogs(t)
	m, err := ParseMoment(moment)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	w, err := Open(ctx, Options{At: m}, setOf(t, text))
	require.NoError(t, err)
	t.Cleanup(func() { w.Close(); cancel() })
	require.NoError(t, w.Settle(ctx, nil))
	return w, ctx
}

// bound lists the bound pods, in the order of creation.
func bound(w *World) string {
	var names []string
	for _, p := range w.Pods() {
		if p.Spec.NodeName != "" {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " ")
}

const everything = "member-0 member-1 single agent"

// TestPodsWaitForTheEndOfMaintenance: within the window, and before it if they would end too late, a gang and a pod without a gang wait. A pod
// of a DaemonSet does not. They start when the window has ended, without any event of the cluster.
func TestPodsWaitForTheEndOfMaintenance(t *testing.T) {
	w, ctx := openAt(t, nodeWithMaintenance+workOf(""), "2026-01-02T03:00:00Z")
	require.Equal(t, "agent", bound(w))
	w.AdvanceTo(time.Date(2026, 1, 2, 5, 59, 0, 0, time.UTC))
	require.NoError(t, w.Settle(ctx, nil))
	require.Equal(t, "agent", bound(w))
	w.AdvanceTo(time.Date(2026, 1, 2, 6, 0, 0, 0, time.UTC))
	require.NoError(t, w.Settle(ctx, nil))
	require.Equal(t, everything, bound(w))
}

// TestPodsStartBeforeMaintenance: what ends before the window starts there, and what has no declared end until maintenanceLead before it.
func TestPodsStartBeforeMaintenance(t *testing.T) {
	for name, c := range map[string]struct{ annotations, at, want string }{
		"ends before":            {`muster.sh/max-runtime: 1h`, "2026-01-02T00:30:00Z", everything},
		"ends after":             {`muster.sh/max-runtime: 1h`, "2026-01-02T01:30:00Z", "agent"},
		"no declared end":        {"", "2026-01-02T00:30:00Z", "agent"},
		"long before the window": {"", "2026-01-01T01:59:00Z", everything},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := openAt(t, nodeWithMaintenance+workOf(c.annotations), c.at)
			require.Equal(t, c.want, bound(w))
			if c.want == "agent" {
				for _, p := range w.Result().Pods {
					if p.Name == "single" {
						require.Contains(t, p.Message, "have maintenance from 2026-01-02T02:00:00Z until 2026-01-02T06:00:00Z (declare muster.sh/max-runtime")
					}
				}
			}
		})
	}
}

// TestWithdrawnMaintenanceRetries: when the annotation is removed, the pods that wait start.
func TestWithdrawnMaintenanceRetries(t *testing.T) {
	w, ctx := openAt(t, nodeWithMaintenance+workOf(""), "2026-01-02T03:00:00Z")
	require.NoError(t, w.Apply(ctx, setOf(t, `{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 8}}}`)))
	require.NoError(t, w.Settle(ctx, nil))
	require.Equal(t, everything, bound(w))
}

// TestInvalidMaintenanceIsNamed: an invalid interval has no effect, and a warning about the node says what is supported.
func TestInvalidMaintenanceIsNamed(t *testing.T) {
	w, _ := openAt(t, strings.Replace(nodeWithMaintenance, "06:00", "01:00", 1)+workOf(""), "2026-01-02T03:00:00Z")
	require.Equal(t, everything, bound(w))
	warnings := w.Warnings()
	require.Len(t, warnings, 1)
	require.Equal(t, "Node n1", warnings[0].Object)
	require.Contains(t, warnings[0].Message, `muster.sh/maintenance: "2026-01-02T02:00:00Z/2026-01-02T01:00:00Z" is invalid; supported values: START/END`)
}

// TestDeclaredEndsPassUntilTheMoment: pods whose declared end is not later than the moment have ended, and their capacity is free. Other pods
// still run.
func TestDeclaredEndsPassUntilTheMoment(t *testing.T) {
	const running = `---
{apiVersion: v1, kind: Pod, metadata: {name: %s, annotations: {%s}, creationTimestamp: "2026-01-01T00:00:00Z"},
 spec: {schedulerName: muster-scheduler, nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 4}}}]}}
`
	objects := `{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 10}}}
` + fmt.Sprintf(running, "hour", "muster.sh/max-runtime: 1h") + fmt.Sprintf(running, "day", "muster.sh/max-runtime: 24h") + workOf("")
	for moment, want := range map[string]string{"+59m": "", "+1h": "hour", "2026-01-02T00:00:01Z": "day hour"} {
		w, _ := openAt(t, objects, moment)
		ended := strings.ReplaceAll(strings.Join(w.Ended(), " "), "default/", "")
		require.Equal(t, want, ended, moment)
		require.Equal(t, want != "", strings.Contains(bound(w), "member-1"), moment)
	}
	for text, why := range map[string]string{
		"soon": `"soon": supported values: a time such as`, "+soon": "supported values", "-2h": "supported values",
		"2h": "supported values", "": "supported values",
	} {
		_, err := ParseMoment(text)
		require.ErrorContains(t, err, why)
	}
	m, err := ParseMoment("2025-01-01T00:00:00Z")
	require.NoError(t, err)
	_, err = Open(t.Context(), Options{At: m}, setOf(t, objects))
	require.ErrorContains(t, err, "2025-01-01T00:00:00Z: is before the time of the cluster's objects, 2026-01-01T")
	m, err = ParseMoment("+1000000h")
	require.NoError(t, err)
	_, err = Open(t.Context(), Options{At: m}, setOf(t, objects))
	require.ErrorContains(t, err, "+1000000h: is more than a year after the time of the cluster's objects, 2026-01-01T")
}

// TestCapacityIsHeldWhenMaintenanceEnds: a gang loses a member while the only other node of its block is in maintenance. When the window has
// ended, the node is held for the replacement, which does not exist yet. A pod that comes first does not get it.
func TestCapacityIsHeldWhenMaintenanceEnds(t *testing.T) {
	const node = `
---
{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {block: b}%s}, status: {capacity: {cpu: 8}}}`
	const pod = `
---
{apiVersion: v1, kind: Pod, metadata: {name: %s%s}, spec: {schedulerName: muster-scheduler%s, containers: [{name: c, image: i, resources: {requests: {cpu: 8}}}]}}`
	const member = ", labels: {pod-group.scheduling.sigs.k8s.io: g}"
	const deleted = `, deletionTimestamp: "2026-01-02T05:55:00Z"`
	objects := `
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: default}
spec:
  networkTopologySpec:
  - {topologyLayer: BlockLayer, labelKey: [block]}
  - {topologyLayer: NodeTopologyLayer, parentTopologyLayer: BlockLayer}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g, annotations: {gang.scheduling.koordinator.sh/network-topology-spec: '{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}'}}
spec: {minMember: 2}
status: {conditions: [{type: Started, status: "True", reason: Scheduled, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}` +
		fmt.Sprintf(node, "n1", "") + fmt.Sprintf(node, "n2", `, annotations: {muster.sh/maintenance: "2026-01-02T02:00:00Z/2026-01-02T06:00:00Z"}`) +
		fmt.Sprintf(node, "n3", "") + fmt.Sprintf(pod, "g-0", member, ", nodeName: n1") + fmt.Sprintf(pod, "g-1", member, ", nodeName: n3")
	w, ctx := openAt(t, objects, "2026-01-02T05:55:00Z")
	apply := func(text, want string) {
		t.Helper()
		require.NoError(t, w.Apply(ctx, setOf(t, text)))
		require.NoError(t, w.Settle(ctx, nil))
		require.Equal(t, want, bound(w))
	}
	apply(fmt.Sprintf(node, "n3", deleted)+fmt.Sprintf(pod, "g-1", member+deleted, ", nodeName: n3"), "g-0")
	apply(fmt.Sprintf(pod, "early", "", ", nodeSelector: {no: such}"), "g-0") // its cycle looks for capacity to hold
	w.AdvanceTo(time.Date(2026, 1, 2, 6, 0, 0, 0, time.UTC))
	require.NoError(t, w.Settle(ctx, nil))
	apply(fmt.Sprintf(pod, "single", "", ""), "g-0")
	apply(fmt.Sprintf(pod, "g-2", member, ""), "g-0 g-2")
}
