package simulate

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

func load(t *testing.T, text string) *Set {
	t.Helper()
	s := &Set{}
	require.NoError(t, s.Add("in.yaml", []byte(text)))
	return s
}

// names lists what a set holds, as "document/line kind namespace/name".
func names(t *testing.T, s *Set) (out []string) {
	t.Helper()
	for _, o := range s.objects {
		m, err := meta.Accessor(o.Object)
		require.NoError(t, err)
		at := strings.TrimPrefix(o.at.String(), "in.yaml: ")
		out = append(out, at+": "+o.kind.resource.Resource+" "+m.GetNamespace()+"/"+m.GetName())
	}
	return out
}

func TestLoad(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"documents": {
			text: "# a comment\n---\n---\n# another\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n" +
				"--- # and one here\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n...\n---\n",
			want: []string{"document 1, line 5: nodes /n1", "document 2, line 9: pods default/p"},
		},
		"a list as kubectl prints it": {
			text: "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n1\n\n" +
				"- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p\n    namespace: x\n    annotations:\n      a: |\n        items:\n        - " +
				"no item\n" +
				"kind: List\nmetadata:\n  resourceVersion: \"\"\n",
			want: []string{"document 1, line 3: nodes /n1", "document 1, line 8: pods x/p"},
		},
		"an indented list": {
			text: "kind: List\napiVersion: v1\nitems:\n  - kind: Node\n    apiVersion: v1\n    metadata: {name: n1}\n  -\n    {kind: Pod, " +
				"apiVersion: v1, metadata: {name: p}}\n",
			want: []string{"document 1, line 4: nodes /n1", "document 1, line 7: pods default/p"},
		},
		"a list of one kind": {
			text: "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: n1}\n",
			want: []string{"document 1, line 4: nodes /n1"},
		},
		"a list in one line": {
			text: "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: n1}}]}",
			want: []string{"document 1, line 1: nodes /n1"},
		},
		"a list without items": {text: "apiVersion: v1\nkind: List\nitems: []\n"},
		"JSON": {
			text: "{\"apiVersion\": \"v1\",\n \"kind\": \"List\",\n \"items\": [\n  {\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": " +
				"{\"name\": \"m\"}},\n" +
				"  {\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n1\"}}]}\n" +
				"{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}",
			want: []string{"document 1, line 4: nodes /m", "document 1, line 5: nodes /n1", "document 2, line 6: pods default/p"},
		},
		"other versions": {
			text: "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: c}\n",
			want: []string{"document 1, line 1: resourceclaims default/c"},
		},
		"both PodGroups": {
			text: "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: a}\n---\n" +
				"apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: b}\n",
			want: []string{"document 1, line 1: podgroups default/a", "document 2, line 5: podgroups default/b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := load(t, c.text)
			require.Equal(t, c.want, names(t, s))
			require.Empty(t, s.Notes())
		})
	}
}

func TestLoadNotes(t *testing.T) {
	s := load(t, `
apiVersion: batch/v1
kind: CronJob
metadata: {name: j}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: k}
---
apiVersion: scheduling.k8s.io/v9
kind: PodGroup
metadata: {name: g}
---
apiVersion: scheduling.sigs.k8s.io/v1
kind: PodGroup
metadata: {name: g}
---
apiVersion: policy/v9
kind: PodDisruptionBudget
metadata: {name: b}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeNam: n}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g}
spec: {minMembers: 3}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s, labels: {pod-group.scheduling.sigs.k8s.io: g}}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
`)
	require.Equal(t, []string{
		"in.yaml: document 1, line 2: skipped batch/v1 CronJob j, and 1 more: not read by a scheduler",
		"in.yaml: document 5, line 18: skipped policy/v9 PodDisruptionBudget b: not read by a scheduler; did you mean policy/v1 " +
			"PodDisruptionBudget?",
		"in.yaml: document 3, line 10: skipped scheduling.k8s.io/v9 PodGroup g: not read by a scheduler; did you mean " +
			"scheduling.k8s.io/v1beta1 PodGroup?",
		"in.yaml: document 4, line 14: skipped scheduling.sigs.k8s.io/v1 PodGroup g: not read by a scheduler; did you mean " +
			"scheduling.sigs.k8s.io/v1alpha1 PodGroup?",
		`in.yaml: document 6, line 22: ignored in Pod default/p: unknown field "spec.nodeNam"`,
		`in.yaml: document 7, line 27: ignored in PodGroup default/g: unknown field "spec.minMembers"`,
		"in.yaml: document 8, line 32: ignored in StatefulSet default/s: pod-group.scheduling.sigs.k8s.io has no effect in a StatefulSet's own " +
			"metadata; write it in spec.template.metadata.labels",
	}, s.Notes())
	require.Len(t, s.objects, 3)
}

