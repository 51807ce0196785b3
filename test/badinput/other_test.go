package badinput

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// mustSpine is a gang that must gather in a spine.
func mustSpine() string {
	return gang("g", says{"network-topology-spec": `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}`}, nil)
}

// TestClusterNetworkTopology: the API server refuses a bad one. If it gets in all the same,
// its condition, an event and the gangs that need it say why.
func TestClusterNetworkTopology(t *testing.T) {
	const spine = `{topologyLayer: SpineLayer, labelKey: [spine]}`
	const block = `{topologyLayer: BlockLayer, parentTopologyLayer: SpineLayer, labelKey: [block]}`
	const node = `{topologyLayer: NodeTopologyLayer, parentTopologyLayer: BlockLayer}`
	const field = "spec.networkTopologySpec"
	refused := refuser(t, "scheduling.koordinator.sh_clusternetworktopologies.yaml")
	for _, c := range []struct {
		name   string
		layers []string
		apply  string // what the API server says, if it is not the same
		why    string
	}{
		{
			name:  "no layers",
			apply: field + `: Invalid value: 0: spec.networkTopologySpec in body should have at least 1 items`,
			why:   `layer "NodeTopologyLayer" is missing; add it as the lowest layer`,
		},
		{
			name: "no nodes", layers: []string{spine, block},
			why: `layer "NodeTopologyLayer" is missing; add it as the lowest layer`,
		},
		{
			name: "layer twice", layers: []string{spine, block, `{topologyLayer: BlockLayer, parentTopologyLayer: BlockLayer, labelKey: [x]}`, node},
			why: `topologyLayer "BlockLayer" is listed more than once; list each layer once` + "\n" +
				`parentTopologyLayer "BlockLayer" is the parent of more than one layer; each layer may have one layer below it`,
		},
		{
			name: "two first layers", layers: []string{spine, `{topologyLayer: BlockLayer, labelKey: [block]}`, node},
			why: `layers "SpineLayer" and "BlockLayer" both have no parentTopologyLayer; only the highest layer may have none`,
		},
		{
			name: "unknown parent", layers: []string{spine, `{topologyLayer: BlockLayer, parentTopologyLayer: spineLayer, labelKey: [block]}`, node},
			why: `layer "BlockLayer": parentTopologyLayer "spineLayer" is not listed; write the topologyLayer of another entry, or leave it empty for the highest layer`,
		},
		{
			name: "a branch", layers: []string{spine, block, `{topologyLayer: RackLayer, parentTopologyLayer: SpineLayer, labelKey: [rack]}`, node},
			why: `parentTopologyLayer "SpineLayer" is the parent of more than one layer; each layer may have one layer below it`,
		},
		{
			name: "a circle",
			layers: []string{
				`{topologyLayer: SpineLayer, parentTopologyLayer: BlockLayer, labelKey: [spine]}`, block,
				`{topologyLayer: NodeTopologyLayer}`,
			},
			why: `layer "SpineLayer": the parents form a cycle; parents must lead up to the highest layer`,
		},
		{
			name: "below the nodes",
			layers: []string{
				spine, `{topologyLayer: NodeTopologyLayer, parentTopologyLayer: SpineLayer}`,
				`{topologyLayer: BlockLayer, parentTopologyLayer: NodeTopologyLayer, labelKey: [block]}`,
			},
			why: `layer "BlockLayer": parentTopologyLayer "NodeTopologyLayer" is the lowest layer; write the name of a layer above the nodes`,
		},
		{
			name: "the root listed",
			layers: []string{
				`{topologyLayer: ClusterTopologyLayer, labelKey: [x]}`,
				`{topologyLayer: NodeTopologyLayer, parentTopologyLayer: ClusterTopologyLayer}`,
			},
			apply: `[` + field + `: Invalid value: layers "ClusterTopologyLayer" and "NodeTopologyLayer" both have no parentTopologyLayer; only the highest layer may have none, ` +
				field + `[0]: Invalid value: topologyLayer "ClusterTopologyLayer" is the built-in root of the tree; use another name, or delete this entry]`,
			why: `topologyLayer "ClusterTopologyLayer" is the built-in root of the tree; use another name, or delete this entry` + "\n" +
				`layers "ClusterTopologyLayer" and "NodeTopologyLayer" both have no parentTopologyLayer; only the highest layer may have none` + "\n" +
				`parentTopologyLayer "ClusterTopologyLayer" is the parent of more than one layer; each layer may have one layer below it` + "\n" +
				`layer "ClusterTopologyLayer": the parents form a cycle; parents must lead up to the highest layer`,
		},
		{
			name: "no label key", layers: []string{`{topologyLayer: SpineLayer}`, block, node},
			why: `layer "SpineLayer": labelKey is empty; write at least one key of a node label`,
		},
		{
			name: "empty label key", layers: []string{`{topologyLayer: SpineLayer, labelKey: [spine, ""]}`, block, node},
			apply: field + `[0].labelKey[1]: Invalid value: "": spec.networkTopologySpec[0].labelKey[1] in body should be at least 1 chars long`,
			why:   `layer "SpineLayer": labelKey[1] is empty; write the key of a node label`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := topology("default", "["+strings.Join(c.layers, ", ")+"]")
			if c.apply == "" {
				for why := range strings.Lines(c.why) {
					require.Contains(t, refused(t, bad), strings.TrimSuffix(why, "\n"))
				}
			} else {
				require.Equal(t, c.apply, refused(t, bad))
			}

			why := field + ": " + c.why
			rejected := "rejected: MustGather needs ClusterNetworkTopology default, which is invalid: " + why
			want := lines("pods g-0 g-1: gated: "+rejected, "PodGroup g: Rejected: "+rejected,
				"ClusterNetworkTopology default: InvalidSpec: "+why+"; the last good tree stays in use",
				"event ClusterNetworkTopology default: InvalidSpec: "+why, "event PodGroup g: Rejected: "+rejected)
			require.Equal(t, want, see(t, simulate.Options{}, cluster+bad, mustSpine()), "from the beginning")
			require.Equal(t, want, see(t, simulate.Options{}, cluster+topology("default", layers), bad, mustSpine()), "after a good one")
			require.Equal(t, lines("pods h-0 h-1: bound",
				"ClusterNetworkTopology default: InvalidSpec: "+why+"; the last good tree stays in use",
				"event ClusterNetworkTopology default: InvalidSpec: "+why),
				see(t, simulate.Options{}, cluster+topology("default", layers), bad, gang("h", nil, nil)), "a gang that does not need it")
		})
	}
}

