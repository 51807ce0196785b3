package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// TestGangsOfOtherSchedulers: the scheduler writes nothing to the PodGroup and the pods of another scheduler,
// and emits no event about them (case 48).
func TestGangsOfOtherSchedulers(t *testing.T) {
	of := func(name, status string) string {
		return document(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {scheduling.x-k8s.io/pod-group: g}},
  spec: {schedulerName: other, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}, status: {%s}}`, name, status)
	}
	pods, r := run(t, Options{}, node("n1", 4)+document(`{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g},
  spec: {minMember: 2}}`)+of("g-0", "nominatedNodeName: n1")+of("g-1", ""))
	require.Equal(t, []string{"g-0 Pending n1", "g-1 Pending"}, pods)
	require.Equal(t, &scheduling.PodGroupStatus{}, r.Gangs[0].Status)
	require.Empty(t, r.Events)
}
