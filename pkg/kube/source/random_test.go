package source_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// values are valid and invalid values of any key.
var values = []string{
	"", "0", "1", "2", "4", "-1", "9999999999999999999", "hard", "soft", "strict", "rack", "BlockLayer", "SpineLayer", "NodeTopologyLayer",
	"network.topology.nvidia.com/spine", "kubernetes.io/hostname", must, prefer, "{", `["ns/a"]`, "once-satisfied", "NonStrict", "5s",
}

// keys lists the keys that sources, owners and rules read.
var keys = []string{
	scheduling.LabelPodGroup, scheduling.LabelPodGroupX, scheduling.AnnotationGangName, scheduling.AnnotationMinAvailable,
	scheduling.AnnotationTopologySpec, scheduling.AnnotationGroups, scheduling.AnnotationMode, scheduling.AnnotationTotalNumber,
	source.AnnotationVolcanoMode, source.AnnotationVolcanoTier, source.AnnotationKueueRequired, source.AnnotationKueuePreferred,
	"scheduling.k8s.io/group-name", "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index",
	"leaderworkerset.sigs.k8s.io/template-revision-hash", "leaderworkerset.sigs.k8s.io/size", "leaderworkerset.sigs.k8s.io/exclusive-topology",
	"jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index",
	"jobset.sigs.k8s.io/restart-attempt",
	"alpha.jobset.sigs.k8s.io/exclusive-topology", "batch.kubernetes.io/job-name", "grove.io/podgang", "grove.io/podclique",
}

func drawWords(t *rapid.T, name string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom(values), 0, 8).Draw(t, name)
}

// drawObject is an object with anything where fields are read.
func drawObject(t *rapid.T, kind string) *unstructured.Unstructured {
	anything := func(name string) any {
		return rapid.SampledFrom([]any{
			nil, int64(-1), int64(0), int64(3), "three", true,
			[]any{},
			map[string]any{},
			[]any{"x"},
			map[string]any{"mode": "hard", "highestTierAllowed": int64(1)},
			map[string]any{"mode": int64(7), "highestTierAllowed": "x", "highestTierName": nil},
			[]any{map[string]any{"name": "w", "replicas": int64(2), "template": map[string]any{"spec": map[string]any{"parallelism": int64(2)}}}},
			map[string]any{"size": int64(4)},
			map[string]any{"size": "four"},
			map[string]any{"a": int64(2), "b": "two"},
			"rack",
			map[string]any{"basic": map[string]any{}},
			map[string]any{"gang": map[string]any{"minCount": int64(2), "minGroupCount": int64(1)}},
			map[string]any{"gang": map[string]any{"minCount": "two"}},
			map[string]any{"topology": []any{map[string]any{"key": "network.topology.nvidia.com/spine"}}},
			map[string]any{"packConstraint": map[string]any{"required": "network.topology.nvidia.com/block", "preferred": int64(1)}},
			map[string]any{"packConstraint": map[string]any{"preferred": "kubernetes.io/hostname"}},
			[]any{map[string]any{"name": "2", "minReplicas": int64(2)}, map[string]any{"name": "4", "minReplicas": int64(0)}},
			[]any{map[string]any{
				"podGroupNames":      []any{"2", "4"},
				"topologyConstraint": map[string]any{"packConstraint": map[string]any{"required": "rack"}},
			}},
		}).Draw(t, name)
	}
	spec := map[string]any{}
	for _, field := range []string{
		"leaderWorkerTemplate", "networkTopology", "startupPolicy", "replicatedJobs", "parallelism", "completions", "minMember", "minTaskMember",
		"subGroupPolicy",
		"schedulingPolicy", "schedulingConstraints", "disruptionMode", "parentCompositePodGroupName",
		"podgroups", "topologyConstraint", "topologyConstraintGroupConfigs", "reuseReservationRef",
	} {
		if value := anything(field); value != nil {
			spec[field] = value
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"kind": kind, "metadata": map[string]any{"namespace": "ns", "name": "a"},
		"spec": spec,
	}}
	u.Object["status"] = map[string]any{"restarts": anything("restarts"), "replicatedJobsStatus": anything("progress")}
	u.SetAnnotations(drawWords(t, "annotations"))
	return u
}

