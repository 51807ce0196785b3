package connect

import (
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// TestGangsOnce: the scheduler's own gangs are off as it ships, and a scheduler in which they are
// on does not start.
func TestGangsOnce(t *testing.T) {
	require.NoError(t, rejectNativeGangs(utilfeature.DefaultFeatureGate))
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	require.NoError(t, gates.Set(string(features.GenericWorkload)+"=true"))
	require.ErrorContains(t, rejectNativeGangs(gates), "GenericWorkload must be off")
}
