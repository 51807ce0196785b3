package workload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// lws is a LeaderWorkerSet with some fields, and others of its leaderWorkerTemplate.
func lws(spec, template string) string {
	return "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: s}\n" +
		"spec: {" + spec + "leaderWorkerTemplate: {" + template + "workerTemplate: {spec: {containers: [{name: c}]}}}}\n"
}

// parts is a JobSet with some fields and some ReplicatedJobs, each with a pod that never restarts.
func parts(spec string, jobs ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n")
	if spec != "" {
		b.WriteString("  " + spec + "\n")
	}
	b.WriteString("  replicatedJobs:\n")
	for _, job := range jobs {
		b.WriteString("  - {" + job + "}\n")
	}
	return b.String()
}

const podOfJob = "template: {spec: {restartPolicy: Never, containers: [{name: c}]}}"

// TestRefused: what an API server would say of a workload that it refuses; what it takes has as
// many pods as it asks for.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		pods int
		want string
	}{
		"a set":          {lws("", "size: 3, "), 3, ""},
		"two":            {lws("replicas: 2, ", "size: 3, "), 6, ""},
		"none":           {lws("replicas: 0, ", "size: 3, "), 0, ""},
		"no size":        {lws("", ""), 1, ""},
		"a size of none": {lws("", "size: 0, "), 0, "size: Invalid value: 0: must be greater than or equal to 1"},
		"too many": {
			lws("replicas: 99999, ", "size: 3, "), 0, "replicas × size must be less than or equal to 100000 in a simulation",
		},
		"fewer than none":   {lws("replicas: -1, ", "size: 1, "), 0, "replicas: Invalid value: -1: must be greater than or equal to 0"},
		"an unknown policy": {lws("startupPolicy: Late, ", "size: 1, "), 0, `startupPolicy: Unsupported value: "Late"`},
		"an unknown network": {
			lws("networkConfig: {subdomainPolicy: None}, ", "size: 1, "), 0, `subdomainPolicy: Unsupported value: "None"`,
		},
		"a size that is a word": {lws("", "size: many, "), 0, "spec: Internal error"},
		"subgroups of two":      {lws("", "size: 4, subGroupPolicy: {subGroupSize: 2}, "), 4, ""},
		"of all but the leader": {lws("", "size: 4, subGroupPolicy: {subGroupSize: 3, subGroupPolicyType: LeaderExcluded}, "), 4, ""},
		"subgroups of none": {
			lws("", "size: 4, subGroupPolicy: {subGroupSize: 0}, "), 0, "subGroupSize: Invalid value: 0: must be greater than or equal to 1",
		},
		"of more than there are": {lws("", "size: 4, subGroupPolicy: {subGroupSize: 5}, "), 0, "must not be larger than size, which is 4"},
		"that do not divide":     {lws("", "size: 6, subGroupPolicy: {subGroupSize: 4}, "), 0, "must divide size or size - 1; size is 6"},
		"nor without the leader": {
			lws("", "size: 4, subGroupPolicy: {subGroupSize: 2, subGroupPolicyType: LeaderExcluded}, "), 0,
			"must divide size - 1, which is 3, with LeaderExcluded",
		},
		"no size of subgroups": {lws("", "size: 4, subGroupPolicy: {}, "), 0, "subGroupSize: Required value"},
		"an unknown type": {
			lws("", "size: 4, subGroupPolicy: {subGroupSize: 2, subGroupPolicyType: All}, "), 0, `subGroupPolicyType: Unsupported value: "All"`,
		},
		"a leader without a box": {lws("", "size: 2, leaderTemplate: {spec: {}}, "), 0, "leaderTemplate.spec.containers: Required value"},
		"a worker that may stop": {
			strings.Replace(lws("", "size: 2, "), "spec: {containers", "spec: {restartPolicy: Never, containers", 1), 0,
			`restartPolicy: Unsupported value: "Never"`,
		},
		"a JobSet": {parts("", "name: a, replicas: 2, template: {spec: {parallelism: 3, completions: 2, "+podOfJob+"}}"), 4, ""},
		"of several parts": {
			parts("", "name: a, template: {spec: {"+podOfJob+"}}", "name: b, template: {spec: {parallelism: 2, completions: 2, "+podOfJob+"}}"), 3,
			"",
		},
		"of no Jobs": {parts("", "name: a, replicas: 0, template: {spec: {"+podOfJob+"}}"), 0, ""},
		"two of one name": {
			parts("", "name: a, template: {spec: {"+podOfJob+"}}", "name: a, template: {spec: {"+podOfJob+"}}"), 0,
			`replicatedJobs[1].name: Duplicate value: "a"`,
		},
		"one without": {parts("", "template: {spec: {"+podOfJob+"}}"), 0, "replicatedJobs[0].name: Required value"},
		"an unknown order": {
			parts("startupPolicy: {startupPolicyOrder: Last}", "name: a, template: {spec: {"+podOfJob+"}}"), 0,
			`startupPolicyOrder: Unsupported value: "Last"`,
		},
		"it depends on the next": {
			parts("", "name: a, dependsOn: [{name: b, status: Ready}], template: {spec: {"+podOfJob+"}}",
				"name: b, template: {spec: {"+podOfJob+"}}"),
			0, `must be a replicated job that is listed before`,
		},
		"on an unknown state": {
			parts("", "name: a, template: {spec: {"+podOfJob+"}}",
				"name: b, dependsOn: [{name: a, status: Late}], template: {spec: {"+podOfJob+"}}"),
			0, `status: Unsupported value: "Late"`,
		},
		"Jobs below none": {parts("", "name: a, replicas: -1, template: {spec: {"+podOfJob+"}}"), 0, "replicas: Invalid value: -1"},
		"too many Jobs": {
			parts("", "name: a, replicas: 1000, template: {spec: {parallelism: 1000, completions: 1000, "+podOfJob+"}}"), 0,
			"replicas × parallelism of all must be less than or equal to 100000",
		},
		"a long name": {strings.Replace(lws("", "size: 1, "), "name: s", "name: "+strings.Repeat("s", 52), 1), 1, ""},
		"a name that is too long": {
			strings.Replace(lws("", "size: 1, "), "name: s", "name: "+strings.Repeat("s", 54), 1), 0,
			"its label controller-revision-hash would be " + strings.Repeat("s", 54),
		},
		"a name that is a list": {
			strings.Replace(parts("", "name: a, template: {spec: {"+podOfJob+"}}"), "name: a", "name: [a]", 1), 0, "spec: Internal error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Expand(read(t, c.text), named)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				require.Empty(t, out.Objects, "nothing is made of what is refused")
				return
			}
			require.NoError(t, err)
			_, err = Expand(read(t, c.text), EmptyAPI)
			require.NoError(t, err, "the question whether it can be expanded has the same answer")
			pods := map[string]bool{}
			for _, o := range out.Objects {
				if p, ok := o.Object.(*v1.Pod); ok {
					require.False(t, pods[p.Name], "two pods named %s", p.Name)
					pods[p.Name] = true
				}
			}
			require.Len(t, pods, c.pods)
		})
	}
}

