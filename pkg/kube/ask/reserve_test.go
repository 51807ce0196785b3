package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// apartByBlock keeps a pod off blocks with pods of app want.
const apartByBlock = `, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ` +
	`block, labelSelector: {matchLabels: {app: want}}}]}}`

// TestGangWaitsOnlyForItsVictims: if members depend on one another and may wait for a pod on another node,
// the gang does not wait for other terminating pods.
func TestGangWaitsOnlyForItsVictims(t *testing.T) {
	for name, test := range map[string]struct {
		leaves string // another pod: its node, and what more there is to it
		says   string
	}{
		"no other pod terminates": {"m2", "Would evict default/run on m1; the gang starts in s when that pod has terminated."},
		"a pod terminates on a useless node": {"m2 leaves", "Would evict default/run on m1; the gang starts in s when that pod has " +
			"terminated."},
		"a pod that repels members terminates": {
			"m3 leaves apart", "Would evict default/run on m1; default/bye on m3 terminates anyway; the gang starts in s when these pods " +
				"have terminated.",
		},
		"such a pod terminates in another block": {
			"m2 leaves apart", "Would evict default/run on m1; the gang starts in s when that pod has terminated.",
		},
		"a pod terminates on a used node": {
			"m0 leaves", "Would evict default/run on m1; default/bye on m0 terminates anyway; the gang starts in s when these pods have " +
				"terminated.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			out.WriteString(`
{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: default}, spec: {networkTopologySpec: [
  {topologyLayer: SpineLayer, labelKey: [spine]}, {topologyLayer: BlockLayer, parentTopologyLayer: SpineLayer, labelKey: [block]},
  {topologyLayer: NodeTopologyLayer, parentTopologyLayer: BlockLayer}]}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: want, namespace: default}, spec: {minMember: 2}}
`)
			for _, p := range []int{1, 5, 9} {
				fmt.Fprintf(&out, "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p%d}, value: %d}\n", p, p)
			}
			for i, block := range []string{"b0", "b1", "b2", "b1"} {
				fmt.Fprintf(&out,
					"---\n{apiVersion: v1, kind: Node, metadata: {name: m%d, labels: {spine: s, block: %s, kubernetes.io/hostname: m%[1]d}}, status: "+
						"{capacity: {cpu: 4, pods: 110}, allocatable: {cpu: 4, pods: 110}}}\n",
					i, block)
			}
			pod := func(name, node string, priority, cpu int, labels, meta, spec string) {
				phase := "Pending"
				if node != "" {
					node, phase = ", nodeName: "+node, "Running"
				}
				fmt.Fprintf(&out,
					"---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: default, uid: %[1]s, labels: {%s}%s}, spec: {schedulerName: "+
						"muster-scheduler, priorityClassName: p%d, containers: [{name: c, image: i, resources: {requests: {cpu: %d}}}]%s%s}, status: "+
						"{phase: %s}}\n",
					name, labels, meta, priority, cpu, node, spec, phase)
			}
			pod("run", "m1", 1, 4, "", "", "")
			pod("keeps", "m2", 9, 3, "", "", "")
			pod("keeps-3", "m3", 9, 3, "", "", "")
			where, is, _ := strings.Cut(test.leaves, " ")
			leaving, apart := "", ""
			if strings.Contains(is, "leaves") {
				leaving = ", finalizers: [a/b], deletionTimestamp: '2099-01-01T00:00:00Z', deletionGracePeriodSeconds: 30"
			}
			if strings.Contains(is, "apart") {
				apart = apartByBlock
			}
			pod("bye", where, 9, 1, "", leaving, apart)
			for i := range 2 {
				pod(fmt.Sprint("want-", i), "", 5, 4, "pod-group.scheduling.sigs.k8s.io: want, app: want", "", apartByBlock)
			}
			set := &simulate.Set{}
			require.NoError(t, set.Add("world.yaml", []byte(out.String())))
			v, err := Open(t.Context(), Options{}, set)
			require.NoError(t, err)
			defer v.Close()
			e, err := v.Explain(t.Context(), Target{Kind: "podgroup", Namespace: "default", Name: "want"})
			require.NoError(t, err)
			require.Equal(t, test.says, e.WaitsFor)
		})
	}
}
