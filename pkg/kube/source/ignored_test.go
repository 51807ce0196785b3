package source_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestUnheard: which annotations of owners have no effect.
func TestUnheard(t *testing.T) {
	for name, c := range map[string]struct{ kind, annotations, unknown, without string }{
		"nothing":       {"LeaderWorkerSet", "", "", ""},
		"others' words": {"JobSet", "team: x", "", ""},
		"a rule":        {"JobSet", scheduling.AnnotationTopologySpec + ": '{}'", "", ""},
		"misspelt": {
			"JobSet", scheduling.AnnotationTopologySpec + "s: '{}'",
			scheduling.AnnotationTopologySpec + "s: unknown; did you mean network-topology-spec?", "",
		},
		"a minimum": {
			"LeaderWorkerSet", scheduling.AnnotationMinAvailable + ": '2'", "",
			scheduling.AnnotationMinAvailable +
				" has no effect on LeaderWorkerSet ns/a: how many pods start together is known from its spec, or from its PodGroup",
		},
		"a total": {
			"TrainJob", scheduling.AnnotationTotalNumber + ": '2'", "",
			scheduling.AnnotationTotalNumber +
				" has no effect on TrainJob ns/a: how many pods start together is known from its spec, or from its PodGroup",
		},
		"a Job's minimum is heard": {"Job", scheduling.AnnotationMinAvailable + ": '2'", "", ""},
	} {
		unknown, without := owned(t,
			object(t, "{kind: "+c.kind+", metadata: {namespace: ns, name: a, annotations: {"+c.annotations+"}}}")).IneffectiveKeys()
		if c.unknown != "" {
			require.Equal(t, []string{c.unknown}, unknown, name)
		} else {
			require.Empty(t, unknown, name)
		}
		if c.without != "" {
			require.Equal(t, []string{c.without}, without, name)
		} else {
			require.Empty(t, without, name)
		}
	}
}

// TestMisspeltKeysOfOtherProjects: the message names the key that a pod seems to mean. Other valid keys of these projects get no message.
func TestMisspeltKeysOfOtherProjects(t *testing.T) {
	pod := &v1.Pod{}
	pod.Annotations = words{
		"volcano.sh/network-topology-mod", "x", "kueue.x-k8s.io/podset-required-topolgy", "x", "kueue.x-k8s.io/podset-group-name", "x",
		"volcano.sh/network-topology-highest-tier-name", "x", "kueue.x-k8s.io/podset-unconstrained-topology", "x", "volcano.sh/task-index", "1",
	}.asMap()
	pod.Labels = words{
		"grove.io/podclique", "x", "grove.io/podcliqueset", "x", "grove.io/pod-gang", "x", "kueue.x-k8s.io/queue-name", "x",
		"kueue.x-k8s.io/pod-group-nam", "x", "volcano.sh/job-name", "x",
	}.asMap()
	require.Equal(t, []string{
		"kueue.x-k8s.io/podset-required-topolgy: unknown; did you mean kueue.x-k8s.io/podset-required-topology?",
		"volcano.sh/network-topology-mod: unknown; did you mean volcano.sh/network-topology-mode?",
		"label grove.io/pod-gang: unknown; did you mean label grove.io/podgang?",
		"label kueue.x-k8s.io/pod-group-nam: unknown; did you mean label kueue.x-k8s.io/pod-group-name?",
	}, source.UnknownKeys(pod))
}

// TestNameless: a pod that says something of a gang and names none.
func TestNameless(t *testing.T) {
	least, spec := words{scheduling.AnnotationMinAvailable, "2"}, words{scheduling.AnnotationTopologySpec, must}
	for name, c := range map[string]struct {
		labels, annotations words
		want                string
	}{
		"nothing":       {nil, nil, ""},
		"others' words": {words{"app", "web"}, words{"team", "x"}, ""},
		"a gang":        {words{scheduling.LabelPodGroup, "a"}, least, ""},
		"a Job's pod":   {words{"batch.kubernetes.io/job-name", "j"}, spec, ""},
		"a minimum":     {nil, least, scheduling.AnnotationMinAvailable + " has no effect"},
		"a rule":        {words{"app", "web"}, spec, scheduling.AnnotationTopologySpec + " has no effect"},
		"both": {
			nil, append(least, spec...),
			scheduling.AnnotationTopologySpec + ", " + scheduling.AnnotationMinAvailable + " have no effect",
		},
		"a rank without a gang": {nil, words{scheduling.AnnotationTopologyIndex, "1"}, ""},
		"a rule of Kueue":       {nil, words{source.AnnotationKueueRequired, "x"}, source.AnnotationKueueRequired + " has no effect"},
		"a rule of Volcano":     {nil, words{source.AnnotationVolcanoTier, "1"}, source.AnnotationVolcanoTier + " has no effect"},
		"a group of Kueue": {
			words{"kueue.x-k8s.io/pod-group-name", "g", "batch.kubernetes.io/job-name", "j"},
			nil,
			"kueue.x-k8s.io/pod-group-name has no effect",
		},
		"another word of ours": {nil, words{scheduling.AnnotationMode, "Strict"}, scheduling.AnnotationMode + " has no effect"},
		"a clique alone":       {words{"grove.io/podclique", "a"}, nil, "grove.io/podclique has no effect"},
		"a Job's other word": {
			words{"batch.kubernetes.io/job-name", "j"},
			words{scheduling.AnnotationMode, "Strict"},
			scheduling.AnnotationMode + " has no effect",
		},
		"a Job of Kueue": {words{"batch.kubernetes.io/job-name", "j"}, words{source.AnnotationKueueSlice, "x"}, ""},
	} {
		got := source.KeysWithoutGang(pod("p", c.labels, c.annotations))
		if c.want == "" {
			require.Empty(t, got, name)
			continue
		}
		require.Contains(t, got, c.want, name)
		require.Contains(t, got, "batch.kubernetes.io/job-name", name+": what would help")
	}
}

