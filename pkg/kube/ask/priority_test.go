package ask

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestQueueShowsPriorityOfPodGroup: where a PodGroup decides the priority of its pods, the queue shows that, and not what the pods say.
func TestQueueShowsPriorityOfPodGroup(t *testing.T) {
	const file = "../../../test/scenarios/simulate/int-native-priority-queue/in.yaml"
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	set := &simulate.Set{}
	require.NoError(t, set.Add(file, content))
	v, err := Open(t.Context(), Options{}, set)
	require.NoError(t, err)
	defer v.Close()
	all, err := v.Queue(t.Context(), "")
	require.NoError(t, err)
	var is []int32
	for _, w := range all {
		is = append(is, w.Priority)
	}
	require.Equal(t, []int32{1000000, 5000}, is)
}
