package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// TestExpand: each file of testdata is a kind, each case a workload and what its controller
// makes of it. Every UID is the object's kind and name, every PriorityClass stands for the
// length of its name. What is a label and an annotation is told once.
func TestExpand(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			o := read(t, d.Input)
			out, err := Expand(o, named)
			if err != nil {
				return err.Error() + "\n"
			}
			if d.HasArg("names") {
				return names(t, out)
			}
			return draw(t, out)
		})
	})
}

var named = API{
	UID:      func(kind, name string) types.UID { return types.UID(kind + "-" + name) },
	Priority: func(class string) int32 { return int32(len(class)) },
}

func read(t *testing.T, text string) runtime.Object {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	u.SetNamespace("ns")
	u.SetUID("uid")
	kind := u.GroupVersionKind()
	if kind == workloads.JobSetKind || kind == workloads.LeaderWorkerSetKind {
		return u
	}
	o, err := legacyscheme.Scheme.New(kind)
	require.NoError(t, err)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o))
	legacyscheme.Scheme.Default(o)
	return o
}

// names lists what is made, and after what.
func names(t *testing.T, out Expansion) string {
	t.Helper()
	var b strings.Builder
	for _, o := range out.Objects {
		m, err := meta.Accessor(o.Object)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s %s%s\n", kindOf(o.Object).Kind, m.GetName(), waits(o))
	}
	for _, n := range out.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func waits(o Object) (text string) {
	if len(o.After) > 0 {
		text = " after " + strings.Join(o.After, ", ")
	}
	if o.Near != "" {
		text += " near " + o.Near
	}
	return text
}

// draw shows what is made, object by object.
func draw(t *testing.T, out Expansion) string {
	t.Helper()
	var b strings.Builder
	for _, o := range out.Objects {
		m, err := meta.Accessor(o.Object)
		require.NoError(t, err)
		require.Equal(t, "ns", m.GetNamespace())
		fmt.Fprintf(&b, "%s %s%s\n", kindOf(o.Object).Kind, m.GetName(), waits(o))
		for _, ref := range m.GetOwnerReferences() {
			require.True(t, *ref.Controller && *ref.BlockOwnerDeletion)
			fmt.Fprintf(&b, "  owner %s %s %s %s\n", ref.APIVersion, ref.Kind, ref.Name, ref.UID)
		}
		fmt.Fprint(&b, keys(m.GetLabels(), m.GetAnnotations()))
		switch o := o.Object.(type) {
		case *v1.Pod:
			fmt.Fprint(&b, podLines(o))
		case *v1.Service:
			fmt.Fprint(&b, pairs("selects", o.Spec.Selector))
		case *appsv1.ReplicaSet:
			fmt.Fprintf(&b, "  replicas %d\n%s", *o.Spec.Replicas, pairs("selects", o.Spec.Selector.MatchLabels))
		case *appsv1.StatefulSet:
			fmt.Fprintf(&b, "  replicas %d\n%s", *o.Spec.Replicas, pairs("selects", o.Spec.Selector.MatchLabels))
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func keys(labels, annotations map[string]string) string {
	alone, both, other := map[string]string{}, map[string]string{}, maps.Clone(annotations)
	for k, v := range labels {
		if annotations[k] == v {
			both[k] = v
			delete(other, k)
		} else {
			alone[k] = v
		}
	}
	return pairs("label", alone) + pairs("annotation", other) + pairs("both", both)
}

func pairs(what string, m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "  %s %s=%s\n", what, k, m[k])
	}
	return b.String()
}

func podLines(pod *v1.Pod) string {
	var b strings.Builder
	if pod.Spec.Hostname != "" || pod.Spec.Subdomain != "" {
		fmt.Fprintf(&b, "  host %s.%s\n", pod.Spec.Hostname, pod.Spec.Subdomain)
	}
	fmt.Fprint(&b, pairs("selects node", pod.Spec.NodeSelector))
	for _, v := range pod.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil {
			fmt.Fprintf(&b, "  volume %s is claim %s\n", v.Name, c.ClaimName)
		}
	}
	for _, t := range pod.Spec.Tolerations {
		fmt.Fprintf(&b, "  tolerates %s\n", t.Key)
	}
	if a := pod.Spec.Affinity; a != nil {
		terms := func(what string, all []v1.PodAffinityTerm) {
			for _, t := range all {
				fmt.Fprintf(&b, "  %s %s", what, t.TopologyKey)
				for _, e := range t.LabelSelector.MatchExpressions {
					fmt.Fprintf(&b, " %s %s %s", e.Key, e.Operator, e.Values)
				}
				fmt.Fprintln(&b)
			}
		}
		terms("with", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		terms("without", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return b.String()
}

// TestNames: of ten thousand pods of one Job no two have the same name, and the same Job has
// the same names every time.
func TestNames(t *testing.T) {
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n" +
		"spec: {parallelism: 10000, completions: 10000, template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}"
	seen := map[string]bool{}
	var first []string
	for range 2 {
		out, err := Expand(read(t, job), named)
		require.NoError(t, err)
		var all []string
		for _, o := range out.Objects {
			all = append(all, o.Object.(*v1.Pod).Name)
			seen[all[len(all)-1]] = true
		}
		require.Len(t, seen, 10_000)
		if first == nil {
			first = all
		}
		require.Equal(t, first, all)
	}
}

// TestDefaults: pods have what an API server fills in.
func TestDefaults(t *testing.T) {
	out, err := Expand(read(t, `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: s}
spec: {replicatedJobs: [{name: r, template: {spec: {template: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}}}}}]}
`), named)
	require.NoError(t, err)
	pod := out.Objects[1].Object.(*v1.Pod)
	require.Equal(t, v1.RestartPolicyOnFailure, pod.Spec.RestartPolicy)
	require.Equal(t, "default-scheduler", pod.Spec.SchedulerName)
	require.Equal(t, "2", pod.Spec.Containers[0].Resources.Requests.Cpu().String())
}

// TestExpandOthers: a kind without a known controller is an error and not skipped.
func TestExpandOthers(t *testing.T) {
	_, err := Expand(&batchv1.CronJob{}, named)
	require.EqualError(t, err, "*v1.CronJob: no controller is known here")
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(workloads.JobSetKind.GroupVersion().WithKind("Other"))
	_, err = Expand(u, named)
	require.EqualError(t, err, "jobset.x-k8s.io/v1alpha2, Kind=Other: no controller is known here")
}