// TestMeantKind: a skipped object of a misspelt kind, of another version or of a wrong group is compared with the known kinds. An object of
// an unrelated API is not.
func TestMeantKind(t *testing.T) {
	for what, want := range map[string]string{
		"scheduling.sigs.k8s.io/v1alpha1 Podgroups": "; did you mean scheduling.sigs.k8s.io/v1alpha1 PodGroup?",
		"scheduling.sig.k8s.io/v1alpha1 ElasticQuota": "; did you mean scheduling.sigs.k8s.io/v1alpha1 ElasticQuota, " +
			"scheduling.x-k8s.io/v1alpha1 ElasticQuota?",
		"kubeflow.org/v1 MPIJob": "; did you mean kubeflow.org/v2beta1 MPIJob?",
		"scheduling.koordinator.sh/v1alpha1 ElasticQuota": "; did you mean scheduling.sigs.k8s.io/v1alpha1 ElasticQuota, " +
			"scheduling.x-k8s.io/v1alpha1 ElasticQuota?",
		"batch/v1 CronJob":                                    "",
		"apps/v1 DaemonSet":                                   "",
		"kueue.x-k8s.io/v1beta1 Workload":                     "",
		"batch.volcano.sh/v1alpha1 Job":                       "",
		"v1 ConfigMap":                                        "",
		"metrics.k8s.io/v1beta1 NodeMetrics":                  "",
		"scheduling.koordinator.sh/v1alpha1 Reservation":      "",
		"quota.koordinator.sh/v1alpha1 ElasticQuotaProfile":   "",
		"networking.k8s.io/v1 Ingress":                        "",
		"scheduling.volcano.sh/v1beta1 Queue":                 "",
		"apiextensions.k8s.io/v1 CustomResourceDefinition":    "",
		"admissionregistration.k8s.io/v1 ValidatingAdmission": "",
	} {
		require.Equal(t, want, meantKind(what), what)
	}
}

// TestMisspeltFields: each API names the misspelt fields of its objects. Known fields without effect are no mistake.
func TestMisspeltFields(t *testing.T) {
	s := load(t, `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: vol, annotation: {a: b}}
spec:
  minMembr: 3
  queue: q
  minResources: {cpu: 1}
  networkTopolgy: {mode: hard}
  networkTopology: {mode: hard, highestTier: 1}
  subGroupPolicy: [{name: a, subGroupSizes: 2}]
status: {phase: Running}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: nat}
spec:
  workloadRef: {workloadName: w, templateName: t}
  schedulingPolicy: {gang: {minCount: 2, minCounts: 4}}
  schedulingConstraint: {topology: [{key: k}]}
  disruptionMode: {all: {}}
  resourceClaims: [{name: c, resourceClaimName: c}]
---
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: all}
spec: {schedulingPolicy: {gang: {minGroupCounts: 2}}}
---
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: inf}
spec:
  topologyConstrain: {}
  topologyConstraint: {packConstraints: {}}
  podgroups: [{name: p, minReplica: 2, podReferences: [{namespace: default, name: p-0}]}]
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: q}
spec: {min: {cpu: 1}, maxx: {cpu: 2}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: x}
spec: {max: {cpu: 1}, mim: {cpu: 2}}
`)
	var fields []string
	for _, note := range s.Notes() {
		_, text, _ := strings.Cut(note, "ignored in ")
		fields = append(fields, text)
	}
	slices.Sort(fields)
	require.Equal(t, []string{
		`CompositePodGroup default/all: unknown field "spec.schedulingPolicy.gang.minGroupCounts"`,
		`ElasticQuota default/q: unknown field "spec.maxx"`,
		`ElasticQuota default/x: unknown field "spec.mim"`,
		`PodGang default/inf: unknown field "spec.podgroups[0].minReplica"`,
		`PodGang default/inf: unknown field "spec.topologyConstrain"`,
		`PodGang default/inf: unknown field "spec.topologyConstraint.packConstraints"`,
		`PodGroup default/nat: unknown field "spec.schedulingConstraint"`,
		`PodGroup default/nat: unknown field "spec.schedulingPolicy.gang.minCounts"`,
		`PodGroup default/vol: unknown field "metadata.annotation"`,
		`PodGroup default/vol: unknown field "spec.minMembr"`,
		`PodGroup default/vol: unknown field "spec.networkTopolgy"`,
		`PodGroup default/vol: unknown field "spec.networkTopology.highestTier"`,
		`PodGroup default/vol: unknown field "spec.subGroupPolicy[0].subGroupSizes"`,
	}, fields)
}

