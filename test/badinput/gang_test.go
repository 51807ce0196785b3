package badinput

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

const key = "gang.scheduling.koordinator.sh/"

func TestTopologySpec(t *testing.T) {
	const name = key + "network-topology-spec"
	spec := func(s string) says { return says{"network-topology-spec": s} }
	rule := func(s string) says { return spec(`{"gatherStrategy":[{` + s + `}]}`) }
	const unknownLayer = `layer "spineLayer" is not in ClusterNetworkTopology default (has: SpineLayer, BlockLayer, NodeTopologyLayer); did you mean SpineLayer?`
	const conflict = "TopologySpecConflict: gangs default/a and default/b of one GangGroup carry different " + name
	group := says{"groups": `["default/a","default/b"]`}
	with := func(a, b says) says {
		return says{"groups": a["groups"], "network-topology-spec": b["network-topology-spec"]}
	}

	look(t, []seen{
		{
			name: "empty", comes: gang("g", spec(``), nil),
			want: rejected(name + `: "" is not JSON: unexpected end of JSON input`),
		},
		{
			name: "not JSON", comes: gang("g", spec(`{"gatherStrategy":`), nil),
			want: rejected(name + `: "{\"gatherStrategy\":" is not JSON: unexpected end of JSON input (position 18)`),
		},
		{
			name: "not an object", comes: gang("g", spec(`[]`), nil),
			want: rejected(name + `: [] is not an object; supported values: an object with the fields gatherStrategy`),
		},
		{
			name: "unknown field", comes: gang("g", spec(`{"gatherStrategies":[]}`), nil),
			want: rejected(name + `.gatherStrategies: unknown field; supported values: gatherStrategy`),
		},
		{
			name: "unknown field of a rule", comes: gang("g", rule(`"layer":"SpineLayer","strategy":"MustGather","weight":1`), nil),
			want: rejected(name + `: gatherStrategy[0].weight: unknown field; supported values: layer, strategy, podCountMultiple, scope`),
		},
		{
			name: "unknown strategy", comes: gang("g", rule(`"layer":"SpineLayer","strategy":"mustGather"`), nil),
			want: rejected(name + `: gatherStrategy[0].strategy: "mustGather" is invalid; supported values: MustGather, PreferGather; did you mean MustGather?`),
		},
		{
			name: "no strategy", comes: gang("g", rule(`"layer":"SpineLayer"`), nil),
			want: rejected(name + `: gatherStrategy[0].strategy: missing; supported values: MustGather, PreferGather`),
		},
		{
			name: "no layer", comes: gang("g", rule(`"strategy":"MustGather"`), nil),
			want: rejected(name + `: gatherStrategy[0].layer: missing; supported values: a layer of the ClusterNetworkTopology`),
		},
		{
			name: "unknown layer", comes: gang("g", rule(`"layer":"spineLayer","strategy":"MustGather"`), nil),
			want: rejected(unknownLayer),
		},
		{
			name: "unknown layer, a preference", comes: gang("g", rule(`"layer":"spineLayer","strategy":"PreferGather"`), nil),
			want: rejected(unknownLayer),
		},
		{
			name: "podCountMultiple 0", comes: gang("g", rule(`"layer":"SpineLayer","strategy":"MustGather","podCountMultiple":0`), nil),
			want: rejected(name + `: gatherStrategy[0].podCountMultiple: 0 is invalid; supported values: an integer ≥ 1`),
		},
		{
			name: "podCountMultiple as text", comes: gang("g", rule(`"layer":"SpineLayer","strategy":"MustGather","podCountMultiple":"2"`), nil),
			want: rejected(name + `: gatherStrategy[0].podCountMultiple: "2" is invalid; supported values: an integer ≥ 1`),
		},
		{
			name: "unknown scope", comes: gang("g", rule(`"layer":"SpineLayer","strategy":"MustGather","scope":"podGroup"`), nil),
			want: rejected(name + `: gatherStrategy[0].scope: "podGroup" is invalid; supported values: GangGroup, PodGroup; did you mean PodGroup?`),
		},
		{
			name:  "layer twice",
			comes: gang("g", rule(`"layer":"SpineLayer","strategy":"MustGather"},{"layer":"SpineLayer","strategy":"PreferGather"`), nil),
			want:  rejected(name + `: gatherStrategy[1].layer: "SpineLayer" a second time with scope GangGroup is invalid; supported values: one rule for each layer and scope`),
		},
		{
			name: "two mistakes",
			comes: gang("g", rule(`"layer":"SpineLayer","strategy":"Must"},{"layer":"BlockLayer","strategy":"MustGather","podCountMultiple":-1`),
				nil),
			want: rejected(name + `: gatherStrategy[0].strategy: "Must" is invalid; supported values: MustGather, PreferGather` + "\n" +
				name + `: gatherStrategy[1].podCountMultiple: -1 is invalid; supported values: an integer ≥ 1`),
		},
		{
			name: "on pods that describe their gang", comes: bare("g", rule(`"layer":"spineLayer","strategy":"MustGather"`)),
			want: rejectedBare(unknownLayer),
		},
		{
			name: "on pods that describe their gang, not JSON", comes: bare("g", spec(`MustGather`)),
			want: rejectedBare(name + `: "MustGather" is not JSON: invalid character 'M' looking for beginning of value (position 1)`),
		},
		{
			name: "on pods of a PodGroup", comes: gang("g", nil, rule(`"layer":"spineLayer","strategy":"MustGather"`)),
			want: rejected(unknownLayer),
		},
		{
			name: "on a PodGroup and its pods", comes: gang("g", spec(`{"gatherStrategy":[]}`), spec(`{"gatherStrategy": []}`)),
			want: bound(
				"Pod g-0: InvalidAnnotation: "+name+`: "{\"gatherStrategy\": []}" has no effect: PodGroup default/g says "{\"gatherStrategy\":[]}", which is used; write the same on all members`,
				"Pod g-1: InvalidAnnotation: "+name+`: "{\"gatherStrategy\": []}" has no effect: PodGroup default/g says "{\"gatherStrategy\":[]}", which is used; write the same on all members`,
			),
		},
		{
			name: "different in one group",
			comes: gang("a", with(group, rule(`"layer":"SpineLayer","strategy":"MustGather"`)), nil) +
				gang("b", with(group, rule(`"layer":"SpineLayer","strategy":"PreferGather"`)), nil),
			want: lines(
				"pods a-0: unschedulable: 0/4 nodes are available: "+conflict+".",
				"pods a-1 b-0 b-1: gated: "+conflict,
				"PodGroup a: TopologySpecConflict: "+conflict,
				"PodGroup b: TopologySpecConflict: "+conflict,
				"event Pod a-0: FailedScheduling: 0/4 nodes are available: "+conflict+".",
				"event PodGroup a: TopologySpecConflict: "+conflict,
				"event PodGroup b: TopologySpecConflict: "+conflict,
			),
		},
	})
}

