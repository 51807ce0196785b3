package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/muster-scheduler/muster/docs/examples"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run simulates and shows each pod as "name state node".
func run(t *testing.T, o Options, texts ...string) (lines []string, r *Result) {
	t.Helper()
	sets := make([]*Set, len(texts))
	for i, text := range texts {
		sets[i] = load(t, text)
	}
	r, err := Run(t.Context(), o, sets[0], sets[1:]...)
	require.NoError(t, err)
	for _, p := range r.Pods {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", p.Name, p.State, p.Node, p.NominatedNode)))
	}
	return lines, r
}

// document is one YAML document made of a template.
func document(format string, args ...any) string { return fmt.Sprintf("---\n"+format+"\n", args...) }

func node(name string, cpu int) string {
	return document("{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {capacity: {cpu: %d, memory: 8Gi}}}", name, cpu)
}

// pod is a pod of 2 CPUs; more is added to its spec.
func pod(name, more string) string {
	return document(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {schedulerName: muster-scheduler,
  containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]%s}}`, name, more)
}

const classes = `---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 10, globalDefault: true, preemptionPolicy: Never}
`

func TestPlainPods(t *testing.T) {
	pods, r := run(t, Options{},
		node("m1", 4)+node("m10", 4)+node("m2", 4)+
			pod("a", "")+pod("b", "")+pod("c", ", nodeName: m1")+
			pod("d", ", schedulerName: other")+pod("e", ", schedulingGates: [{name: g}]")+pod("f", ", nodeSelector: {no: where}"))
	require.Equal(t, []string{"a Bound m2", "b Bound m10", "c Bound m1", "d Pending", "e Pending", "f Pending"}, pods)
	require.Equal(t, `no profile serves schedulerName "other" (served: koord-scheduler, muster-scheduler)`, r.Pods[3].Message)
	require.Equal(t, "this pod waits until its scheduling gates are removed: g", r.Pods[4].Message)
	require.Contains(t, r.Pods[5].Message, "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector")
	require.True(t, r.Pods[2].Ran)
	require.False(t, r.Pods[0].Ran)
}

// TestOrder: of otherwise equal pods the oldest come first, whatever their names. Pods without a creation
// time are made in the order of the files.
func TestOrder(t *testing.T) {
	const older = `{apiVersion: v1, kind: Pod, metadata: {name: pz, creationTimestamp: "2020-01-01T00:00:00Z"}, spec: {schedulerName: muster-scheduler,
  containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}`
	pods, _ := run(t, Options{}, node("m1", 4)+pod("py", "")+pod("px", "")+document(older))
	require.Equal(t, []string{"px Pending", "py Bound m1", "pz Bound m1"}, pods)
}

// TestPreemption: DefaultPreemption evicts for pods without a gang, and among equals it
// takes the youngest.
func TestPreemption(t *testing.T) {
	busy := node("m1", 2) + node("m2", 2) + node("m3", 2) + classes +
		pod("r1", ", nodeName: m1") + pod("r2", ", nodeName: m2") + pod("r3", ", nodeName: m3")
	high := pod("h", ", priorityClassName: high")
	pods, r := run(t, Options{}, busy, high)
	require.Equal(t, []string{"h Bound m1", "r1 Evicted m1", "r2 Bound m2", "r3 Bound m3"}, pods)
	require.Equal(t, []string{"default/r1"}, r.Evicted)

	pods, r = run(t, Options{VictimsStay: true}, busy, high)
	require.Equal(t, []string{"h Pending m1", "r1 Evicted m1", "r2 Bound m2", "r3 Bound m3"}, pods)
	require.Equal(t, []string{"default/r1"}, r.Evicted)

	// The class of the default does not preempt.
	pods, _ = run(t, Options{}, busy, strings.Replace(classes, "value: 100", "value: 1", 1)+pod("h", ""))
	require.Equal(t, "h Pending", pods[0])
}

// TestVictimsOfOneName: pods of one name are listed in the order in which they were made.
func TestVictimsOfOneName(t *testing.T) {
	for range 20 {
		pods, r := run(t, Options{},
			node("m1", 2)+classes+pod("a", ", nodeName: m1"), pod("h1", ", priorityClassName: high"),
			node("m2", 2)+pod("a", ", nodeName: m2"), pod("h2", ", priorityClassName: high"), pod("a", ""))
		require.Equal(t, []string{"a Evicted m1", "a Evicted m2", "a Pending", "h1 Bound m1", "h2 Bound m2"}, pods)
		require.Equal(t, []string{"default/a", "default/a"}, r.Evicted)
	}
}

// TestThen: later sets add, replace and delete.
func TestThen(t *testing.T) {
	const gone = `{apiVersion: v1, kind: %s, metadata: {name: %s, deletionTimestamp: "2026-01-01T00:00:00Z"}}`
	pods, r := run(t, Options{},
		node("m1", 2)+pod("a", "")+pod("b", "")+pod("c", ""),
		node("m1", 4),
		node("m2", 2),
		document(gone, "Pod", "a"),
		pod("b", "")+pod("d", ""))
	require.Equal(t, []string{"b Bound m1", "c Bound m2", "d Bound m1"}, pods)
	require.Empty(t, r.Evicted)

	pods, _ = run(t, Options{}, node("m1", 2)+node("m2", 2), document(gone, "Node", "m1"), pod("a", "")+pod("b", ""))
	require.Equal(t, []string{"a Bound m2", "b Pending"}, pods)

	pods, r = run(t, Options{VictimsStay: true}, node("m1", 2)+pod("a", "")+pod("b", ""), document(gone, "Pod", "a"))
	require.Equal(t, []string{"a Bound m1", "b Pending"}, pods, "terminating and not evicted")
	require.Empty(t, r.Evicted)
}

// TestVolumes: the scheduler chooses a node for a claim's volume and waits for the volume.
func TestVolumes(t *testing.T) {
	const storage = `---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: late}, provisioner: d, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v, uid: u}, spec: {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: none}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: w, uid: w}, spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: local}, spec: {storageClassName: none, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, local: {path: /x},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [m2]}]}]}}}}
