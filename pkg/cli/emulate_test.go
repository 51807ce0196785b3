package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// TestEmulate: what came after a version is off while it is simulated, and on again afterwards.
func TestEmulate(t *testing.T) {
	gates := utilfeature.DefaultMutableFeatureGate
	isOn := func() (on int) {
		for name := range gates.GetAll() {
			if gates.Enabled(name) {
				on++
			}
		}
		return on
	}
	all := isOn()
	restore, err := emulate(&cobra.Command{}, "1.34", &simulate.Set{})
	require.NoError(t, err)
	require.Equal(t, connect.Oldest, gates.EmulationVersion())
	require.Less(t, isOn(), all)
	require.False(t, gates.Enabled(featuregate.Feature("DRADeviceTaintRules")), "what 1.34 does not serve is not waited for")
	restore()
	require.Equal(t, connect.Newest, gates.EmulationVersion())
	require.Equal(t, all, isOn())
}
