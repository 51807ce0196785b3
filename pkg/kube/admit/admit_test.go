package admit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/admit"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

func admissionOf(t *testing.T, config string) *admit.Admission {
	t.Helper()
	c, err := backend.ReadConfig([]byte(config))
	require.NoError(t, err)
	translators, err := c.Translators()
	require.NoError(t, err)
	cluster := func(context.Context) (backend.Cluster, error) { return backend.Cluster{}, nil }
	var all []backend.Backend
	for _, tr := range translators {
		all = append(all, backend.New(tr, backend.Options{Cluster: cluster}))
	}
	registry, err := backend.NewRegistry(all...)
	require.NoError(t, err)
	return &admit.Admission{Registry: registry, Cluster: cluster, Kinds: []podgang.Kind{podgang.PodGang, podgang.LeaderWorkerSet}}
}

const koordinatorOnly = "backends: [{name: koordinator, defaultQoSClass: LS}]"

func request(t *testing.T, object, old string) admission.Request {
	t.Helper()
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "default", Operation: admissionv1.Create}}
	raw, err := yaml.YAMLToJSON([]byte(object))
	require.NoError(t, err)
	req.Object = runtime.RawExtension{Raw: raw}
	if old != "" {
		raw, err := yaml.YAMLToJSON([]byte(old))
		require.NoError(t, err)
		req.OldObject, req.Operation = runtime.RawExtension{Raw: raw}, admissionv1.Update
	}
	return req
}

// Pods of gangs get what their scheduler reads. Other pods are unchanged, and none is rejected.
func TestPods(t *testing.T) {
	const grove = `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {grove.io/podgang: demo-0, grove.io/podclique: demo-0-a}},
  spec: {schedulerName: koord-scheduler, schedulingGates: [{name: grove.io/podgang-pending-creation}], unknownField: stays, containers: [{name: c, image: i}]}}`
	const leader = `{apiVersion: v1, kind: Pod, metadata: {name: x-0, labels: {leaderworkerset.sigs.k8s.io/name: x, leaderworkerset.sigs.k8s.io/worker-index: "0",
  leaderworkerset.sigs.k8s.io/group-index: "0", leaderworkerset.sigs.k8s.io/template-revision-hash: abc}}, spec: {schedulerName: koord-scheduler, containers: []}}`
	for name, c := range map[string]struct {
		pod     string
		gated   []podgang.Kind
		volcano bool
		patches string
		warns   string
	}{
		"Grove's": {pod: grove, patches: `[{"op":"add","path":"/metadata/labels/koordinator.sh~1qosClass","value":"LS"},` +
			`{"op":"add","path":"/metadata/labels/pod-group.scheduling.sigs.k8s.io","value":"demo-0-a"}]`},
		"a leader": {pod: leader, gated: []podgang.Kind{podgang.LeaderWorkerSet}, patches: `[{"op":"add","path":"/metadata/labels/koordinator.sh~1qosClass","value":"LS"},
  {"op":"add","path":"/metadata/labels/pod-group.scheduling.sigs.k8s.io","value":"x-0-abc"},{"op":"add","path":"/spec/schedulingGates","value":[{"name":"scheduling.koordinator.sh/gang"}]}]`},
		"no integration's": {pod: `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulerName: koord-scheduler}}`},
		"of another source": {
			pod: `{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {scheduling.k8s.io/group-name: g}}, ` +
				`spec: {schedulerName: koord-scheduler}}`,
		},
		"half of a gang": {
			pod:   `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {grove.io/podgang: demo-0}}, spec: {schedulerName: koord-scheduler}}`,
			warns: `"grove.io/podclique"`,
		},
		"it is not served": {
			pod: `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {grove.io/podgang: demo-0, grove.io/podclique: a}}, spec: ` +
				`{schedulerName: kai-scheduler}}`,
			warns: `no backend for schedulerName`,
		},
		// Invalid values are not written: the API server would reject the pod without an explanation.
		"a name that is none": {
			volcano: true,
			pod: `{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {scheduling.k8s.io/group-name: Team A}}, ` +
				`spec: {schedulerName: koord-scheduler}}`,
			warns: `annotation scheduling.k8s.io/group-name: "Team A" is invalid; supported values: `,
		},
		"a name of another space": {
			volcano: true,
			pod: `{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {scheduling.volcano.sh/group-name: default/job}}, spec: ` +
				`{schedulerName: koord-scheduler}}`,
			warns: `annotation scheduling.volcano.sh/group-name: "default/job" is invalid; supported values: `,
		},
		"labels that make no name": {
			pod: strings.ReplaceAll(leader, "revision-hash: abc", "revision-hash: A_b"), gated: []podgang.Kind{podgang.LeaderWorkerSet},
			warns: `label leaderworkerset.sigs.k8s.io/template-revision-hash: "A_b" is invalid; supported values: `,
		},
		"it has a node": {
			pod: strings.ReplaceAll(leader, "containers: []", "nodeName: n1, containers: []"), gated: []podgang.Kind{podgang.LeaderWorkerSet},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := admissionOf(t, koordinatorOnly)
			a.Gated = c.gated
			if c.volcano {
				a.Kinds = append(a.Kinds, podgang.VolcanoPodGroup)
			}
			answer := a.Pod(t.Context(), request(t, c.pod, ""))
			require.True(t, answer.Allowed, "%v", answer.Result)
			if c.patches == "" {
				require.Empty(t, answer.Patches)
			} else {
				patches, err := json.Marshal(answer.Patches)
				require.NoError(t, err)
				var want, is []map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.patches), &want))
				require.NoError(t, json.Unmarshal(patches, &is))
				require.ElementsMatch(t, want, is)
			}
			if c.warns == "" {
				require.Empty(t, answer.Warnings)
			} else {
				require.Len(t, answer.Warnings, 1)
				require.Contains(t, answer.Warnings[0], c.warns)
			}
		})
	}
}

