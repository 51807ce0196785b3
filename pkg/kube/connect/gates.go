package connect

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// gangsOnce refuses the scheduler's own gangs. Its cycle for the pods of a PodGroup runs neither
// PostFilter nor the plugin's order, and would gather pods which are gathered by the plugin.
func gangsOnce(gates featuregate.FeatureGate) error {
	if !gates.Enabled(features.GenericWorkload) {
		return nil
	}
	return fmt.Errorf("feature gate %s must be off in this scheduler: plugin %s schedules the PodGroups of scheduling.k8s.io without it, and their pods would be gangs twice; the API server needs it",
		features.GenericWorkload, config.PluginName)
}