// TestUTF16: PowerShell writes files in UTF-16 with a byte order mark. All their documents are read.
func TestUTF16(t *testing.T) {
	const text = "apiVersion: v1\nkind: Node\nmetadata: {name: é1}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n2}\n"
	want := names(t, load(t, text))
	require.Len(t, want, 2)
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		data := order.AppendUint16(nil, 0xfeff)
		for _, unit := range utf16.Encode([]rune(text)) {
			data = order.AppendUint16(data, unit)
		}
		require.Equal(t, want, names(t, load(t, string(data))))
	}
}

func TestLoadErrors(t *testing.T) {
	const first = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n"
	for text, want := range map[string]string{
		first +
			"apiVersion: v1\nkind: Pod\n  metadata: {}\n": "in.yaml: document 2, line 7: mapping values are not allowed in this context",
		first + "apiVersion: v1\nkind: Pod\nmetadata: {name: p\n": "in.yaml: document 2, line 7: did not find expected ',' or '}'",
		first +
			"\tkind: Pod\n": "in.yaml: document 2, line 5: found character that cannot start any token",
		first + "just text\n":                                            "in.yaml: document 2, line 5: not an object: ",
		first + "kind: Pod\nmetadata: {name: p}\n":                       "in.yaml: document 2, line 5: apiVersion or kind is missing",
		first + "# comment\n\napiVersion: v1\nkind: Pod\nmetadata: {}\n": "in.yaml: document 2, line 7: metadata.name is missing",
		first +
			"{\"apiVersion\": \"v1\",\n\"kind\": \"Pod\",,}\n": "in.yaml: document 2, line 6: invalid character ',' looking for beginning of " +
			"object key string",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 3}\n": "in.yaml: document 1, line 1: Pod \"p\": spec.containers: 3 " +
			"is invalid; supported values: a list",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{resources: {requests: {memory: 4GB}}}]}\n": "in.yaml: document 1, " +
			"line 1: Pod \"p\": spec.containers[0].resources.requests[memory]: \"4GB\" is invalid; " +
			"supported values: a quantity, such as 8, 500m or 64Gi",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {a/b: 2}}\n": "in.yaml: document 1, line 1: Job \"j\": " +
			"metadata.annotations[a/b]: 2 is invalid; supported values: a text; write \"2\" with quotes",
		"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: v, annotations: {a/b: true}}\n": "in.yaml: document 1, " +
			"line 1: PodGroup \"v\": metadata.annotations[a/b]: true is invalid; supported values: a text; write \"true\" with quotes",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\n" +
			"- apiVersion: v1\n  kind: Node\n  metadata: {name: m}\n  status: {capacity: {cpu: many}}\n": "in.yaml: " +
			"document 1, line 7: Node \"m\": status.capacity[cpu]: " +
			"\"many\" is invalid; supported values: a quantity",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: [\n": "in.yaml: document 1, line 6: did not find " +
			"expected node content",
		"apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: four}\n": "in.yaml: document 1, " +
			"line 1: PodGroup.scheduling.sigs.k8s.io \"g\" is invalid: spec.minMember: ",
		first +
			"apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 0}\n": "in.yaml: document 2, line " +
			"5: PodGroup.scheduling.x-k8s.io \"g\" is invalid: spec.minMember: ",
	} {
		s := &Set{}
		err := s.Add("in.yaml", []byte(text))
		var input *InputError
		require.ErrorAs(t, err, &input, "%s", text)
		require.Contains(t, err.Error(), want, "%s", text)
		require.True(t, strings.HasPrefix(err.Error(), want), "%s: got %s", text, err)
	}
}

