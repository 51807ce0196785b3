package backend_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
	_ "github.com/muster-scheduler/muster/test/seed"
)

// whole are objects that say all that is read.
var whole = []string{
	`{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, metadata: {name: g, labels: {grove.io/scheduler-name: koord-scheduler}}, spec: {podgroups: [
  {name: g-a, minReplicas: 1, podReferences: [{namespace: default, name: p}], topologyConstraint: {packConstraint: {required: example.com/block, preferred: x}}}, {name: b, minReplicas: 2}],
  topologyConstraint: {packConstraint: {required: example.com/spine}}, topologyConstraintGroupConfigs: [{name: c, podGroupNames: [g-a], topologyConstraint: {packConstraint: {required: x}}}],
  priorityClassName: high, reuseReservationRef: {namespace: default, name: old}}}`,
	`{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, metadata: {name: p, annotations: {grove.io/auto-mnnvl: enabled}}, spec: {replicas: 2, template: {priorityClassName: high,
  topologyConstraint: {topologyName: t, packDomain: spine}, cliques: [{name: a, annotations: {a: b}, spec: {replicas: 2, minAvailable: 1, podSpec: {schedulerName: koord-scheduler}}}, {name: b, spec: {replicas: 1, podSpec: {schedulerName: koord-scheduler}}}],
  podCliqueScalingGroups: [{name: g, cliqueNames: [b], replicas: 3, minAvailable: 2, topologyConstraint: {pack: {required: block, preferred: spine}}}]}}}`,
	`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x, annotations: {volcano.sh/network-topology-mode: hard, volcano.sh/network-topology-highest-tier: "1", gang.scheduling.koordinator.sh/network-topology-spec: '{}'}},
  spec: {replicas: 2, startupPolicy: LeaderReady, networkTopology: {mode: soft, highestTierAllowed: 1, highestTierName: n}, leaderWorkerTemplate: {size: 3, subGroupPolicy: {subGroupSize: 1}, leaderTemplate: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}},
  workerTemplate: {metadata: {annotations: {a: b}}, spec: {schedulerName: koord-scheduler, priorityClassName: high, containers: [{name: c, resources: {limits: {cpu: 1}}}]}}}}}`,
	`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, status: {restarts: 1}, spec: {startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [
  {name: a, replicas: 2, dependsOn: [{name: b}], template: {metadata: {annotations: {a: b}}, spec: {parallelism: 2, completions: 3, template: {spec: {schedulerName: koord-scheduler, priorityClassName: high}}}}}]}}`,
	`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: v}, spec: {minMember: 2, minTaskMember: {a: 1}, minResources: {cpu: 1}, queue: q, priorityClassName: high, networkTopology: {mode: hard, highestTierAllowed: 1},
  subGroupPolicy: [{name: s, subGroupSize: 2, minSubGroups: 1, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [k], networkTopology: {mode: soft}}], tasks: [{name: t, partitionPolicy: {networkTopology: {mode: hard}}}]}}`,
	`{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: o, annotations: ` +
		`{gang.scheduling.koordinator.sh/groups: '["default/o"]', gang.scheduling.koordinator.sh/total-number: "2"}}, spec: {minMember: 1}}`,
}

// anything returns a value of any type that may stand in place of another.
func anything(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, "", "a", "A b", strings.Repeat("a", 253), strings.Repeat("-", 70), int64(-1), int64(0), int64(1), int64(math.MaxInt32),
		int64(math.MaxInt64), 1.5, true,
		[]any{},
		[]any{nil},
		[]any{"a", "a"},
		[]any{map[string]any{}},
		map[string]any{},
		map[string]any{"a": nil},
		map[string]any{"name": ""},
		"hard", "9999999999", "{", "koord-scheduler", "default-scheduler",
	}).Draw(t, "value")
}

// paths are the places of a value below another.
func paths(at []any, value any, out *[][]any) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			*out = append(*out, append(slices.Clone(at), key))
			paths(append(slices.Clone(at), key), below, out)
		}
	case []any:
		for i, below := range value {
			*out = append(*out, append(slices.Clone(at), i))
			paths(append(slices.Clone(at), i), below, out)
		}
	}
}

