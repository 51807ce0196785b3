package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

func defaults() config.Args {
	return config.Args{
		AwareNetworkTopology: true,
		EnablePreemption:     true,
		DefaultTimeout:       600 * time.Second,
		PreemptionTimeout:    5 * time.Minute, MaxGrace: 5 * time.Minute,
		Backfill:           config.Backfill{PromiseAfter: 10 * time.Minute, Promises: 1, Overdue: config.OverdueWait},
		RepairTimeout:      10 * time.Minute,
		RepairSwap:         true,
		RepairPolicy:       scheduling.RepairReplace,
		DefaultMatchPolicy: scheduling.MatchOnceSatisfied,
		MaintenanceLead:    24 * time.Hour,
		ControllerWorkers:  1,
	}
}

func TestDecode(t *testing.T) {
	args, err := config.Decode(nil)
	require.NoError(t, err)
	require.Equal(t, defaults(), args)

	for raw, change := range map[string]func(*config.Args){
		`{}`: func(*config.Args) {},
		`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"CoschedulingArgs"}`: func(*config.Args) {},
		`{"spares":[{"layer":"BlockLayer","nodes":1},{"layer":"SpineLayer","nodes":2,"unlessPriority":5}]}`: func(a *config.Args) {
			a.Spares = config.Spares{{Layer: "BlockLayer", Nodes: 1}, {Layer: "SpineLayer", Nodes: 2, UnlessPriority: new(int32(5))}}
		},
		`{"degraded":{}}`: func(a *config.Args) { a.Degraded.AvoidAfterFault.Duration = 10 * time.Minute },
		`{"degraded":{"conditions":[{"type":"GPUHealthy","status":"False"}],"labels":["health=poor"],"taints":["slow"],"avoidAfterFault":"0s"}}`: func(
			a *config.Args,
		) {
			a.Degraded = config.Degraded{
				Conditions: []config.DegradedCondition{{Type: "GPUHealthy", Status: "False"}}, Labels: []string{"health=poor"}, Taints: []string{"slow"},
			}
		},
		`{"forceFit":{"after":"2h","minPriority":1000}}`: func(a *config.Args) {
			a.ForceFit = config.ForceFit{After: metav1.Duration{Duration: 2 * time.Hour}, MinPriority: 1000}
		},
		`{"forceFit":null}`: func(*config.Args) {},
		`{"awareNetworkTopology":true,"enablePreemption":null}`: func(*config.Args) {},
		`{"backfill":{}}`:             func(*config.Args) {},
		`{"starvationTimeout":"5m"}`:  func(a *config.Args) { a.Backfill.PromiseAfter = 5 * time.Minute },
		`{"backfill":{"promises":0}}`: func(a *config.Args) { a.Backfill.Promises = 0 },
		`{"starvationTimeout":"300s","backfill":{"promiseAfter":"5m","promises":2,"defaultMaxRuntime":{"batch":"2h"},"overdue":"Evict"}}`: func(
			a *config.Args,
		) {
			a.Backfill = config.Backfill{
				PromiseAfter: 5 * time.Minute, Promises: 2, DefaultMaxRuntime: map[string]time.Duration{"batch": 2 * time.Hour},
				Overdue: config.OverdueEvict,
			}
		},
		`{"awareNetworkTopology":false,"enablePreemption":false,"defaultTimeout":"90s","preemptionTimeout":"1m","maxGrace":"1h","starvationTimeout":"0s",
		  "repairTimeout":"0s","repairSwap":false,"repairPolicy":"Move","defaultMatchPolicy":"only-waiting","maintenanceLead":"0s","controllerWorkers":4,"skipCheckScheduleCycle":true}`: func(a *config.Args) {
			*a = config.Args{
				DefaultTimeout: 90 * time.Second, PreemptionTimeout: time.Minute, MaxGrace: time.Hour, RepairPolicy: scheduling.RepairMove,
				Backfill:           config.Backfill{Promises: 1, Overdue: config.OverdueWait},
				DefaultMatchPolicy: scheduling.MatchOnlyWaiting, ControllerWorkers: 4, SkipCheckScheduleCycle: true,
			}
		},
	} {
		args, err := config.Decode(&runtime.Unknown{Raw: []byte(raw), ContentType: runtime.ContentTypeJSON})
		require.NoError(t, err, raw)
		want := defaults()
		change(&want)
		require.Equal(t, want, args, raw)
	}
}