// TestInvalidPods: values of a pod that an API server rejects are errors, also in a template. Missing fields are none, and a pod with a UID
// was accepted.
func TestInvalidPods(t *testing.T) {
	const ok = "containers: [{name: c, image: i}]"
	job := func(template string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: {restartPolicy: Never, " + template + "}}}\n"
	}
	pod := func(metadata, spec string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: w-0" + metadata + "}\nspec: {" + spec + "}\n"
	}
	resources := func(text string) string { return "containers: [{name: c, resources: {" + text + "}}]" }
	const one, negative = `Pod "default/w-0" is invalid: `, `.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0`
	for text, want := range map[string]string{
		pod("", resources(`requests: {cpu: "-1"}`)): one + "spec.containers[0]" + negative,
		pod("", resources("requests: {cpu: 2}, limits: {cpu: 1}")): one + `spec.containers[0].resources.requests: Invalid value: "2": ` +
			"must be less than or equal to cpu limit of 1",
		pod("", "containers: [{image: i}]"):                    one + "spec.containers[0].name: Required value",
		pod("", "containers: [{name: c}, {name: c}]"):          one + `spec.containers[1].name: Duplicate value: "c"`,
		pod(", labels: {a: -b-}", ok):                          one + `metadata.labels: Invalid value: "-b-": a valid label must be`,
		pod("", ok+", restartPolicy: Sometimes"):               one + `spec.restartPolicy: Unsupported value: "Sometimes": supported values: `,
		pod("", ok+", tolerations: [{key: a, effect: Never}]"): one + `spec.tolerations[0].effect: Unsupported value: "Never": supported`,
		job(resources(`requests: {cpu: "-1"}`)):                `Pod "default/j-nttg6" is invalid: spec.containers[0]` + negative,
		pod("", "containers: []"):                              "",
		pod("", resources("requests: {nvidia.com/gpu: 1}")):    "",
		pod(", uid: u", resources(`requests: {cpu: "-1"}`)):    "",
		pod("", "nodeName: Node_1"):                            "",
	} {
		err := (&Set{}).Add("in.yaml", []byte(text))
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, "in.yaml: document 1, line 1: "+want, text)
	}
}

// TestRepeatedObjects: a note names each object that the input has more than once, and which one counts: the one that is created last.
func TestRepeatedObjects(t *testing.T) {
	s := &Set{}
	const node, bound = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n", "spec: {nodeName: n1}\n---\n"
	pod := func(metadata string) string { return "apiVersion: v1\nkind: Pod\nmetadata: {" + metadata + "}\n" }
	require.NoError(t, s.Add("a.yaml", []byte(node+pod("name: p")+"---\n"+pod("name: q, creationTimestamp: '2026-01-02T00:00:00Z'")+bound+
		pod("name: r")+"---\n"+pod("name: r, namespace: other")+"---\n"+pod("name: s")+"---\n"+
		pod("name: r, deletionTimestamp: '2026-01-02T00:00:00Z'"))))
	require.NoError(t, s.Add("b.yaml", []byte(node+node+pod("name: p")+"---\n"+pod("name: q, creationTimestamp: '2026-01-01T00:00:00Z'")+bound+
		pod("name: s")+bound)))
	require.Equal(t, []string{
		"b.yaml: document 2, line 5: Node n1 is also at a.yaml: document 1, line 1, and 1 more; only this one counts",
		"b.yaml: document 3, line 9: Pod default/p is also at a.yaml: document 2, line 5; only this one counts",
		"a.yaml: document 3, line 9: Pod default/q is also at b.yaml: document 4, line 13; only this one counts",
		"a.yaml: document 6, line 22: Pod default/s is also at b.yaml: document 5, line 18; only this one counts, with spec.nodeName of the " +
			"other",
	}, s.Notes())
	many := &Set{}
	for range 2 {
		for i := range 14 {
			require.NoError(t, many.Add("c.yaml", fmt.Appendf(nil, "{apiVersion: v1, kind: Node, metadata: {name: n%d}}", i)))
		}
	}
	require.Len(t, many.Notes(), 11)
	require.Equal(t, "objects that the input has more than once, beside these: 4", many.Notes()[10])
	w, err := Open(t.Context(), Options{}, s)
	require.NoError(t, err)
	defer w.Close()
	require.Equal(t, "a.yaml: document 6, line 22", w.cluster.positions["Pod default/s"].String())
	require.Equal(t, "n1", w.Pods()[slices.IndexFunc(w.Pods(), func(p *v1.Pod) bool { return p.Name == "s" })].Spec.NodeName)
	require.Equal(t, "a.yaml: document 3, line 9", w.cluster.positions["Pod default/q"].String())
}