func put(value any, path []any, to any) {
	switch at := path[0]; {
	case len(path) > 1:
		put(below(value, at), path[1:], to)
	default:
		if list, ok := value.([]any); ok {
			list[at.(int)] = to
		} else {
			value.(map[string]any)[at.(string)] = to
		}
	}
}

func below(value any, at any) any {
	if list, ok := value.([]any); ok {
		return list[at.(int)]
	}
	return value.(map[string]any)[at.(string)]
}

// TestAnything: no value in an object causes a panic. An invalid value is an error that names its field, and written
// objects have names that the API server accepts.
func TestAnything(t *testing.T) {
	config, err := backend.ReadConfig([]byte("{}"))
	require.NoError(t, err)
	translators, err := config.Translators()
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		u := object(t, rapid.SampledFrom(whole).Draw(rt, "object"))
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			var all [][]any
			paths([]any{"spec"}, u.Object["spec"], &all)
			if labels, ok := u.Object["metadata"].(map[string]any)["annotations"].(map[string]any); ok {
				for key := range labels {
					all = append(all, []any{"metadata", "annotations", key})
				}
			}
			if len(all) == 0 {
				return
			}
			slices.SortFunc(all, func(a, b []any) int { return strings.Compare(fmt.Sprint(a...), fmt.Sprint(b...)) })
			put(u.Object, rapid.SampledFrom(all).Draw(rt, "where"), anything(rt))
		}
		topology := podgang.Topology{
			Layers: []podgang.Layer{
				{Name: "SpineLayer", Keys: []string{"example.com/spine"}}, {Name: "BlockLayer", Keys: []string{"example.com/block"}},
			},
		}
		old := u.DeepCopy()
		podgang.ValidateLeaderWorkerSet(u, old)
		podgang.ValidateVolcano(u, old)
		podgang.ValidatePodGroup(u, old, topology)
		podgang.SchedulerNames(u)
		infos, err := tryBuild(u)
		legal(rt, err)
		for _, b := range translators {
			b.Validate(u, old)
			for _, native := range []string{"", backend.Native35, backend.Native36, backend.Native37} {
				for _, info := range infos {
					objects, _, err := b.Objects(info, backend.Cluster{Native: native, Topology: topology})
					legal(rt, err)
					for _, o := range objects {
						require.LessOrEqual(rt, len(o.GetName()), podgang.MaxName)
						require.NotEmpty(rt, o.GetName())
						require.Equal(rt, o.Object, o.DeepCopy().Object, "it can be sent")
					}
					b.Minima([]*unstructured.Unstructured{u})
				}
			}
		}
	})
}

// legal is an error that people can read.
func legal(t require.TestingT, err error) {
	var says *podgang.Error
	if err != nil {
		require.True(t, errors.As(err, &says), "%v", err)
		require.NotEmpty(t, says.Reason)
	}
}

func tryBuild(u *unstructured.Unstructured) (out []*podgang.PodGangInfo, err error) {
	pods := []metav1.Object{&metav1.ObjectMeta{Namespace: "default", Name: "x-0", Labels: map[string]string{
		lws.SetNameLabelKey: "x", lws.GroupIndexLabelKey: "0", lws.RevisionKey: "r", workloads.JobSetName: "js",
		"jobset.sigs.k8s.io/replicatedjob-name": "a", "jobset.sigs.k8s.io/restart-attempt": "1",
	}}}
	one := func(info *podgang.PodGangInfo, err error) ([]*podgang.PodGangInfo, error) {
		if err != nil {
			return nil, err
		}
		return []*podgang.PodGangInfo{info}, nil
	}
	switch u.GetKind() {
	case "LeaderWorkerSet":
		return podgang.FromLeaderWorkerSet(u, "r", pods)
	case "PodCliqueSet":
		return podgang.FromPodCliqueSet(u, podgang.Domains{"": {}, "t": {"spine": "example.com/spine", "block": "example.com/block"}}, pods)
	case "JobSet":
		return podgang.FromJobSet(u, pods)
	case "PodGang":
		return one(podgang.FromPodGang(u))
	}
	return one(podgang.FromVolcanoPodGroup(u, pods))
}