// TestClusterNetworkTopologyMissed: what is no ClusterNetworkTopology for the scheduler.
func TestClusterNetworkTopologyMissed(t *testing.T) {
	const none = "MustGather needs ClusterNetworkTopology default, which does not exist; create it, or use PreferGather"
	const invalid = "ClusterNetworkTopology.scheduling.koordinator.sh \"default\" is invalid: "
	for _, c := range []struct{ name, text, want string }{
		{"none", "", rejected(none)},
		{
			"another name", topology("fabric", layers),
			strings.Replace(rejected(none), "event PodGroup",
				"event ClusterNetworkTopology fabric: NotUsed: this object has no effect: only ClusterNetworkTopology default is used\nevent PodGroup",
				1),
		},
		{
			"a text for a list", topology("default", `[{topologyLayer: SpineLayer, labelKey: spine}]`),
			lines("error: " + invalid + `spec.networkTopologySpec[0].labelKey: Invalid value: "string": spec.networkTopologySpec[0].labelKey in body must be of type array: "string"`),
		},
		{
			"unknown version", "\n---\n{apiVersion: scheduling.koordinator.sh/v1, kind: ClusterNetworkTopology, metadata: {name: default}}",
			"note: skipped scheduling.koordinator.sh/v1 ClusterNetworkTopology default: not read by a scheduler; did you mean " +
				"scheduling.koordinator.sh/v1alpha1 ClusterNetworkTopology?\n" + rejected(none),
		},
		{
			"unknown field", strings.Replace(topology("default", layers), "labelKey: [spine]", "labelKey: [spine], labels: [x]", 1),
			"note: ignored in ClusterNetworkTopology default: unknown field \"spec.networkTopologySpec[0].labels\"\n" + bound(),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, see(t, simulate.Options{}, cluster+c.text, mustSpine()))
		})
	}
}

