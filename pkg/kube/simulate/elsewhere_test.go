package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// All members have finished, and the PodGroup of their name is in another namespace: no pod is left that names it.
func TestFinishedMembersOfPodGroupElsewhere(t *testing.T) {
	w, err := Open(t.Context(), Options{}, setOf(t, `
{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: 8, pods: 10}}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: train, namespace: team}, spec: {minMember: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: train-0, labels: {pod-group.scheduling.sigs.k8s.io: train}}
spec: {nodeName: n0, schedulerName: muster-scheduler, containers: [{name: main, image: none}]}
status: {phase: Succeeded}
`))
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Settle(t.Context(), nil))
	var messages []string
	for _, g := range w.Result().Gangs {
		messages = append(messages, g.Message)
	}
	require.Equal(t, []string{"PodGroup default/train does not exist", "0 of 2 members exist"}, messages)
}
