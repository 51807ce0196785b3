// Package config decodes the arguments of Muster's plugins, and sets the defaults of a KubeSchedulerConfiguration.
//
// It uses kube-scheduler's configuration types, and not the plugins.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// PluginName is the plugin's name in a KubeSchedulerConfiguration.
const PluginName = "Coscheduling"

// GateName is the name of the plugin's part that keeps members out of the queue. Each profile that runs the plugin runs it, too.
const GateName = PluginName + "Gate"

const (
	argsKind       = PluginName + "Args"
	argsAPIVersion = "kubescheduler.config.k8s.io/v1"
)

// Args is CoschedulingArgs after decoding: valid and with defaults.
//
//	field                   default         supported values
//	awareNetworkTopology    true            true, false
//	enablePreemption        true            true, false
//	defaultTimeout          600s            a duration > 0
//	preemptionTimeout       5m              a duration > 0
//	maxGrace                5m              a duration > 0
//	backfill                see Backfill    an object; see Backfill
//	starvationTimeout       none            another name of backfill.promiseAfter
//	repairTimeout           10m             a duration ≥ 0; 0: never
//	repairSwap              true            true, false
//	repairPolicy            Replace         Replace, Move
//	forceFit                none            an object; see ForceFit
//	defaultMatchPolicy      once-satisfied  only-waiting, waiting-and-running, once-satisfied
//	spares                  none            a list of objects; see Spare
//	degraded                none            an object; see Degraded
//	maintenanceLead         24h             a duration ≥ 0
//	controllerWorkers       1               an integer ≥ 1
//	skipCheckScheduleCycle  false           true, false; without effect
type Args struct {
	// AwareNetworkTopology: Muster places gangs by their annotation network-topology-spec.
	AwareNetworkTopology bool
	// EnablePreemption: a gang may evict pods of lower priority.
	EnablePreemption bool
	// DefaultTimeout is how long members wait at Permit for one another, if their gang sets no time.
	DefaultTimeout time.Duration
	// PreemptionTimeout is how long victims may still run after their grace period. Then the reservation ends.
	PreemptionTimeout time.Duration
	// MaxGrace is a grace period. Victims with a longer one are evicted only if no other victims suffice.
	MaxGrace time.Duration
	// Backfill says when free capacity is held for a gang, and which pods may run there. See [the fields](admins/arguments.md#capacity-holds).
	// `starvationTimeout` is another name of its field `promiseAfter`.
	Backfill Backfill
	// RepairTimeout is how long free capacity is held for the missing members of an incomplete gang. 0 means that none is held.
	RepairTimeout time.Duration
	// RepairSwap: a smaller gang or a single pod of equal priority that fits elsewhere makes way for the replacement of a lost member.
	RepairSwap bool
	// RepairPolicy is the repair policy of gangs without one.
	RepairPolicy scheduling.RepairPolicy
	// ForceFit: a gang that waited for long may evict gangs of equal priority that were created after it.
	ForceFit ForceFit
	// DefaultMatchPolicy is the match policy of gangs without one.
	DefaultMatchPolicy scheduling.MatchPolicy
	// Spares are free nodes that new gangs leave unused. Running gangs use them after a fault.
	Spares Spares
	// Degraded says which nodes a plan uses only if no other plan is as good by the topology constraints.
	Degraded Degraded
	// MaintenanceLead is how long before a maintenance window a node takes no pod without a declared end.
	MaintenanceLead time.Duration
	// ControllerWorkers is the number of PodGroups whose status is updated at the same time.
	ControllerWorkers int
	// SkipCheckScheduleCycle is accepted so that Koordinator's configurations load.
	SkipCheckScheduleCycle bool
}