// TestAnythingIsRead: pods and objects with any contents are read, and errors have a message. The gang gets a
// possible minimum, each error is reported once and names its object, and the reading order does not matter.
func TestAnythingIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := source.Gang{Pods: map[string]*v1.Pod{}, Expected: rapid.Bool().Draw(t, "expected")}
		words := drawWords(t, "of the first")
		for i := range rapid.IntRange(1, 4).Draw(t, "pods") {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprint("p", i), Labels: words,
				Annotations: drawWords(t, "annotations"),
			}}
			if i == 0 && rapid.Bool().Draw(t, "native") {
				p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &p.Namespace}
			}
			ref := source.GangOf(p)
			_ = source.OtherGangs(p)
			if g.Ref.IsZero() {
				g.Ref = ref
			}
			if ref == g.Ref && !ref.IsZero() {
				g.Pods[convert.PodKey(p)] = p
			}
		}
		if len(g.Pods) == 0 {
			return
		}
		if o := source.ObjectOf(g.Ref.Source); o != nil && rapid.Bool().Draw(t, "declared") {
			u := drawObject(t, o.Kind)
			pg, err := o.Read(u)
			if err != nil {
				return // it is logged, as an object that cannot be read
			}
			g.Object = pg
			if o.More != nil {
				g.More = o.More(u)
			}
		}
		key, _ := source.OwnerOf(g)
		for _, o := range source.Owners {
			if o.Kind == key.Kind && rapid.Bool().Draw(t, "owned") {
				if owned, err := o.ReadOwner(drawObject(t, o.Kind)); err == nil {
					g.Owner = owned
				}
			}
		}
		if g.Object != nil && source.IsFamily(key.Kind) {
			for i := range rapid.IntRange(0, 3).Draw(t, "siblings") {
				other := g
				other.Ref.Name = fmt.Sprint("s", i)
				other.More = source.ObjectOf(g.Ref.Source).More(drawObject(t, "PodGroup"))
				g.Siblings = append(g.Siblings, other)
			}
			g.Siblings = append(g.Siblings, g)
		}
		defaults := source.Defaults{
			Policy: gang.OnceSatisfied, NetworkTopologyAware: rapid.Bool().Draw(t, "aware"),
			Check: func(s *scheduling.GatherSpec) error {
				return s.CheckLayers([]string{"SpineLayer", "BlockLayer", "NodeTopologyLayer"}, "default")
			},
		}
		if rapid.Bool().Draw(t, "topology") {
			defaults.Layers = topo12
		}
		d, ok := source.Declare(g, defaults)
		again, same := source.Declare(g, defaults)
		require.Equal(t, ok, same)
		if !ok {
			return
		}
		require.GreaterOrEqual(t, d.Min, 1)
		require.Equal(t, drawn(d), drawn(again))
		require.True(t, d.Same(again), "equal input, equal words")
		if d.Problem.Exists() {
			require.NotEmpty(t, strings.TrimSpace(d.Problem.Words))
		}
		for _, n := range d.Notes {
			require.NotEmpty(t, n.Reason)
			require.NotEmpty(t, n.Message)
		}
		if d.Gather != nil && !d.Problem.Exists() {
			require.NotEmpty(t, d.ConstraintOrigin, "people are told whose rule it is")
			require.True(t, defaults.NetworkTopologyAware)
		}
		for _, p := range g.Pods {
			require.NotPanics(t, func() { d.Contradictions(g, p); d.MayChangeWith(p) })
			meant, named := source.Implied(p)
			require.Equal(t, named == "", meant.IsZero())
			require.NotEqual(t, g.Ref, meant, "what a controller means is told only where another gang counts")
		}
	})
}