// TestImpliedElsewhere: for which gang a controller means a pod that names another one.
func TestImpliedElsewhere(t *testing.T) {
	other := words{scheduling.LabelPodGroup, "other"}
	with := func(p *v1.Pod, labels words) *v1.Pod {
		for k, v := range labels.asMap() {
			p.Labels[k] = v
		}
		return p
	}
	for name, c := range map[string]struct {
		pod   *v1.Pod
		meant string
		owner source.OwnerKey
	}{
		"no gang":             {pod("p", nil, nil), "", source.OwnerKey{}},
		"one that users name": {pod("p", other, nil), "", source.OwnerKey{}},
		"two that users name": {pod("p", append(words{scheduling.LabelPodGroupX, "x"}, other...), nil), "", source.OwnerKey{}},
		"one of a controller": {jobSetPod("w", "0", "0"), "", source.OwnerKey{Kind: "JobSet", Namespace: "default", Name: "js"}},
		"a part that names another": {
			with(jobSetPod("w", "0", "0"), other), "js.w",
			source.OwnerKey{Kind: "JobSet", Namespace: "default", Name: "js"},
		},
		"a group that does": {
			with(lwsPod("a", "0", "0", "2"), other), "a-0-r1",
			source.OwnerKey{Kind: "LeaderWorkerSet", Namespace: "default", Name: "a"},
		},
	} {
		ref, named := source.Implied(c.pod)
		require.Equal(t, c.meant, ref.Name, name)
		if c.meant != "" {
			require.Equal(t, `label pod-group.scheduling.sigs.k8s.io: "other"`, named, name)
		} else {
			require.Empty(t, named, name)
		}
		owner, ok := source.OwnerMakingPod(c.pod)
		require.Equal(t, c.owner != source.OwnerKey{}, ok, name)
		require.Equal(t, c.owner, owner, name)
	}

	g := gangOf(jobSetPod("driver", "0", "0"))
	g.Owner = owned(t,
		object(t, "{kind: JobSet, metadata: {namespace: default, name: js}, spec: {replicatedJobs: [{name: driver}, {name: w}]}}"))
	g.Pointer = func(ref gang.Ref) string { return map[string]string{"js.w": "label a: \"b\""}[ref.Name] }
	d, ok := source.Declare(g, source.Defaults{})
	require.True(t, ok)
	require.Equal(t,
		`problem: gang default/js.w of the group has no members: its pods from JobSet default/js name another gang (label a: "b"), `+
			`TwoGangs`, drawn(d))
}