// TestPodGroup: the API server refuses a bad one, and so does a simulation.
func TestPodGroup(t *testing.T) {
	const invalid, integer = "Invalid value: ", "in body should be greater than or equal to 1"
	const least0 = "in body should be greater than or equal to 0"
	for _, c := range []struct {
		spec, refused, note string
		x                   string // how the other group refuses it, if not in the same way; "-" is not at all
	}{
		{spec: `minMember: 0`, refused: "spec.minMember: " + invalid + "0: spec.minMember " + integer},
		{spec: `minMember: -1`, refused: "spec.minMember: " + invalid + "-1: spec.minMember " + integer},
		{spec: `minMember: two`, refused: `spec.minMember: ` + invalid + `"string": spec.minMember in body must be of type integer: "string"`},
		{
			spec:    `scheduleTimeoutSeconds: 0`,
			refused: "spec.scheduleTimeoutSeconds: " + invalid + "0: spec.scheduleTimeoutSeconds " + integer, x: "-",
		},
		{
			spec:    `scheduleTimeoutSeconds: -5`,
			refused: "spec.scheduleTimeoutSeconds: " + invalid + "-5: spec.scheduleTimeoutSeconds " + integer,
			x:       "spec.scheduleTimeoutSeconds: " + invalid + "-5: spec.scheduleTimeoutSeconds " + least0,
		},
		{
			spec:    `scheduleTimeoutSeconds: 10m`,
			refused: `spec.scheduleTimeoutSeconds: ` + invalid + `"string": spec.scheduleTimeoutSeconds in body must be of type integer: "string"`,
		},
		{
			spec:    `minResources: {memory: 1Gi, cpu: -1}`,
			refused: "spec.minResources: " + invalid + "cpu is below 0; supported values: quantities ≥ 0",
		},
		{spec: `minResources: {cpu: -500m}`, refused: "spec.minResources: " + invalid + "cpu is below 0; supported values: quantities ≥ 0"},
		{spec: `minResources: {cpu: many}`, refused: `spec.minResources.cpu: ` + invalid + `"many": spec.minResources.cpu in body should match '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'`},
		{
			spec:    `minResources: 4`,
			refused: `spec.minResources: ` + invalid + `"integer": spec.minResources in body must be of type object: "integer"`,
		},
		{spec: `minMember: null`},
		{spec: `minMembers: 2`, note: `note: ignored in PodGroup default/g: unknown field "spec.minMembers"` + "\n"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			for _, group := range []string{"scheduling.sigs.k8s.io", "scheduling.x-k8s.io"} {
				object := "{apiVersion: " + group + "/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {" + c.spec + "}}"
				want := c.note // and nothing else: without members it may be another scheduler's
				refused := c.refused
				if c.x != "" && group == "scheduling.x-k8s.io" {
					refused = strings.TrimPrefix(c.x, "-")
				}
				if refused != "" {
					want = lines("error: PodGroup." + group + ` "g" is invalid: ` + refused)
					require.Equal(t, refused, refuser(t, group+"_podgroups.yaml")(t, object))
				}
				require.Equal(t, want, see(t, simulate.Options{}, cluster, object))
			}
		})
	}
}

// TestProtectedLabels: only what the documents write protects a pod.
func TestProtectedLabels(t *testing.T) {
	const high = "\n---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}\n"
	const full = "no candidate topology nodes can accommodate job, desiredOfferSlot: 2, topology topologyNode ClusterTopologyLayer/: 0, 0/4 nodes are available: 4 Insufficient cpu. preemption: "
	const short = "Needs 2 in the cluster; the cluster has capacity for 0 members now (4 nodes are used by pods with a label that forbids " +
		"eviction). Details: "
	const disable, quota = "scheduling.koordinator.sh/disable-preemptible", "quota.scheduling.koordinator.sh/preemptible"
	stay := lines(
		"pods g-0: unschedulable: 0/4 nodes are available: "+short+full+"no potential victims.",
		"pods g-1: gated: "+short+`GangGroup "default/g" gets rejected due to member Pod "default/g-0" is unschedulable with reason "`+full+`no potential victims", alreadyWaitForBound: 0.`,
		"pods low-n0 low-n1 low-n2 low-n3: bound",
		"PodGroup g: Unschedulable: "+short+full+"no potential victims",
		"event Pod g-0: FailedScheduling: 0/4 nodes are available: "+short+full+"no potential victims.",
		"event PodGroup g: Unschedulable: "+short+full+"no potential victims",
	)
	leave := lines(
		"pods g-0 g-1: bound",
		"pods low-n0 low-n1: evicted: muster-scheduler: preempting to accommodate a higher priority gang default/g",
		"pods low-n2 low-n3: bound",
		"event Pod g-0: FailedScheduling: 0/4 nodes are available: Pods are evicted for the gang; nodes are reserved for it until these pods have terminated. Details: "+full+"preempt success, alreadyWaitingForBound: 0/2.",
	)
	for _, c := range []struct{ key, value, want string }{
		{disable, "true", stay},
		{disable, "True", leave},
		{disable, "1", leave},
		{disable, "", leave},
		{disable, "false", leave},
		{quota, "false", stay},
		{quota, "False", leave},
		{quota, "no", leave},
		{quota, "true", leave},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			var low string
			for _, n := range []string{"n0", "n1", "n2", "n3"} {
				low += podOf("muster-scheduler", "low-"+n, says{c.key: c.value}, nil, ", nodeName: "+n)
			}
			urgent := podGroup("g", nil)
			for _, name := range []string{"g-0", "g-1"} {
				urgent += podOf("muster-scheduler", name, says{ofGroup: "g"}, nil, ", priorityClassName: high")
			}
			require.Equal(t, c.want, see(t, simulate.Options{}, cluster+topology("default", layers)+high+low, urgent))
		})
	}
}

