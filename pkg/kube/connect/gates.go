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

// rejectNativeGangs returns an error if kube-scheduler's own gangs are enabled. Their scheduling cycle ignores PostFilter and the
// plugin's order, and would make gangs of the same pods a second time.
func rejectNativeGangs(gates featuregate.FeatureGate) error {
	if !gates.Enabled(features.GenericWorkload) {
		return nil
	}
	return fmt.Errorf("feature gate %s must be off in this scheduler: plugin %s schedules the PodGroups of scheduling.k8s.io without it, "+
		"and their pods would be gangs twice; the API server needs it",
		features.GenericWorkload, config.PluginName)
}

// defaults are the feature gates with another default than in kube-scheduler, unless --feature-gates sets them.
var defaults = map[featuregate.Feature]bool{
	// With it, the scheduler's queue calls only the plugins in plugin/listeners.go for an event. Before Kubernetes 1.37, also if that
	// is emulated, the queue calls all plugins.
	features.SchedulerPreQueueingHints: true,
	// Planned members are not nominated one by one while they wait for each other: that is a write for each pod, before the
	// first binding. Nodes of gangs that wait for victims are written nevertheless. See docs/decisions/0011-nominations.md.
	features.NominatedNodeNameForExpectation: false,
}

// SetGates sets the process's feature gates to Muster's defaults. Call it before each scheduler is created, including simulated
// ones, for equal behaviour. It may be called repeatedly, before or after emulation is set.
func SetGates() error {
	gates := utilfeature.DefaultMutableFeatureGate
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		// a later call may find the gates locked
		if specs := gates.GetAllVersioned()[name]; len(specs) > 0 && specs[len(specs)-1].Default == defaults[name] {
			continue
		}
		if err := gates.OverrideDefaultAtVersion(name, defaults[name], Newest); err != nil {
			return err
		}
	}
	return nil
}