// Decode returns the arguments, given raw as a plugin's factory gets it: nil if the configuration has none, else a *runtime.Unknown with
// the JSON that the user wrote. The error names every invalid field.
func Decode(raw runtime.Object) (Args, error) {
	a := Args{
		AwareNetworkTopology: true,
		EnablePreemption:     true,
		DefaultTimeout:       600 * time.Second,
		PreemptionTimeout:    5 * time.Minute,
		MaxGrace:             5 * time.Minute,
		Backfill:             Backfill{PromiseAfter: 10 * time.Minute, Promises: 1, Overdue: OverdueWait},
		RepairTimeout:        10 * time.Minute,
		RepairSwap:           true,
		RepairPolicy:         scheduling.RepairReplace,
		DefaultMatchPolicy:   scheduling.MatchOnceSatisfied,
		MaintenanceLead:      24 * time.Hour,
		ControllerWorkers:    1,
	}
	if raw == nil {
		return a, nil
	}
	unknown, ok := raw.(*runtime.Unknown)
	if !ok {
		return Args{}, fmt.Errorf("%s: got %T; supported values: arguments as JSON", argsKind, raw)
	}

	const durationLegal = "a duration > 0, such as 600s"
	kind, apiVersion := argsKind, argsAPIVersion
	wait, leave := metav1.Duration{Duration: a.DefaultTimeout}, metav1.Duration{Duration: a.PreemptionTimeout}
	grace, lead := metav1.Duration{Duration: a.MaxGrace}, metav1.Duration{Duration: a.MaintenanceLead}
	repair := metav1.Duration{Duration: a.RepairTimeout}
	var starve *metav1.Duration
	var spares []json.RawMessage
	var backfill, degraded, forceFit json.RawMessage
	err := strictjson.Object(argsKind, unknown.Raw,
		strictjson.Field{
			Name: "apiVersion", Into: &apiVersion, Legal: argsAPIVersion,
			Check: func() bool { return apiVersion == argsAPIVersion },
		},
		strictjson.Field{
			Name: "kind", Into: &kind, Legal: argsKind,
			Check: func() bool { return kind == argsKind },
		},
		strictjson.Field{Name: "awareNetworkTopology", Into: &a.AwareNetworkTopology, Legal: "true, false"},
		strictjson.Field{Name: "enablePreemption", Into: &a.EnablePreemption, Legal: "true, false"},
		strictjson.Field{
			Name: "defaultTimeout", Into: &wait, Legal: durationLegal,
			Check: func() bool { return wait.Duration > 0 },
		},
		strictjson.Field{
			Name: "preemptionTimeout", Into: &leave, Legal: durationLegal,
			Check: func() bool { return leave.Duration > 0 },
		},
		strictjson.Field{
			Name: "maxGrace", Into: &grace, Legal: durationLegal,
			Check: func() bool { return grace.Duration > 0 },
		},
		strictjson.Field{
			Name: "backfill", Into: &backfill, Legal: backfillLegal, Check: func() bool { return backfill[0] == '{' },
		},
		strictjson.Field{
			Name: "starvationTimeout", Into: &starve, Legal: durationOrNever,
			Check: func() bool { return starve.Duration >= 0 },
		},
		strictjson.Field{
			Name: "repairTimeout", Into: &repair, Legal: durationOrNever,
			Check: func() bool { return repair.Duration >= 0 },
		},
		strictjson.Field{Name: "repairSwap", Into: &a.RepairSwap, Legal: "true, false"},
		strictjson.Field{
			Name: "repairPolicy", Into: &a.RepairPolicy, Legal: "Replace, Move",
			Check: func() bool { return slices.Contains(scheduling.RepairPolicies(), a.RepairPolicy) },
		},
		strictjson.Field{
			Name: "forceFit", Into: &forceFit, Legal: forceFitLegal, Check: func() bool { return forceFit[0] == '{' },
		},
		strictjson.Field{
			Name: "defaultMatchPolicy", Into: &a.DefaultMatchPolicy, Legal: "only-waiting, waiting-and-running, once-satisfied",
			Check: func() bool { return slices.Contains(scheduling.MatchPolicies(), a.DefaultMatchPolicy) },
		},
		strictjson.Field{Name: "spares", Into: &spares, Legal: "a list of objects with the fields layer, nodes, unlessPriority"},
		strictjson.Field{
			Name: "degraded", Into: &degraded, Legal: degradedLegal, Check: func() bool { return degraded[0] == '{' },
		},
		strictjson.Field{
			Name: "maintenanceLead", Into: &lead, Legal: "a duration ≥ 0, such as 24h",
			Check: func() bool { return lead.Duration >= 0 },
		},
		strictjson.Field{
			Name: "controllerWorkers", Into: &a.ControllerWorkers, Legal: "an integer ≥ 1",
			Check: func() bool { return a.ControllerWorkers >= 1 },
		},
		strictjson.Field{Name: "skipCheckScheduleCycle", Into: &a.SkipCheckScheduleCycle, Legal: "true, false"},
	)
	var wrong [4]error
	a.Backfill, wrong[0] = decodeBackfill(backfill, a.Backfill, starve)
	a.Spares, wrong[1] = decodeSpares(spares)
	a.Degraded, wrong[2] = decodeDegraded(degraded)
	a.ForceFit, wrong[3] = decodeForceFit(forceFit)
	if err = errors.Join(err, errors.Join(wrong[:]...)); err != nil {
		return Args{}, err
	}
	a.DefaultTimeout = wait.Duration
	a.PreemptionTimeout = leave.Duration
	a.MaxGrace = grace.Duration
	a.RepairTimeout = repair.Duration
	a.MaintenanceLead = lead.Duration
	return a, nil
}