func TestTopologyIndex(t *testing.T) {
	label := says{ofGroup: "g"}
	of := func(index string) string {
		return podGroup("g", nil) + pod("g-0", label, says{"network-topology-index": index}) +
			pod("g-1", label, says{"network-topology-index": "0"})
	}
	illegal := func(index string) string {
		return bound("Pod g-0: InvalidTopologyIndex: " + key + "network-topology-index: " + index +
			" is invalid; supported values: an integer ≥ 0")
	}
	look(t, []seen{
		{name: "negative", comes: of("-1"), want: illegal(`"-1"`)},
		{name: "a word", comes: of("first"), want: illegal(`"first"`)},
		{name: "not whole", comes: of("1.0"), want: illegal(`"1.0"`)},
		{name: "too large", comes: of("99999999999"), want: illegal(`"99999999999"`)},
		{name: "empty", comes: of(""), want: illegal(`""`)},
	})

	// So is one that others give it.
	const podIndex = "apps.kubernetes.io/pod-index"
	look(t, []seen{{
		name:  "of a StatefulSet",
		comes: podGroup("g", nil) + pod("g-0", says{ofGroup: "g", podIndex: "zero"}, nil) + pod("g-1", says{ofGroup: "g", podIndex: "1"}, nil),
		want:  bound("Pod g-0: InvalidTopologyIndex: " + podIndex + `: "zero" is invalid; supported values: an integer ≥ 0`),
	}})

	// It is sorted last: the legal rank gets the first node.
	r := run(t, simulate.Options{}, cluster+topology("default", layers), of("first"))
	require.Equal(t, "n1", r.Pods[0].Node)
	require.Equal(t, "n0", r.Pods[1].Node)
}