// TestWordsOnAJob: a Job may have annotations of a gang although its pods are none.
func TestWordsOnAJob(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"nothing": {"{kind: Job, metadata: {namespace: ns, name: a}}", ""},
		"a gang": {
			"{kind: Job, metadata: {namespace: ns, name: a, annotations: {volcano.sh/network-topology-mode: hard}}, spec: {template: {metadata: " +
				"{annotations: {" + scheduling.AnnotationMinAvailable + ": '1'}}}}}",
			"",
		},
		"a rule": {
			"{kind: Job, metadata: {namespace: ns, name: a, annotations: {" + scheduling.AnnotationTopologySpec + ": '{}'}}}",
			scheduling.AnnotationTopologySpec + " has",
		},
		"words of others": {
			"{kind: Job, metadata: {namespace: ns, name: a, annotations: {volcano.sh/network-topology-mode: hard, " +
				source.AnnotationKueueRequired + ": x}}}",
			"volcano.sh/network-topology-mode, " + source.AnnotationKueueRequired + " have",
		},
	} {
		if c.want != "" {
			c.want += " no effect in a Job's own metadata; write it in spec.template.metadata.annotations"
		}
		require.Equal(t, c.want, owned(t, object(t, c.object)).Ineffective, name)
	}
	job := owned(t, object(t, "{kind: Job, metadata: {namespace: ns, name: a, annotations: {muster.sh/max-runtime: soon}}, "+
		"spec: {activeDeadlineSeconds: 60}, status: {startTime: '2026-12-01T02:00:00Z'}}"))
	require.Equal(t, `muster.sh/max-runtime: "soon" is invalid; supported values: a duration > 0, such as 4h; it has no effect`, job.Ineffective)
	require.Zero(t, job.MaxRuntime)
	require.Equal(t, time.Minute, job.Deadline)
	require.Equal(t, "2026-12-01T02:00:00Z", job.Started.UTC().Format(time.RFC3339))
	job = owned(t, object(t, "{kind: Job, metadata: {namespace: ns, name: a, annotations: {muster.sh/max-runtime: 4h}}}"))
	require.Empty(t, job.Ineffective)
	require.Equal(t, 4*time.Hour, job.MaxRuntime)
	set := owned(t,
		object(t,
			"{kind: JobSet, metadata: {namespace: ns, name: a}, spec: {replicatedJobs: "+
				"[{name: w, template: {metadata: {annotations: {"+source.AnnotationKueueRequired+": x}}}}]}}"))
	require.Contains(t, set.Notes[0].Message,
		"spec.replicatedJobs[0].template.metadata.annotations: "+source.AnnotationKueueRequired+" has no effect")
}

// TestKeysOnTheWrongObject: keys of pods in the metadata of an object whose template lacks them.
func TestKeysOnTheWrongObject(t *testing.T) {
	group := "labels: {" + scheduling.LabelPodGroup + ": g}"
	template := ", spec: {template: {metadata: {" + group + "}}}"
	label := scheduling.LabelPodGroup + " has no effect in a %s's own metadata; write it in %s.labels"
	for name, c := range map[string]struct {
		object string
		want   []string
	}{
		"a Deployment": {"kind: Deployment, metadata: {name: a, " + group + "}", []string{fmt.Sprintf(label, "Deployment", "spec.template.metadata")}},
		"in both":      {"kind: Deployment, metadata: {name: a, " + group + "}" + template, nil},
		"a constraint": {
			"kind: StatefulSet, metadata: {name: a, annotations: {" + scheduling.AnnotationTopologySpec + ": '{}'}}",
			[]string{scheduling.AnnotationTopologySpec + " has no effect in a StatefulSet's own metadata; write it in spec.template.metadata.annotations"},
		},
		"exclusive": {
			"kind: StatefulSet, metadata: {name: a, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: x}}",
			[]string{"alpha.jobset.sigs.k8s.io/exclusive-topology has no effect in a StatefulSet's own metadata; use " +
				scheduling.AnnotationTopologySpec + "; only a JobSet has the other key"},
		},
	} {
		require.Equal(t, c.want, source.Misplaced(object(t, "{"+c.object+"}")), name)
	}
	_, ineffective := owned(t, object(t, "{kind: MPIJob, metadata: {namespace: ns, name: a, "+group+"}}")).IneffectiveKeys()
	require.Equal(t, []string{fmt.Sprintf(label, "MPIJob", "the pod template's metadata")}, ineffective)
	require.Empty(t, owned(t, object(t, "{kind: Job, metadata: {namespace: ns, name: a, "+group+"}"+template+"}")).Ineffective)
	require.Equal(t, fmt.Sprintf(label, "Job", "spec.template.metadata"),
		owned(t, object(t, "{kind: Job, metadata: {namespace: ns, name: a, "+group+"}}")).Ineffective)
}

// TestWrongForms: a label that is an annotation has no effect, nor has the reverse.
func TestWrongForms(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations words
		want                []string
	}{
		"right forms": {words{scheduling.LabelPodGroup, "g"}, words{scheduling.AnnotationGangName, "g"}, nil},
		"a label": {
			words{"scheduling.k8s.io/group-name", "g"},
			nil,
			[]string{"label scheduling.k8s.io/group-name has no effect; write it as an annotation"},
		},
		"an annotation": {
			nil,
			words{scheduling.LabelPodGroupX, "g"},
			[]string{"annotation " + scheduling.LabelPodGroupX + " has no effect; write it as a label"},
		},
		"both":                   {words{scheduling.LabelPodGroupX, "g"}, words{scheduling.LabelPodGroupX, "g"}, nil},
		"one that is UnknownKey": {words{scheduling.AnnotationMode, "Strict"}, nil, nil},
	} {
		require.Equal(t, c.want, source.WrongForms(pod("p", c.labels, c.annotations)), name)
	}
}