// TestPodsOnUnknownNodes: a note names the first unfinished pod of each node that has not been read. It says what that means.
func TestPodsOnUnknownNodes(t *testing.T) {
	const pods = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: n1}}\n---\n" +
		"{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {nodeName: n1}}\n---\n" +
		"{apiVersion: v1, kind: Pod, metadata: {name: c}, spec: {nodeName: n2}, status: {phase: Succeeded}}\n"
	note := []string{"in.yaml: document 1, line 1: Pod default/a, and 1 more: spec.nodeName is n1, and no Node of this name " +
		"has been read: the requests count on no node"}
	s := load(t, pods)
	require.Equal(t, note, s.Notes())
	require.Empty(t, s.Notes(load(t, "{apiVersion: v1, kind: Node, metadata: {name: n1}}")), "read before")
	s.MarkUnlisted("nodes")
	require.NotContains(t, s.Notes(), note[0])
}

// TestMisspeltKeysOfNodesAndQuotas: a note says which key an ElasticQuota or a Node seems to mean. Events report no such key.
func TestMisspeltKeysOfNodesAndQuotas(t *testing.T) {
	const quota = "quota.scheduling.koordinator.sh/"
	s := load(t, "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {a/b: c}, annotations: {muster.sh/maintenence: now}}}\n---\n"+
		"{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: q, labels: {"+quota+"is_parent: 'true', "+
		quota+"is-root: 'true', "+quota+"tree-id: a, "+quota+"allow-force-update: b}, annotations: {"+quota+"shared-weigth: '{}', "+
		quota+"guaranteed: '{}', "+quota+"child-request: '{}'}}}")
	require.Equal(t, []string{
		"in.yaml: document 2, line 3: ignored in ElasticQuota default/q: label " + quota + "is_parent: unknown; did you mean label " + quota +
			"is-parent?",
		"in.yaml: document 2, line 3: ignored in ElasticQuota default/q: " + quota + "shared-weigth: unknown; did you mean " + quota +
			"shared-weight?",
		"in.yaml: document 1, line 1: ignored in Node n1: muster.sh/maintenence: unknown; did you mean muster.sh/maintenance?",
	}, s.Notes())
}

// TestLoadDump: what kubectl prints of a PodGroup is taken, whatever its status says.
func TestLoadDump(t *testing.T) {
	s := load(t, `
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g, creationTimestamp: null}
spec: {minMember: 1, minResources: null, scheduleTimeoutSeconds: null}
status: {scheduleStartTime: null}
`)
	require.Len(t, s.objects, 1)
}

// TestLoadKeepsNothing: what was read stays as it is when the memory of the text is used for something else.
func TestLoadKeepsNothing(t *testing.T) {
	pod := strings.ReplaceAll(podText, "%d", "7")
	list := `{"apiVersion": "v1", "kind": "List", "items": [` + pod + `, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "nowhere": 1}},
		{"apiVersion": "x/v1", "kind": "Unknown", "metadata": {"name": "u"}}]}`
	dump := `{"apiVersion": "musterctl/v1", "kind": "Dump", "at": "2026-01-01T00:00:00Z", "configuration": "some"}`
	group := "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g, annotations: {a: b}}\nspec: {minMember: 1}\n"
	for _, text := range []string{
		pod, list, dump, group,
		"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSuffix(group, "\n"), "\n", "\n  ") + "\n",
	} {
		is, want := &Set{}, &Set{}
		data := []byte(text)
		require.NoError(t, is.Add("file", data))
		require.NoError(t, want.Add("file", []byte(text)))
		for i := range data {
			data[i] = 'x'
		}
		require.Equal(t, want.objects, is.objects, text)
		require.Equal(t, want.Notes(), is.Notes(), text)
		require.Equal(t, want.Configuration(), is.Configuration(), text)
		require.Equal(t, want.Moment(), is.Moment(), text)
	}
}

// TestLoadDefaults: fields that the API server would default may be missing.
func TestLoadDefaults(t *testing.T) {
	s := load(t, `
apiVersion: v1
kind: Pod
metadata:
  name: p
  managedFields: [{manager: kubectl}]
spec:
  containers:
  - {name: c, image: i, resources: {limits: {cpu: 2}}}
`)
	pod := s.objects[0].Object.(*v1.Pod)
	require.Equal(t, "default-scheduler", pod.Spec.SchedulerName)
	require.Equal(t, "2", pod.Spec.Containers[0].Resources.Requests.Cpu().String())
	require.Equal(t, v1.RestartPolicyAlways, pod.Spec.RestartPolicy)
	require.EqualValues(t, 30, *pod.Spec.TerminationGracePeriodSeconds)
	require.Empty(t, pod.ManagedFields)
}