// TestUnknownKeys: an unknown key is reported, together with the known key that resembles it (case 59).
func TestUnknownKeys(t *testing.T) {
	const specs = key + "network-topology-specs: unknown; did you mean network-topology-spec?"
	rule := `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`
	look(t, []seen{
		{name: "on a PodGroup", comes: gang("g", says{"network-topology-specs": rule}, nil), want: bound("PodGroup g: UnknownKey: " + specs)},
		{name: "on a PodGroup without members", comes: podGroup("g", says{"network-topology-specs": rule}), want: lines(
			"PodGroup g: Waiting: 0 of 2 members exist", "event PodGroup g: UnknownKey: "+specs, "event PodGroup g: Waiting: 0 of 2 members exist")},
		{name: "on a pod", comes: gang("g", nil, nil) + pod("h-0", nil, says{"names": "h"}), want: lines(
			"pods g-0 g-1 h-0: bound", "event Pod h-0: UnknownKey: "+key+"names: unknown; did you mean name?")},
		{name: "two", comes: gang("g", says{"mod": "Strict", "gangs": "x"}, nil), want: bound(
			"PodGroup g: UnknownKey: " + key + "gangs: unknown; supported values: annotations name, min-available, total-number, waiting-time, mode, match-policy, groups, network-topology-spec, network-topology-index; " +
				key + "mod: unknown; did you mean mode?")},
		{name: "others' keys", comes: gang("g",
			says{"timeout": "true", "scheduling.koordinator.sh/x": "y", "pod-group.scheduling.sigs.k8s.io/total": "2"}, nil), want: bound()},
	})
}

func TestGroups(t *testing.T) {
	groups := func(s string) says { return says{"groups": s} }
	const legal = ` is invalid; supported values: a JSON list such as ["default/a","default/b"], each gang once`
	const missing = "gang default/h of the gang group does not exist: create it, or remove it from the group"
	const stranger = "gang default/h does not list default/g, which waits: each gang of a gang group must list the others"
	look(t, []seen{
		{name: "not JSON", comes: gang("g", groups(`default/g`), nil), want: rejected(key + `groups: "default/g"` + legal)},
		{name: "not a list", comes: gang("g", groups(`{"g":1}`), nil), want: rejected(key + `groups: "{\"g\":1}"` + legal)},
		{name: "without namespace", comes: gang("g", groups(`["default/g","h"]`), nil), want: rejected(key + `groups[1]: "h"` + legal)},
		{name: "without name", comes: gang("g", groups(`["default/g","default/"]`), nil), want: rejected(key + `groups[1]: "default/"` + legal)},
		{name: "twice", comes: gang("g", groups(`["default/g","default/g"]`), nil), want: rejected(key + `groups[1]: "default/g"` + legal)},
		{name: "on pods", comes: bare("g", groups(`g`)), want: rejectedBare(key + `groups: "g"` + legal)},
		{name: "no such gang", comes: gang("g", groups(`["default/g","default/h"]`), nil), want: waits(missing)},
		// A gang waits alone if it lists a gang that does not list it (case 41).
		{
			name: "one-sided", comes: gang("g", groups(`["default/g","default/h"]`), nil) + gang("h", nil, nil),
			want: lines("pods g-0 g-1: gated: "+stranger, "pods h-0 h-1: bound", "PodGroup g: Waiting: "+stranger,
				"event PodGroup g: Waiting: "+stranger),
		},
		{name: "without itself", comes: gang("g", groups(`["default/h"]`), nil), want: waits(missing)},
	})
}