func TestDecodeErrors(t *testing.T) {
	for raw, want := range map[string]string{
		`{"kind":"NodeAffinityArgs"}`: `CoschedulingArgs.kind: "NodeAffinityArgs" is invalid; supported values: CoschedulingArgs`,
		`{"apiVersion":"kubescheduler.config.k8s.io/v1beta3"}`: `CoschedulingArgs.apiVersion: "kubescheduler.config.k8s.io/v1beta3" is ` +
			`invalid; supported values: kubescheduler.config.k8s.io/v1`,
		`{"enablePremption":true}`: `CoschedulingArgs.enablePremption: unknown field; ` +
			`supported values: apiVersion, kind, awareNetworkTopology, enablePreemption, defaultTimeout, preemptionTimeout, maxGrace, ` +
			`backfill, starvationTimeout, repairTimeout, repairSwap, repairPolicy, forceFit, defaultMatchPolicy, spares, degraded, ` +
			`maintenanceLead, ` +
			`controllerWorkers, ` +
			`skipCheckScheduleCycle`,
		`{"enablePreemption":true,"enablePreemption":false}`: `CoschedulingArgs: duplicate field "enablePreemption"; ` +
			`supported values: each field once`,
		`{"enablePreemption":"yes"}`:  `CoschedulingArgs.enablePreemption: "yes" is invalid; supported values: true, false`,
		`{"defaultTimeout":600}`:      `CoschedulingArgs.defaultTimeout: 600 is invalid; supported values: a duration > 0, such as 600s`,
		`{"defaultTimeout":"0s"}`:     `CoschedulingArgs.defaultTimeout: "0s" is invalid; supported values: a duration > 0, such as 600s`,
		`{"preemptionTimeout":"-1s"}`: `CoschedulingArgs.preemptionTimeout: "-1s" is invalid`,
		`{"maxGrace":"0s"}`:           `CoschedulingArgs.maxGrace: "0s" is invalid; supported values: a duration > 0, such as 600s`,
		`{"repairTimeout":"-1s"}`:     `CoschedulingArgs.repairTimeout: "-1s" is invalid; supported values: a duration ≥ 0, such as 10m`,
		`{"spares":[{"layer":"","nodes":-1,"spread":1}]}`: `CoschedulingArgs.spares[0].layer: "" is invalid; ` +
			"supported values: a layer of the ClusterNetworkTopology\n" +
			"CoschedulingArgs.spares[0].nodes: -1 is invalid; supported values: an integer ≥ 0\n" +
			`CoschedulingArgs.spares[0].spread: unknown field; supported values: layer, nodes, unlessPriority`,
		`{"spares":[{"nodes":1}]}`: `CoschedulingArgs.spares[0].layer: missing`,
		`{"spares":{}}`:            `CoschedulingArgs.spares: {} is invalid; supported values: a list of objects`,
		`{"degraded":[]}`:          `CoschedulingArgs.degraded: [] is invalid; supported values: an object with the fields conditions`,
		`{"degraded":{"conditions":[{"type":"GPUHealthy","status":"no"}]}}`: `CoschedulingArgs.degraded.conditions[0].status: "no" is invalid; ` +
			`supported values: True, False, Unknown`,
		`{"degraded":{"labels":["health"]}}`:     `CoschedulingArgs.degraded.labels: ["health"] is invalid; supported values: a list of labels`,
		`{"degraded":{"taints":["a b"]}}`:        `CoschedulingArgs.degraded.taints: ["a b"] is invalid; supported values: a list of keys of taints`,
		`{"degraded":{"avoidAfterFault":"-1m"}}`: `CoschedulingArgs.degraded.avoidAfterFault: "-1m" is invalid; supported values: a duration ≥ 0`,
		`{"forceFit":true}`:                      `CoschedulingArgs.forceFit: true is invalid; supported values: an object with the fields after, minPriority`,
		`{"forceFit":{"after":"0s"}}`: `CoschedulingArgs.forceFit.after: "0s" is invalid; supported values: a duration > 0, such as 2h` +
			"\nCoschedulingArgs.forceFit.minPriority: missing",
		`{"maintenanceLead":"-1s"}`: `CoschedulingArgs.maintenanceLead: "-1s" is invalid; supported values: a duration ≥ 0, such as 24h`,
		`{"repairSwap":1}`:          `CoschedulingArgs.repairSwap: 1 is invalid; supported values: true, false`,
		`{"repairPolicy":"move"}`:   `CoschedulingArgs.repairPolicy: "move" is invalid; supported values: Replace, Move`,
		`{"starvationTimeout":"-1s"}`: `CoschedulingArgs.starvationTimeout: "-1s" is invalid; ` +
			`supported values: a duration ≥ 0, such as 10m`,
		`{"backfill":[]}`: `CoschedulingArgs.backfill: [] is invalid; ` +
			`supported values: an object with the fields promiseAfter, promises, defaultMaxRuntime, overdue`,
		`{"backfill":{"promiseAfter":"-1s"}}`: `CoschedulingArgs.backfill.promiseAfter: "-1s" is invalid; ` +
			`supported values: a duration ≥ 0, such as 10m`,
		`{"backfill":{"promises":-1,"overdue":"evict"}}`: "CoschedulingArgs.backfill.promises: -1 is invalid; supported values: an integer ≥ 0\n" +
			`CoschedulingArgs.backfill.overdue: "evict" is invalid; supported values: Wait, Evict; did you mean Evict?`,
		`{"backfill":{"defaultMaxRuntime":{"batch":"soon","b":"0s"}}}`: `CoschedulingArgs.backfill.defaultMaxRuntime.b: "0s" is invalid; ` +
			"supported values: a duration > 0, such as 2h\n" +
			`CoschedulingArgs.backfill.defaultMaxRuntime.batch: "soon" is invalid`,
		`{"backfill":{"promisesAfter":"1m"}}`: `CoschedulingArgs.backfill.promisesAfter: unknown field; ` +
			`supported values: promiseAfter, promises, defaultMaxRuntime, overdue; did you mean promiseAfter?`,
		`{"backfill":{"promiseAfter":"1h"},"starvationTimeout":"5m"}`: `CoschedulingArgs.starvationTimeout: 5m contradicts ` +
			`CoschedulingArgs.backfill.promiseAfter: 1h; both are the same argument: remove starvationTimeout`,
		`{"defaultMatchPolicy":"once"}`: `CoschedulingArgs.defaultMatchPolicy: "once" is invalid; ` +
			`supported values: only-waiting, waiting-and-running, once-satisfied`,
		`{"controllerWorkers":0}`: `CoschedulingArgs.controllerWorkers: 0 is invalid; supported values: an integer ≥ 1`,
		`[]`:                      `CoschedulingArgs: [] is not an object`,
		`{"controllerWorkers":0,"defaultMatchPolicy":"x","extra":1}`: "CoschedulingArgs.defaultMatchPolicy: \"x\" is invalid; supported " +
			"values: only-waiting, waiting-and-running, once-satisfied\nCoschedulingArgs.controllerWorkers: 0 is invalid; supported values: an " +
			"integer ≥ 1\nCoschedulingArgs.extra: unknown field",
	} {
		args, err := config.Decode(&runtime.Unknown{Raw: []byte(raw)})
		require.ErrorContains(t, err, want)
		require.Zero(t, args)
	}
	_, err := config.Decode(&metav1.Status{})
	require.EqualError(t, err, "CoschedulingArgs: got *v1.Status; supported values: arguments as JSON")
}
