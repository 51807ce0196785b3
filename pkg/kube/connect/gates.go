package connect

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
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

// Narrow has the scheduler's queue ask only those about an event whom the plugin names (plugin/listeners.go), unless --feature-gates says otherwise. Before
// Kubernetes 1.37, also where an older one is emulated, the queue cannot, and asks everybody. It is for the whole process, before there is a scheduler.
func Narrow() error {
	return utilfeature.DefaultMutableFeatureGate.OverrideDefault(features.SchedulerPreQueueingHints, true)
}