func TestModeAndMatchPolicy(t *testing.T) {
	const mode = "; supported values: Strict, NonStrict; the default is used"
	const strict = "; supported values: Strict, NonStrict; did you mean Strict?; the default is used"
	const policy = "; supported values: only-waiting, waiting-and-running, once-satisfied; the default is used"
	look(t, []seen{
		{
			name: "mode", comes: gang("g", says{"mode": "strict"}, nil),
			want: bound(`PodGroup g: InvalidAnnotation: ` + key + `mode: "strict" is invalid` + strict),
		},
		{
			name: "mode, empty", comes: gang("g", says{"mode": ""}, nil),
			want: bound(`PodGroup g: InvalidAnnotation: ` + key + `mode: "" is invalid` + mode),
		},
		{
			name: "mode on pods", comes: bare("g", says{"mode": "Loose"}),
			want: bound(`Pod g-0: InvalidAnnotation: ` + key + `mode: "Loose" is invalid` + mode),
		},
		{
			name: "match-policy", comes: gang("g", says{"match-policy": "once"}, nil),
			want: bound(`PodGroup g: InvalidAnnotation: ` + key + `match-policy: "once" is invalid` + policy),
		},
		{
			name: "match-policy on pods", comes: bare("g", says{"match-policy": "Once-Satisfied"}),
			want: bound(`Pod g-0: InvalidAnnotation: ` + key + `match-policy: "Once-Satisfied" is invalid` +
				strings.Replace(policy, "; the", "; did you mean once-satisfied?; the", 1)),
		},
		{name: "both", comes: gang("g", says{"match-policy": "once", "mode": "strict"}, nil), want: bound(
			`PodGroup g: InvalidAnnotation: ` + key + `mode: "strict" is invalid` + strict + `; ` + key + `match-policy: "once" is invalid` + policy)},
	})
}

// TestMistakeIsReportedOnce: a mistake is reported once, however often the object changes. This holds also for an
// object that is older than the scheduler.
func TestMistakeIsReportedOnce(t *testing.T) {
	bad := gang("g", says{"mode": "strict", "waiting-time": "1"}, says{"network-topology-index": "x"}) + bare("b", says{"mode": "strict"})
	for _, sets := range [][]string{{cluster, bad}, {cluster + bad}} {
		r := run(t, simulate.Options{}, sets...)
		require.Len(t, r.Warnings, 4)
		for _, e := range r.Warnings {
			require.Equal(t, 1, e.Times, e.Message)
		}
	}
}

func TestGangOfPods(t *testing.T) {
	const missing = "PodGroup default/g does not exist"
	const least, total = key + "min-available: ", key + "total-number: "
	const wait = " is invalid; supported values: a duration > 0, such as 600s; the default is used"
	one := says{"name": "g", "min-available": "2"}
	look(t, []seen{
		{
			name: "no such PodGroup", comes: pod("g-0", says{ofGroup: "g"}, nil),
			want: lines("pods g-0: gated: "+missing, "event Pod g-0: Waiting: "+missing),
		},
		{
			name: "no such PodGroup, by the other label", comes: pod("g-0", says{"scheduling.x-k8s.io/pod-group": "g"}, nil),
			want: lines("pods g-0: gated: "+missing, "event Pod g-0: Waiting: "+missing),
		},
		// The labels win over the annotation, the first label over the second, and an event says so.
		{
			name: "two labels",
			comes: podGroup("g", nil) + pod("g-0", says{ofGroup: "g", "scheduling.x-k8s.io/pod-group": "h"}, says{"name": "i"}) +
				pod("g-1", says{ofGroup: "g"}, nil),
			want: bound(`Pod g-0: TwoGangs: the pod names more than one gang: label scheduling.x-k8s.io/pod-group: "h", annotation gang.scheduling.koordinator.sh/name: "i" ` +
				`has no effect, because label pod-group.scheduling.sigs.k8s.io: "g" is used; keep one of them`),
		},
		// A pod that names no gang is none's member.
		{
			name: "name empty", comes: pod("g-0", nil, says{"name": "", "min-available": "2"}),
			want: lines("pods g-0: bound", "event Pod g-0: InvalidAnnotation: gang.scheduling.koordinator.sh/min-available has no effect, because the pod names no gang; add label "+
				"pod-group.scheduling.sigs.k8s.io, annotation gang.scheduling.koordinator.sh/name, or the label batch.kubernetes.io/job-name of a Job's pods"),
		},
		{
			name: "no min-available", comes: pod("g-0", nil, says{"name": "g"}) + pod("g-1", nil, says{"name": "g"}),
			want: rejectedBare(least + `"" is invalid; supported values: an integer ≥ 1`),
		},
		{
			name: "min-available 0", comes: bare("g", says{"min-available": "0"}),
			want: rejectedBare(least + `"0" is invalid; supported values: an integer ≥ 1`),
		},
		{
			name: "min-available, a word", comes: bare("g", says{"min-available": "two"}),
			want: rejectedBare(least + `"two" is invalid; supported values: an integer ≥ 1`),
		},
		{
			name: "min-available, too many", comes: bare("g", says{"min-available": "3"}),
			want: lines("pods g-0 g-1: gated: 2 of 3 members exist", "event Pod g-0: Waiting: 2 of 3 members exist"),
		},
		{
			name: "total-number 0", comes: bare("g", says{"total-number": "0"}),
			want: bound("Pod g-0: InvalidAnnotation: " + total + `"0" is invalid; supported values: an integer ≥ 1; the default is used`),
		},
		{
			name: "total-number, a word", comes: gang("g", says{"total-number": "some"}, nil),
			want: bound("PodGroup g: InvalidAnnotation: " + total + `"some" is invalid; supported values: an integer ≥ 1; the default is used`),
		},
		{
			name: "total-number below min-available", comes: bare("g", says{"total-number": "1"}),
			want: bound("Pod g-0: InvalidAnnotation: " + total + `"1" is invalid; write at least min-available, 2; the default is used`),
		},
		{
			name: "waiting-time without unit", comes: bare("g", says{"waiting-time": "600"}),
			want: bound("Pod g-0: InvalidAnnotation: " + key + `waiting-time: "600"` + wait),
		},
		{
			name: "waiting-time 0", comes: bare("g", says{"waiting-time": "0s"}),
			want: bound("Pod g-0: InvalidAnnotation: " + key + `waiting-time: "0s"` + wait),
		},
		{
			name: "waiting-time on a PodGroup", comes: gang("g", says{"waiting-time": "-1m"}, nil),
			want: bound("PodGroup g: InvalidAnnotation: " + key + `waiting-time: "-1m"` + wait),
		},
		{
			name: "members that differ", comes: pod("g-0", nil, one) + pod("g-1", nil, says{"name": "g", "min-available": "1"}),
			want: bound("Pod g-1: InvalidAnnotation: " + least +
				`"1" has no effect: default/g-0 says "2", which is used; write the same on all members`),
		},
	})
}