`
	pods, _ := run(t, Options{}, node("m1", 8)+node("m2", 2)+storage+
		pod("a", ", volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]")+
		pod("b", ", volumes: [{name: w, persistentVolumeClaim: {claimName: w}}]"))
	require.Equal(t, []string{"a Bound m1", "b Bound m2"}, pods)
}

// fixture reads files of the documented examples.
func fixture(t *testing.T, names ...string) *Set {
	t.Helper()
	s := &Set{}
	for _, name := range names {
		data, err := fs.ReadFile(examples.FS, name)
		require.NoError(t, err)
		require.NoError(t, s.Add(name, data))
	}
	return s
}

func example2(t *testing.T) *Set {
	t.Helper()
	return fixture(t, "clusternetworktopology.yaml", "example-nodes.yaml", "example2-priorityclasses.yaml",
		"example2-low-priority-pods.yaml", "example2-podgroup.yaml", "example2-pods.yaml")
}

// TestEqualInputEqualOutput runs the second documented example with pods that are in
// each other's way, many times.
func TestEqualInputEqualOutput(t *testing.T) {
	crowd := func() *Set {
		s := load(t, classes)
		for i := range 12 {
			require.NoError(t, s.Add("crowd.yaml", []byte(pod(fmt.Sprintf("p%d", i), "")+pod(fmt.Sprintf("h%d", i), ", priorityClassName: high"))))
		}
		return s
	}
	var first []byte
	for i := range 20 {
		r, err := Run(t.Context(), Options{VictimsStay: i%2 == 0}, example2(t), crowd())
		require.NoError(t, err)
		if i%2 == 0 {
			r, err = Run(t.Context(), Options{}, example2(t), crowd())
			require.NoError(t, err)
		}
		got, err := json.MarshalIndent(r, "", " ")
		require.NoError(t, err)
		if first == nil {
			first = got
		}
		require.Equal(t, string(first), string(got), "run %d", i)
	}
}

func TestConfigErrors(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for config, want := range map[string]string{
		"apiVersion: v1\nkind: Pod": "no kind",
		head + "profile: []":        `unknown field "profile"`,
		head + "parallelism: 0":     "parallelism",
		head + "extenders: [{urlPrefix: \"http://x\", filterVerb: f, weight: 1}]": "a simulation calls no other process",
		head +
			"profiles: [{schedulerName: a, plugins: {multiPoint: {disabled: [{name: Coscheduling}]}}}]": "no profile runs the plugin Coscheduling",
		head + "profiles: [{schedulerName: a, pluginConfig: [{name: Coscheduling, args: {defaultTimeout: soon}}]}]": "CoschedulingArgs",
		head +
			"profiles: [{schedulerName: a, pluginConfig: [{name: ElasticQuotas}]}]": `profiles[0].pluginConfig[0].name: Unsupported value: ` +
			`"ElasticQuotas": supported values: "Coscheduling", "CoschedulingGate", "DeviceShare", "ElasticQuota"`,
	} {
		_, err := Run(t.Context(), Options{Config: []byte(config)}, load(t, node("m1", 2)))
		var wrong *ConfigError
		require.ErrorAs(t, err, &wrong, "%s", config)
		require.ErrorContains(t, err, want, "%s", config)
	}
}

func TestInputErrors(t *testing.T) {
	_, err := Run(t.Context(), Options{}, load(t, node("m1", 2)+pod("p", ", priorityClassName: none")))
	require.EqualError(t, err, "in.yaml: document 2, line 4: Pod default/p: spec.priorityClassName: no PriorityClass with name none was found")
	var input *InputError
	require.ErrorAs(t, err, &input)
}

// TestWarnings: mistakes in objects are reported beside the result, without the messages of gangs.
func TestWarnings(t *testing.T) {
	_, r := run(t, Options{}, node("m1", 4),
		document(`{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, annotations: `+
			`{gang.scheduling.koordinator.sh/mode: x}}, spec: {minMember: 3}}`)+
			document(`{apiVersion: v1, kind: Pod, metadata: {name: g-0, labels: {pod-group.scheduling.sigs.k8s.io: g}, annotations: {gang.scheduling.koordinator.sh/network-topology-index: x}},
  spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i}]}}`))
	var told []string
	for _, e := range r.Warnings {
		told = append(told, e.Object+" "+e.Reason)
	}
	require.Equal(t, []string{"Pod default/g-0 InvalidTopologyIndex", "PodGroup default/g InvalidAnnotation"}, told)
	waits := "1 of 3 members exist; the gang can start after the creation of 2 more pods, or with minMember 1"
	require.Equal(t, waits, r.Gangs[0].Status.Conditions[0].Message)
	require.Contains(t, r.Events, Event{Object: "PodGroup default/g", Type: "Warning", Reason: "Waiting", Message: waits, Times: 1})
}

func TestUnsettled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{}, load(t, node("m1", 2)+pod("p", "")))
	var unsettled *UnsettledError
	require.ErrorAs(t, err, &unsettled)
	require.NotEmpty(t, unsettled.Waiting)
	require.ErrorContains(t, err, "the simulation has not settled; it waits for ")
}

// TestNoNodes: kube-scheduler tries again for ever; nothing changes.
func TestNoNodes(t *testing.T) {
	pods, r := run(t, Options{}, pod("p", ""))
	require.Equal(t, []string{"p Pending"}, pods)
	require.Equal(t, "no nodes available to schedule pods", r.Pods[0].Message)
}

// TestDevices: claims are allocated and the devices of one are not another's.
func TestDevices(t *testing.T) {
	const devices = `---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example'"}}]}}
---
{apiVersion: resource.k8s.io/v1beta1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: gpu.example, nodeName: m1,
  pool: {name: m1, generation: 1, resourceSliceCount: 1}, devices: [{name: g0, basic: {}}, {name: g1, basic: {}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: two}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}}
`
	pods, r := run(t, Options{}, node("m1", 8)+devices+
		pod("a", ", resourceClaims: [{name: c, resourceClaimName: one}]")+
		pod("b", ", resourceClaims: [{name: c, resourceClaimName: two}]")+
		pod("c", ", resourceClaims: [{name: c, resourceClaimName: one}]"))
	require.Equal(t, []string{"a Bound m1", "b Pending", "c Bound m1"}, pods)
	require.Contains(t, r.Pods[1].Message, "cannot allocate all claims")
}