// Ask knows the gang of a JobSet's pod. An error of Ask keeps no pod out, and pods that it does not know name their
// gang themselves.
func TestGangOfJobSetPodIsAsked(t *testing.T) {
	const job = `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {jobset.sigs.k8s.io/jobset-name: js}}, ` +
		`spec: {schedulerName: koord-scheduler}}`
	const grove = `{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {grove.io/podgang: demo-0, grove.io/podclique: ` +
		`demo-0-a}}, spec: {schedulerName: koord-scheduler}}`
	a := admissionOf(t, koordinatorOnly)
	answer := a.Pod(t.Context(), request(t, job, ""))
	require.Empty(t, answer.Patches, "Ask is not set")
	a.Kinds = append(a.Kinds, podgang.JobSet)
	a.Ask = func(_ context.Context, pod *unstructured.Unstructured) (podgang.PodKey, bool, error) {
		name := pod.GetLabels()[workloads.JobSetName]
		return podgang.PodKey{Kind: podgang.JobSet, Gang: name, Group: name + "-w"}, name != "", nil
	}
	for pod, group := range map[string]string{job: "js-w", grove: "demo-0-a"} {
		answer = a.Pod(t.Context(), request(t, pod, ""))
		require.True(t, answer.Allowed)
		require.Empty(t, answer.Warnings)
		patches, err := json.Marshal(answer.Patches)
		require.NoError(t, err)
		require.Contains(t, string(patches), `"path":"/metadata/labels/pod-group.scheduling.sigs.k8s.io","value":"`+group+`"`)
	}
	a.Ask = func(context.Context, *unstructured.Unstructured) (podgang.PodKey, bool, error) {
		return podgang.PodKey{}, false, errors.New("JobSet default/js: etcd is slow")
	}
	answer = a.Pod(t.Context(), request(t, job, ""))
	require.True(t, answer.Allowed)
	require.Empty(t, answer.Patches)
	require.Equal(t, []string{"muster-controller: JobSet default/js: etcd is slow"}, answer.Warnings)
}

// TestValidate: the rules are podgang's and the backends'; here is that each kind is judged by its own.
func TestValidate(t *testing.T) {
	const lws = `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, spec: {leaderWorkerTemplate: {size: ` +
		`2}, networkTopology: {mode: %MODE, highestTierAllowed: %TIER}}}`
	pcs := func(scheduler string) string {
		return `{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, metadata: {name: x}, spec: {template: {cliques: [{name: p, spec: {podSpec: {schedulerName: ` + scheduler + `}}}],
  podCliqueScalingGroups: [{name: prefill, cliqueNames: [p], topologyConstraint: {packDomain: rack}}]}}}`
	}
	for name, c := range map[string]struct {
		object, old  string
		denied, warn string
	}{
		"a bad mode":       {object: set(lws, "strict", "1"), denied: `spec.networkTopology.mode: Unsupported value: "strict"`},
		"a negative tier":  {object: set(lws, "hard", "-1"), denied: "must be greater than or equal to 0"},
		"tier 0":           {object: set(lws, "hard", "0"), warn: "highestTierAllowed is 0: all pods of a group must run on the same node"},
		"well":             {object: set(lws, "soft", "1")},
		"it was so before": {object: set(lws, "strict", "1"), old: set(lws, "strict", "1")},
		"a scaling group": {
			object: pcs("koord-scheduler"), denied: `koord-scheduler backend does not support topologyConstraint on PodCliqueScalingGroup "prefill"`,
		},
		"of another scheduler": {object: pcs("kai-scheduler")},
		"Volcano, both tiers": {
			object: `{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: x}, spec: {networkTopology: ` +
				`{highestTierAllowed: 1, highestTierName: rack}}}`,
			denied: "must not specify 'highestTierAllowed' and 'highestTierName'",
		},
		"our PodGroup, no list": {
			object: `{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: x, annotations: ` +
				`{gang.scheduling.koordinator.sh/groups: "x"}}, spec: {minMember: 1}}`,
			denied: "groups",
		},
		"an unknown kind": {object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}`},
	} {
		t.Run(name, func(t *testing.T) {
			answer := admissionOf(t, koordinatorOnly).Validate(t.Context(), request(t, c.object, c.old))
			require.Equal(t, c.denied == "", answer.Allowed, "%v", answer.Result)
			if c.denied != "" {
				require.Contains(t, answer.Result.Message, c.denied)
			}
			if c.warn == "" {
				require.Empty(t, answer.Warnings)
			} else {
				require.Contains(t, answer.Warnings[0], c.warn)
			}
		})
	}
	a := admissionOf(t, koordinatorOnly)
	a.Cluster = func(context.Context) (backend.Cluster, error) { return backend.Cluster{}, errors.New("away") }
	answer := a.Validate(t.Context(), request(t, `{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: x}}`, ""))
	require.EqualValues(t, 500, answer.Result.Code, "the failurePolicy says what that means")
}

func set(text, mode, tier string) string {
	return strings.NewReplacer("%MODE", mode, "%TIER", tier).Replace(text)
}