// TestOrderedReady: a StatefulSet that makes its second pod when the first one runs never makes
// a gang whole, and what users read says how it would.
func TestOrderedReady(t *testing.T) {
	const why = "1 of 2 members exist; StatefulSet g seems to create one pod after another, each when the one before it runs: members that start together need podManagementPolicy: Parallel"
	first := fmt.Sprintf("\n---\n{apiVersion: v1, kind: Pod, metadata: {name: g-0, labels: %s, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: g, uid: u, controller: true}]}, "+
		"spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i}]}}\n", says{ofGroup: "g", "apps.kubernetes.io/pod-index": "0"})
	look(t, []seen{{
		name: "the first of two", comes: podGroup("g", nil) + first,
		want: lines("pods g-0: gated: "+why, "PodGroup g: Waiting: "+why, "event PodGroup g: Waiting: "+why),
	}})
}

func TestSchedulerName(t *testing.T) {
	label := says{ofGroup: "g"}
	const served = " (served: koord-scheduler, muster-scheduler)"
	look(t, []seen{
		{
			name: "wrong case", comes: podOf("Muster-Scheduler", "p", nil, nil, ""),
			want: lines(`pods p: gated: no profile serves schedulerName "Muster-Scheduler"` + served),
		},
		{
			name: "one member of two", comes: podGroup("g", nil) + pod("g-0", label, nil) + podOf("default-scheduler", "g-1", label, nil, ""),
			want: lines("pods g-0: gated: 1 of 2 members can be placed; 1 cannot: schedulerName is default-scheduler; supported values: "+
				"koord-scheduler, muster-scheduler", `pods g-1: gated: no profile serves schedulerName "default-scheduler"`+served,
				"PodGroup g: Waiting: 1 of 2 members can be placed; 1 cannot: schedulerName is default-scheduler; supported "+
					"values: koord-scheduler, muster-scheduler", "event PodGroup g: Waiting: 1 of 2 members can be placed; 1 cannot: "+
					"schedulerName is default-scheduler; supported values: koord-scheduler, muster-scheduler"),
		},
		{
			name: "all members", comes: podGroup("g", nil) + podOf("volcano", "g-0", label, nil, "") + podOf("volcano", "g-1", label, nil, ""),
			want: lines(`pods g-0 g-1: gated: no profile serves schedulerName "volcano"` + served), // the PodGroup is volcano's to tell about
		},
	})
}