// TestOneRevision: the pods of a LeaderWorkerSet are of one revision, whatever its StatefulSets have by default: the
// leader's and its workers' are one gang.
func TestOneRevision(t *testing.T) {
	out, err := Expand(read(t, lws("", "size: 3, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}], ")),
		named)
	require.NoError(t, err)
	revisions, pods := map[string]bool{}, 0
	for _, o := range out.Objects {
		if p, ok := o.Object.(*v1.Pod); ok {
			revisions[p.Labels[lwsv1.RevisionKey]] = true
			pods++
		}
	}
	require.Equal(t, 3, pods)
	require.Len(t, revisions, 1)
}

// TestPodless: a suspended workload and a workload of another controller have no pods, and the reason is reported.
func TestPodless(t *testing.T) {
	const job = "name: a, template: {spec: {" + podOfJob + "}}"
	exclusive := "name: a, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {completionMode: " +
		"NonIndexed, " + podOfJob + "}}"
	for name, c := range map[string]struct{ text, want string }{
		"another controller's": {
			parts("managedBy: kueue.x-k8s.io/multikueue", job), `no pods, since spec.managedBy is "kueue.x-k8s.io/multikueue"`,
		},
		"its own":     {parts("managedBy: jobset.sigs.k8s.io/jobset-controller", job), ""},
		"it sleeps":   {parts("suspend: true", job), "no pods, since spec.suspend is true"},
		"it is awake": {parts("suspend: false", job), ""},
		"no pod has index 0": {
			parts("", exclusive),
			"no pods of Job s-a-0, since with exclusive-topology they wait for that of index 0, and completionMode is NonIndexed",
		},
		"it waits for ever": {
			parts("", job, "name: b, dependsOn: [{name: a, status: Complete}], template: {spec: {"+podOfJob+"}}"),
			"no pods of replicated job b, since it waits until a is complete, and nothing ends in a simulation",
		},
	} {
		out, err := Expand(read(t, c.text), named)
		require.NoError(t, err, name)
		if c.want == "" {
			require.Empty(t, out.Notes, name)
			continue
		}
		require.Equal(t, []string{"JobSet ns/s: " + c.want}, out.Notes, name)
	}
}

// TestClaimed: a pod that asks for a domain for itself is not asked to do so once more.
func TestClaimed(t *testing.T) {
	label := map[string]string{"key": "a"}
	asks := func(key string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: label}}
		addExclusiveTerms(p, key, "key", nil)
		return p
	}
	half := asks("rack")
	half.Spec.Affinity.PodAntiAffinity = nil
	twice := asks("rack")
	addExclusiveTerms(twice, "block", "key", nil)
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"nothing":         {&v1.Pod{}, false},
		"this domain":     {asks("rack"), true},
		"another one":     {asks("block"), false},
		"both":            {twice, true},
		"without others":  {half, false},
		"only with nodes": {&v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}}}, false},
		"empty affinities": {
			&v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}}}, false,
		},
	} {
		require.Equal(t, c.want, hasExclusiveTerms(c.pod, "rack"), name)
	}
}

// TestKinds: what an object is, whether it says so or not.
func TestKinds(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(workloads.JobSetKind)
	require.Equal(t, workloads.JobSetKind, kindOf(u))
	require.Equal(t, jobKind, kindOf(&batchv1.Job{}), "a type says it where the object does not")
	require.True(t, kindOf(&metav1.Table{}).Empty())
	_, err := Expand(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}, EmptyAPI)
	require.ErrorContains(t, err, `Job.batch "j" is invalid`)
}