// TestTopologySelector: any string is valid, and attracts only pods with the same string. A member goes to n3, in the
// spine with the fewest slots, unless another pod attracts it to n1.
func TestTopologySelector(t *testing.T) {
	const key = "scheduling.koordinator.sh/network-topology-selector"
	for _, c := range []struct{ there, comes, node string }{
		{"team-a", "team-a", "n1"},
		{"team-a", "Team-A", "n3"},
		{"team-a", "team-a ", "n3"},
		{`{"app":`, `{"app":`, "n1"},
		{"größe 1", "größe 1", "n1"},
		{" ", " ", "n1"},
		{"", "", "n3"},
	} {
		t.Run(c.there+" "+c.comes, func(t *testing.T) {
			there := podOf("muster-scheduler", "old", nil, says{key: c.there}, ", nodeName: n0")
			r := run(t, simulate.Options{}, cluster+topology("default", layers)+there,
				pod("g-0", nil, says{"name": "g", "min-available": "1", key: c.comes}))
			require.Equal(t, c.node, r.Pods[0].Node)
			require.Empty(t, r.Warnings)
		})
	}
}

// TestArgs: the scheduler does not start and says which field.
func TestArgs(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	const duration = " is invalid; supported values: a duration > 0, such as 600s"
	for args, want := range map[string]string{
		`awareNetworkTopology: "yes"`:                     `.awareNetworkTopology: "yes" is invalid; supported values: true, false`,
		`enablePreemption: 1`:                             `.enablePreemption: 1 is invalid; supported values: true, false`,
		`defaultTimeout: 600`:                             `.defaultTimeout: 600` + duration,
		`defaultTimeout: 0s`:                              `.defaultTimeout: "0s"` + duration,
		`defaultTimeout: soon`:                            `.defaultTimeout: "soon"` + duration,
		`preemptionTimeout: -1s`:                          `.preemptionTimeout: "-1s"` + duration,
		`maxGrace: a day`:                                 `.maxGrace: "a day"` + duration,
		`defaultMatchPolicy: once`:                        `.defaultMatchPolicy: "once" is invalid; supported values: only-waiting, waiting-and-running, once-satisfied`,
		`controllerWorkers: 0`:                            `.controllerWorkers: 0 is invalid; supported values: an integer ≥ 1`,
		`controllerWorkers: many`:                         `.controllerWorkers: "many" is invalid; supported values: an integer ≥ 1`,
		`skipCheckScheduleCycle: 2`:                       `.skipCheckScheduleCycle: 2 is invalid; supported values: true, false`,
		`kind: NodeAffinityArgs`:                          `.kind: "NodeAffinityArgs" is invalid; supported values: CoschedulingArgs`,
		`apiVersion: kubescheduler.config.k8s.io/v1beta3`: `.apiVersion: "kubescheduler.config.k8s.io/v1beta3" is invalid; supported values: kubescheduler.config.k8s.io/v1`,
		`enablePremption: true`: `.enablePremption: unknown field; supported values: apiVersion, kind, awareNetworkTopology, enablePreemption, ` +
			`defaultTimeout, preemptionTimeout, maxGrace, backfill, starvationTimeout, repairTimeout, repairSwap, repairPolicy, forceFit, ` +
			`defaultMatchPolicy, spares, degraded, maintenanceLead, controllerWorkers, skipCheckScheduleCycle; ` +
			`did you mean enablePreemption?`,
		`enablePreemption: 1, defaultTimeout: 0s`: `.enablePreemption: 1 is invalid; supported values: true, false` + "\n" +
			`CoschedulingArgs.defaultTimeout: "0s"` + duration,
	} {
		t.Run(args, func(t *testing.T) {
			config := head + "profiles: [{schedulerName: a, pluginConfig: [{name: Coscheduling, args: {" + args + "}}]}]"
			require.Equal(t, lines(`error: scheduler configuration: initializing profiles: creating profile for scheduler name a: initializing plugin "Coscheduling": CoschedulingArgs`+want),
				see(t, simulate.Options{Config: []byte(config)}, cluster))
		})
	}
}
