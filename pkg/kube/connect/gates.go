package connect

import (
	"fmt"
	"maps"
	"slices"

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

// defaults are the feature gates that are here what they are not in kube-scheduler, unless --feature-gates says otherwise.
var defaults = map[featuregate.Feature]bool{
	// The scheduler's queue asks only those about an event whom the plugin names (plugin/listeners.go). Before Kubernetes 1.37, also where an older one
	// is emulated, it cannot, and asks everybody.
	features.SchedulerPreQueueingHints: true,
	// Members of a gang that is planned are not nominated one by one while they wait for the others: that is a write per pod, and all of them before the
	// first binding. The nodes of gangs that wait for victims are written all the same. See docs/decisions/0011-nominations.md.
	features.NominatedNodeNameForExpectation: false,
}

// SetGates has the process's feature gates be Muster's. Whoever makes a scheduler, also a simulated one, calls it before he does, so that all of them
// do the same; whichever Kubernetes is emulated, before or afterwards, and however often.
func SetGates() error {
	gates := utilfeature.DefaultMutableFeatureGate
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if by := gates.GetAllVersioned()[name]; len(by) > 0 && by[len(by)-1].Default == defaults[name] { // a later call may come when they may not change any more
			continue
		}
		if err := gates.OverrideDefaultAtVersion(name, defaults[name], Newest); err != nil {
			return err
		}
	}
	return nil
}
