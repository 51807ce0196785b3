package source_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestLeaderWorkerSets: the pods' own annotations say how large a group is, and the
// LeaderWorkerSet whether the leader waits for its workers (S000-08, 09).
func TestLeaderWorkerSets(t *testing.T) {
	lws := func(spec string) *source.Owned {
		return owned(t, object(t, "{kind: LeaderWorkerSet, metadata: {namespace: default, name: a}, spec: {"+spec+"}}"))
	}
	for name, c := range map[string]struct {
		owner *source.Owned
		pod   *v1.Pod
		min   int
		want  string
	}{
		"all together": {lws("leaderWorkerTemplate: {size: 4}"), lwsPod("a", "0", "0", "4"), 4, ""},
		"S000-08 ready": {
			lws("startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4}"), lwsPod("a", "0", "0", "4"), 1,
			reasons.LeaderFirst,
		},
		"S000-09 exclusive": {
			lws("leaderWorkerTemplate: {size: 4}"),
			lwsPod("a", "0", "0", "4", "leaderworkerset.sigs.k8s.io/exclusive-topology", "rack"), 1, reasons.LeaderFirst,
		},
		"too many to plan": {
			lws("startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 10001}"), lwsPod("a", "0", "0", "10001"), 10001,
			"problem: the gang has 10001 members, which are created after their leader; use at most 10000, " + reasons.LeaderFirst,
		},
		"a leader alone":    {lws("startupPolicy: LeaderReady"), lwsPod("a", "0", "0", "1"), 1, ""},
		"a label that lies": {lws("leaderWorkerTemplate: {size: 4}"), lwsPod("a", "0", "0", "2"), 2, reasons.InvalidAnnotation},
		"one that is bad":   {lws("leaderWorkerTemplate: {size: 4}"), lwsPod("a", "0", "0", "0"), 4, reasons.InvalidAnnotation},
		"a size that is bad": {
			nil, lwsPod("a", "0", "0", "many"), 1,
			`problem: leaderworkerset.sigs.k8s.io/size: "many" on default/a-0-0 is invalid; write an integer ≥ 1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := source.Gang{Ref: source.GangOf(c.pod), Pods: map[string]*v1.Pod{"default/a-0-0": c.pod}, Owner: c.owner}
			d, ok := source.Declare(g, source.Defaults{NetworkTopologyAware: true})
			require.True(t, ok)
			require.Equal(t, c.min, d.Min)
			require.Equal(t, c.want, drawn(d))
		})
	}
	leads := lws("startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {containers: [{name: c, resources: " +
		"{requests: {cpu: 3}, limits: {cpu: 5, memory: 1Gi}}}]}}}")
	first := declared(t, leads, lwsPod("a", "0", "0", "4"))
	require.Equal(t, 4, first.Total)
	require.Equal(t, "3", first.Follower.Spec.Containers[0].Resources.Requests.Cpu().String())
	require.Equal(t, "1Gi", first.Follower.Spec.Containers[0].Resources.Requests.Memory().String())
	together := declared(t, lws("leaderWorkerTemplate: {size: 4}"), lwsPod("a", "0", "0", "4"))
	require.Zero(t, together.Total)
	_, err := source.Owners[0].ReadOwner(object(t,
		"{kind: LeaderWorkerSet, metadata: {name: a}, spec: {leaderWorkerTemplate: {workerTemplate: {spec: {containers: none}}}}}"))
	require.ErrorContains(t, err, "spec.leaderWorkerTemplate.workerTemplate")
	require.Equal(t, gang.Ref{Source: "lws", Namespace: "default", Name: "a-0-r1"}, source.GangOf(lwsPod("a", "0", "0", "2")))
	revised := lwsPod("a", "0", "0", "2")
	revised.Labels["leaderworkerset.sigs.k8s.io/template-revision-hash"] = "r2"
	require.NotEqual(t, source.GangOf(lwsPod("a", "0", "0", "2")), source.GangOf(revised), "another revision is another gang")
	d := declared(t, nil, lwsPod("a", "0", "0", "2"))
	require.Equal(t, "problem: LeaderWorkerSet default/a, which its members name, was not found", drawn(d),
		"it may say that the leader is first")
	require.Equal(t, gang.Missing, d.Problem.By)
}

// TestPodGroupsOfLeaderWorkerSets: a PodGroup for a group with the leader first has minMember 1 and total-number; the leader is
// looked after as without it.
func TestPodGroupsOfLeaderWorkerSets(t *testing.T) {
	ready := owned(t, object(t,
		"{kind: LeaderWorkerSet, metadata: {namespace: ns, name: a}, spec: {startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4}}}"))
	exclusive := owned(t,
		object(t,
			"{kind: LeaderWorkerSet, metadata: {namespace: ns, name: a, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}, "+
				"spec: {leaderWorkerTemplate: {size: 4}}}"))
	together := owned(t, object(t, "{kind: LeaderWorkerSet, metadata: {namespace: ns, name: a}, spec: {leaderWorkerTemplate: {size: 4}}}"))
	for name, c := range map[string]struct {
		owner *source.Owned
		min   int32
		total string
		want  int
	}{
		"ready": {ready, 1, "4", 4}, "exclusive": {exclusive, 1, "4", 4}, "together": {together, 1, "4", 0}, "no number": {ready, 1, "", 0},
		"a minimum of all": {ready, 4, "4", 0}, "no owner": {nil, 1, "4", 0},
	} {
		says := words{}
		if c.total != "" {
			says = words{scheduling.AnnotationTotalNumber, c.total}
		}
		d, ok := source.Declare(source.Gang{Object: podGroup(c.min, says), Owner: c.owner}, source.Defaults{NetworkTopologyAware: true})
		require.True(t, ok)
		require.Equal(t, c.want, d.Total, name)
		require.EqualValues(t, c.min, d.Min, name)
	}
	leader := lwsPod("a", "0", "0", "4")
	require.True(t, source.IsLeader(leader))
	leader.Labels[scheduling.LabelPodGroup] = "a-0-r1"
	require.True(t, source.IsLeader(leader), "the PodGroup was made for its gang")
	leader.Labels[scheduling.LabelPodGroup] = "all-groups"
	require.False(t, source.IsLeader(leader), "one PodGroup for several groups has several leaders")
	leader.Annotations[scheduling.AnnotationGangName] = "mine"
	delete(leader.Labels, scheduling.LabelPodGroup)
	require.False(t, source.IsLeader(leader), "a gang of the user's own")
}

func jobSetPod(part, job, index string, annotations ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "js-" + part + "-" + job + "-" + index, Labels: map[string]string{
		"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": part, "jobset.sigs.k8s.io/job-index": job,
		"jobset.sigs.k8s.io/restart-attempt": "0", "batch.kubernetes.io/job-name": "js-" + part + "-" + job,
	}, Annotations: map[string]string{}}}
	maps.Copy(p.Annotations, words(annotations).asMap())
	return p
}

// TestJobSets: parts that may start together are one group, parts that wait for other parts are not (INT-02, INT-03).
func TestJobSets(t *testing.T) {
	parts := func(more, depends string) *source.Owned {
		return owned(t, object(t, `
kind: JobSet
metadata: {namespace: default, name: js, annotations: {`+more+`}}
spec:
  replicatedJobs:
  - {name: driver, template: {spec: {parallelism: 1, completions: 1}}}
  - {name: workers, replicas: 2, template: {spec: {parallelism: 4, completions: 9}}`+depends+`}
`))
	}
	group := []gang.Ref{
		{Source: "jobset", Namespace: "default", Name: "js.driver"},
		{Source: "jobset", Namespace: "default", Name: "js.workers"},
	}
	d := declared(t, parts("", ""), jobSetPod("workers", "0", "0"))
	require.Equal(t, 8, d.Min)
	require.Equal(t, group, d.Group)
	d = declared(t, parts("", ""), jobSetPod("driver", "0", "0"))
	require.Equal(t, 1, d.Min)
	require.Equal(t, group, d.Group)

	d = declared(t, parts("", ", dependsOn: [{name: driver, status: Ready}]"), jobSetPod("workers", "1", "3"))
	require.Equal(t, 8, d.Min)
	require.Empty(t, d.Group, "workers are made when the driver runs")

	const exclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	d = declared(t, parts(exclusive+": rack", ""), jobSetPod("workers", "1", "0", exclusive, "rack"))
	require.Equal(t, 1, d.Min)
	require.Equal(t, reasons.LeaderFirst, drawn(d))
	require.Empty(t, d.Group)
	require.NotEqual(t, source.GangOf(jobSetPod("workers", "1", "0", exclusive, "rack")),
		source.GangOf(jobSetPod("workers", "0", "0", exclusive, "rack")))
	d = declared(t, parts(exclusive+": rack", ""),
		jobSetPod("workers", "1", "0", exclusive, "rack", "alpha.jobset.sigs.k8s.io/node-selector", "true"))
	require.Equal(t, 4, d.Min, "its followers are made at once")
	require.Empty(t, drawn(d))
	some := owned(t, object(t, `
kind: JobSet
metadata: {namespace: default, name: js}
spec:
  replicatedJobs:
  - {name: driver, template: {spec: {parallelism: 1}}}
  - {name: cache, template: {spec: {parallelism: 1}}}
  - {name: none, replicas: 0, template: {spec: {parallelism: 1}}}
  - {name: workers, replicas: 2, template: {metadata: {annotations: {`+exclusive+`: rack}}, spec: {parallelism: 4}}}
`))
	d = declared(t, some, jobSetPod("workers", "1", "0", exclusive, "rack"))
	require.Equal(t, 1, d.Min)
	require.Equal(t, reasons.LeaderFirst, drawn(d), "of one part only")
	require.Empty(t, d.Group)
	d = declared(t, some, jobSetPod("driver", "0", "0"))
	require.Equal(t, []gang.Ref{
		{Source: "jobset", Namespace: "default", Name: "js.cache"},
		{Source: "jobset", Namespace: "default", Name: "js.driver"},
	}, d.Group)

	again := jobSetPod("workers", "0", "0")
	again.Labels["jobset.sigs.k8s.io/restart-attempt"] = "1"
	require.Equal(t, "js.workers.restart-1", source.GangOf(again).Name, "a restart is another gang")
	require.Equal(t, "js.driver.restart-1", declared(t, parts("", ""), again).Group[0].Name)

	d = declared(t, parts("", ""), jobSetPod("others", "0", "0"))
	require.Equal(t,
		`problem: jobset.sigs.k8s.io/replicatedjob-name: "others" on default/js-others-0-0 names no ReplicatedJob of JobSet default/js`, drawn(d))
	require.Equal(t, "problem: JobSet default/js, which its members name, was not found",
		drawn(declared(t, nil, jobSetPod("driver", "0", "0"))))
}

// TestJobs: a Job is a gang if its pods say that they gather or how many must start together.
func TestJobs(t *testing.T) {
	pod := func(annotations ...string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "j-0",
			Labels: map[string]string{"batch.kubernetes.io/job-name": "j"}, Annotations: map[string]string{},
		}}
		maps.Copy(p.Annotations, words(annotations).asMap())
		return p
	}
	job := func(spec string) *source.Owned {
		return owned(t, object(t, "{kind: Job, metadata: {namespace: default, name: j}, spec: {"+spec+"}}"))
	}
	require.True(t, source.GangOf(pod()).IsZero(), "its pods may run one after the other")
	require.True(t, source.GangOf(pod("any", "thing")).IsZero())
	require.Equal(t, "must SpineLayer", drawn(declared(t, job(""), pod(source.AnnotationKueueRequired, "network.topology.nvidia.com/spine"))))
	require.Equal(t, "must BlockLayer", drawn(declared(t, job(""), pod("volcano.sh/network-topology-highest-tier", "1"))))
	sliced := declared(t, job(""), pod(source.AnnotationKueueSlice, "network.topology.nvidia.com/block", source.AnnotationKueueSliceSize, "2",
		source.AnnotationKueueRequired, "network.topology.nvidia.com/spine"))
	require.Equal(t, "must SpineLayer, prefer BlockLayer", drawn(sliced))
	require.Equal(t, []int{1, 2}, []int{sliced.Gather.Rules[0].PodCountMultiple, sliced.Gather.Rules[1].PodCountMultiple})
	require.True(t, sliced.Multiples)
	same := declared(t, job(""), pod(source.AnnotationKueueSlice, "network.topology.nvidia.com/spine", source.AnnotationKueueSliceSize, "2",
		source.AnnotationKueueRequired, "network.topology.nvidia.com/spine"))
	require.Equal(t, 2, same.Gather.Rules[0].PodCountMultiple)
	require.Contains(t, drawn(declared(t, job(""), pod(source.AnnotationKueueSlice, "network.topology.nvidia.com/block"))),
		`kueue.x-k8s.io/podset-slice-size: "" is invalid`)
	require.Contains(t, drawn(declared(t, job(""), pod(source.AnnotationKueueSlice, "rack", source.AnnotationKueueSliceSize, "2"))),
		`"rack" is no label key of a layer`)
	alone := declared(t, job(""),
		pod(scheduling.AnnotationMinAvailable, "1", source.AnnotationKueueSliceSize, "2", "kueue.x-k8s.io/podset-group-name", "g"))
	require.Equal(t, "InvalidAnnotation, InvalidAnnotation", drawn(alone))
	d := declared(t, job("parallelism: 4, completions: 8"), pod(scheduling.AnnotationTopologySpec, must))
	require.Equal(t, 4, d.Min)
	require.Equal(t, "must SpineLayer", drawn(d))
	require.Equal(t, 2, declared(t, job("parallelism: 4, completions: 2"), pod(scheduling.AnnotationTopologySpec, must)).Min)
	require.Equal(t, 1, declared(t, job(""), pod(scheduling.AnnotationTopologySpec, must)).Min)
	require.Equal(t, 3, declared(t, job("parallelism: 4"), pod(scheduling.AnnotationMinAvailable, "3")).Min)
	require.Contains(t, drawn(declared(t, job("parallelism: 4"), pod(scheduling.AnnotationMinAvailable, "5"))), "at most 4")
	require.Contains(t, drawn(declared(t, job("parallelism: 4"), pod(scheduling.AnnotationMinAvailable, "all"))),
		"problem: "+scheduling.AnnotationMinAvailable)
	require.Contains(t, drawn(declared(t, nil, pod(scheduling.AnnotationMinAvailable, "3"))),
		"Job default/j, which its members name, was not found")
	g := source.Gang{
		Ref:  source.GangOf(pod(scheduling.AnnotationMinAvailable, "3")),
		Pods: map[string]*v1.Pod{"default/j-0": pod(scheduling.AnnotationMinAvailable, "3")},
	}
	d, _ = source.Declare(g, source.Defaults{})
	require.Contains(t, d.Problem.Words, "check that Muster may read it (manifests/rbac/sources/job.yaml)")
}

// TestSizeOfWhatIsLeft: a Job's gang has as many members as its controller still makes pods.
func TestSizeOfWhatIsLeft(t *testing.T) {
	pod := func(least string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "j-0", Labels: map[string]string{"batch.kubernetes.io/job-name": "j"},
			Annotations: map[string]string{scheduling.AnnotationMinAvailable: least},
		}}
	}
	for name, c := range map[string]struct {
		spec, status, least string
		min, completed      int
	}{
		"it begins":        {"parallelism: 4, completions: 4", "", "4", 4, 0},
		"two are done":     {"parallelism: 4, completions: 4", "succeeded: 2", "4", 2, 2},
		"fewer are enough": {"parallelism: 4, completions: 4", "succeeded: 2", "1", 1, 2},
		"many are left":    {"parallelism: 2, completions: 9", "succeeded: 5", "2", 2, 5},
		"all are done":     {"parallelism: 2, completions: 2", "succeeded: 2", "2", 1, 2},
		"not counted yet":  {"parallelism: 2, completions: 3", "{succeeded: 1, uncountedTerminatedPods: {succeeded: [u]}}", "2", 1, 2},
		"indexes":          {"parallelism: 4, completions: 6, completionMode: Indexed", "completedIndexes: '0-2,5'", "4", 2, 4},
		"indexes that have failed": {
			"parallelism: 4, completions: 4, completionMode: Indexed, backoffLimitPerIndex: 0",
			"{completedIndexes: '0', failedIndexes: '1-2', succeeded: 1}", "4", 1, 1,
		},
		"failed, and tried again": {"parallelism: 4, completions: 4, completionMode: Indexed", "{failedIndexes: '1-2', failed: 7}", "4", 4, 0},
		"an unreadable list":      {"parallelism: 4, completions: 4, completionMode: Indexed", "completedIndexes: 'x,3-,1'", "4", 3, 1},
		"a queue of work":         {"parallelism: 4", "active: 2", "4", 4, 0},
		"a queue that ends":       {"parallelism: 4", "{succeeded: 1, active: 3}", "4", 3, 1},
		"a queue that has ended":  {"parallelism: 4", "{succeeded: 1}", "4", 1, 1},
		"suspended in between":    {"parallelism: 2, completions: 3, suspend: true", "{succeeded: 2, active: 0}", "2", 1, 2},
		"an unreadable status":    {"parallelism: 2, completions: 2", "succeeded: many", "2", 2, 0},
	} {
		if !strings.HasPrefix(c.status, "{") {
			c.status = "{" + c.status + "}"
		}
		d := declared(t, owned(t, object(t, "{kind: Job, metadata: {namespace: default, name: j}, spec: {"+c.spec+"}, status: "+c.status+"}")),
			pod(c.least))
		require.Empty(t, drawn(d), name)
		require.Equal(t, c.min, d.Min, name)
		require.Equal(t, c.completed, d.Completed, name)
	}
	set := func(status string) *source.Declaration {
		return declared(t,
			owned(t,
				object(t,
					"{kind: JobSet, metadata: {namespace: default, name: js}, spec: {replicatedJobs: [{name: w, replicas: 3, template: {spec: "+
						"{parallelism: 2}}}]}, status: {"+status+"}}")), jobSetPod("w", "0", "0"))
	}
	require.Equal(t, 6, set("").Min)
	require.Equal(t, 2, set("replicatedJobsStatus: [{name: w, succeeded: 2}]").Min)
	require.Equal(t, 4, set("replicatedJobsStatus: [{name: w, succeeded: 2}]").Completed)
	require.Equal(t, 6, set("restarts: 1, replicatedJobsStatus: [{name: w, succeeded: 2}]").Min, "of another attempt")
	require.Equal(t, 1, set("replicatedJobsStatus: [{name: w, succeeded: 9}]").Min)
}

// volcano reads a PodGroup of Volcano and what is declared of its gang.
func volcano(t *testing.T, spec string, annotations ...string) *source.Declaration {
	t.Helper()
	u := object(t, "{kind: PodGroup, metadata: {namespace: default, name: vj}, spec: {"+spec+"}}")
	o := source.ObjectOf("podgroup-volcano")
	pg, err := o.Read(u)
	require.NoError(t, err)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "p",
		Annotations: map[string]string{"scheduling.k8s.io/group-name": "vj"},
	}}
	maps.Copy(p.Annotations, words(annotations).asMap())
	d, ok := source.Declare(source.Gang{Ref: source.GangOf(p), Object: pg, More: o.More(u), Pods: map[string]*v1.Pod{"default/p": p}},
		source.Defaults{NetworkTopologyAware: true, Layers: topo12})
	require.True(t, ok)
	return d
}

func TestVolcano(t *testing.T) {
	d := volcano(t, "minMember: 4, networkTopology: {mode: hard, highestTierAllowed: 2}")
	require.Equal(t, 4, d.Min)
	require.Equal(t, "prefer BlockLayer, must SpineLayer", drawn(d))
	require.Equal(t, "PodGroup default/vj field spec.networkTopology", d.ConstraintOrigin)
	require.Equal(t, "must BlockLayer", drawn(volcano(t, "minMember: 4", "volcano.sh/network-topology-highest-tier", "1")),
		"its pods may say it")
	require.Equal(t, 6, volcano(t, "minMember: 4, minTaskMember: {a: 2, b: 4}").Min, "each task needs some")
	require.Equal(t, "problem: 0 of 2 members of task a exist, InvalidAnnotation",
		drawn(volcano(t, "minMember: 8, minTaskMember: {a: 2, b: 4}")))
	tasks := volcano(t, "minMember: 4, minTaskMember: {a: 2, b: 2}")
	require.Equal(t, map[string]int{"a": 2, "b": 2}, tasks.Tasks)
	require.True(t, tasks.Multiples, "none of them comes without the others when the gang starts")
	both := volcano(t,
		"minMember: 4, minTaskMember: {a: 2, b: 2}, subGroupPolicy: [{name: part, subGroupSize: 2, labelSelector: {matchLabels: {part: a}}, "+
			"matchLabelKeys: [part]}]")
	require.Empty(t, both.Tasks, "sub-groups choose")
	for range 9 {
		require.Contains(t, drawn(volcano(t, "minMember: 4, minTaskMember: {b: -2, a: -1, c: -3}")),
			"problem: spec.minTaskMember[a]: -1 is invalid")
	}
	require.Equal(t, math.MaxInt32, volcano(t, "minMember: 2, minTaskMember: {a: 2147483647, b: 2147483647}").Min)
	for says, problem := range map[string]string{
		`{a: 1, b: 2147483648}`: "spec.minTaskMember[b]: 2147483648 is invalid; supported values: an integer from 0 to 2147483647",
		`{a: 1, b: "2"}`:        `spec.minTaskMember[b]: "2" is invalid; supported values: an integer ≥ 0; write 2 without quotes`,
		`{a: 1, b: null}`:       "spec.minTaskMember[b]: nothing is invalid; supported values: an integer ≥ 0",
		`[1]`:                   "spec.minTaskMember: [1] is invalid; supported values: an object",
	} {
		require.Equal(t, problem, volcano(t, "minMember: 2, minTaskMember: "+says).Problem.Words)
	}
	require.Equal(t, `spec.minResources[cpu]: "-4" is invalid; supported values: a quantity ≥ 0`,
		volcano(t, "minMember: 1, minResources: {cpu: '-4'}").Problem.Words)
	require.Equal(t, `spec.networkTopology.highestTierAllowed: {} is invalid; supported values: an integer`,
		volcano(t, "networkTopology: {mode: hard, highestTierAllowed: {}}").Problem.Words)
	require.Equal(t, reasons.InvalidAnnotation, drawn(volcano(t, "minMember: -5, minTaskMember: {a: 0}")))
	require.Contains(t, drawn(volcano(t, "minMember: 4, subGroupPolicy: part")), "problem: spec.subGroupPolicy")
	require.Contains(t, drawn(volcano(t, "minMember: 4, networkTopology: [1]")), "problem: spec.networkTopology")

	other := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:   "default",
		Annotations: map[string]string{"scheduling.volcano.sh/group-name": "vj"},
	}}
	require.Equal(t, gang.Ref{Source: "podgroup-volcano", Namespace: "default", Name: "vj"}, source.GangOf(other))
	_, err := source.ObjectOf("podgroup-volcano").Read(object(t, "{metadata: {name: a}, spec: {minMember: four}}"))
	require.EqualError(t, err, `spec.minMember: "four" is invalid; supported values: an integer`)
	_, err = source.ObjectOf("podgroup-volcano").Read(object(t, "{metadata: {name: a}, spec: {minMember: 4294967299}}"))
	require.EqualError(t, err, "spec.minMember: 4294967299 is invalid; supported values: an integer from 0 to 2147483647")
}

// TestOwnersOfPodGroups: what makers of PodGroups do not copy is read where it was written
// (INT-01).
func TestOwnersOfPodGroups(t *testing.T) {
	train := owned(t,
		object(t, "{kind: TrainJob, metadata: {namespace: ns, name: ft, annotations: {"+scheduling.AnnotationTopologySpec+": '"+must+"'}}}"))
	pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ft", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "x"}, {APIVersion: "trainer.kubeflow.org/v1beta7", Kind: "TrainJob", Name: "ft"},
	}}}
	pg.Spec.MinMember = 4
	g := source.Gang{Ref: gang.Ref{Source: "podgroup-x", Namespace: "ns", Name: "ft"}, Object: pg, Owner: train}
	key, ok := source.OwnerOf(g)
	require.True(t, ok)
	require.Equal(t, source.OwnerKey{Kind: "TrainJob", Namespace: "ns", Name: "ft"}, key)
	d, ok := source.Declare(g, source.Defaults{NetworkTopologyAware: true, Layers: topo12})
	require.True(t, ok)
	require.Equal(t, "must SpineLayer", drawn(d))
	require.Equal(t, []source.Note{{
		Reason:  reasons.TopologyRule,
		Message: "rule from TrainJob ns/ft annotation " + scheduling.AnnotationTopologySpec,
	}}, d.Notes)
	require.False(t, d.Notes[0].Warns())

	pg.Annotations = map[string]string{
		scheduling.AnnotationTopologySpec: `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}`,
	}
	d, _ = source.Declare(g, source.Defaults{NetworkTopologyAware: true, Layers: topo12})
	require.Equal(t, "must BlockLayer, InvalidAnnotation", drawn(d), "the PodGroup's own counts first, and that they differ is said")
	require.Equal(t,
		"TrainJob ns/ft annotation "+scheduling.AnnotationTopologySpec+" contradicts "+
			"PodGroup ns/ft annotation "+scheduling.AnnotationTopologySpec+", which is used; remove one of them", d.Notes[0].Message)
	pg.OwnerReferences = nil
	_, ok = source.OwnerOf(g)
	require.False(t, ok)
}

// TestImplied: a gang that a controller's labels imply is no rival of one that the user names.
func TestImplied(t *testing.T) {
	p := lwsPod("a", "0", "0", "2", "scheduling.k8s.io/group-name", "a-0-r1")
	require.Equal(t, "podgroup-volcano", source.GangOf(p).Source)
	require.Empty(t, source.OtherGangs(p))
	p.Labels[scheduling.LabelPodGroup] = "other"
	require.Contains(t, source.OtherGangs(p), "scheduling.k8s.io/group-name")
}

// BenchmarkOf: which gang a pod is of is asked at every turn.
func BenchmarkOf(b *testing.B) {
	for name, p := range map[string]*v1.Pod{
		"lws": lwsPod("a", "0", "0", "2"), "jobset": jobSetPod("workers", "0", "0"),
		"none": {
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "tier": "1"}, Annotations: map[string]string{"a": "b"}},
		},
		"podgroup": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{scheduling.LabelPodGroup: "a"}}},
		"native":   nativePod("p", "a"),
		"podgang":  grovePod("w"),
		"volcano":  {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"scheduling.k8s.io/group-name": "a"}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				source.GangOf(p)
			}
		})
	}
}

// TestUnreadable: an object that cannot be read is there all the same, and its gang says why.
func TestUnreadable(t *testing.T) {
	for _, o := range source.Owners {
		if o.Kind != "LeaderWorkerSet" {
			continue
		}
		out, err := o.ReadOwner(object(t,
			`{kind: LeaderWorkerSet, metadata: {namespace: default, name: a, uid: u}, spec: {leaderWorkerTemplate: {size: "4"}}}`))
		require.Error(t, err)
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-0", Labels: map[string]string{
			"leaderworkerset.sigs.k8s.io/name": "a", "leaderworkerset.sigs.k8s.io/group-index": "0",
			"leaderworkerset.sigs.k8s.io/template-revision-hash": "r",
		}, Annotations: map[string]string{"leaderworkerset.sigs.k8s.io/size": "4"}}}
		d := declared(t, out, p)
		require.Contains(t, d.Problem.Words, "LeaderWorkerSet default/a cannot be read: ")
		require.Equal(t, d.Problem.Words, d.Notes[0].Message, "a reader sees it")
	}
	for kind, cases := range map[string]map[string]string{
		"LeaderWorkerSet": {
			"{leaderWorkerTemplate: {size: four}}":        `spec.leaderWorkerTemplate.size: "four" is invalid; supported values: an integer ≥ 1`,
			"{leaderWorkerTemplate: {size: 0}}":           "spec.leaderWorkerTemplate.size: 0 is invalid; supported values: an integer ≥ 1",
			"{leaderWorkerTemplate: 7}":                   "spec.leaderWorkerTemplate: 7 is invalid; supported values: an object",
			"{startupPolicy: 7}":                          "spec.startupPolicy: 7 is invalid; supported values: a text; write \"7\" with quotes",
			"{leaderWorkerTemplate: {workerTemplate: 7}}": "spec.leaderWorkerTemplate.workerTemplate: 7 is invalid; supported values: an object",
			"{networkTopology: 7}":                        "spec.networkTopology: 7 is invalid; supported values: an object",
			"7":                                           "spec: 7 is invalid; supported values: an object",
			"{leaderWorkerTemplate: {size: 4294967298}}": "spec.leaderWorkerTemplate.size: 4294967298 is invalid; supported values: an integer " +
				"from 1 to 2147483647",
			"{leaderWorkerTemplate: {workerTemplate: {spec: 7}}}": "spec.leaderWorkerTemplate.workerTemplate.spec: 7 is invalid; supported " +
				"values: an object",
		},
		"JobSet": {
			"{replicatedJobs: 7}":           "spec.replicatedJobs: 7 is invalid; supported values: a list",
			"{replicatedJobs: [7]}":         "spec.replicatedJobs[0]: 7 is invalid; supported values: an object",
			"{replicatedJobs: [{name: 7}]}": "spec.replicatedJobs[0].name: 7 is invalid; supported values: a text; write \"7\" with quotes",
			"{replicatedJobs: [{name: a}, {name: b, replicas: two}]}": `spec.replicatedJobs[1].replicas: "two" is invalid; ` +
				`supported values: an integer ≥ 0`,
			"{replicatedJobs: [{name: a, replicas: -1}]}": "spec.replicatedJobs[0].replicas: -1 is invalid; supported values: an integer ≥ 0",
			"{replicatedJobs: [{name: a, dependsOn: b}]}": `spec.replicatedJobs[0].dependsOn: "b" is invalid; supported values: a list`,
			"{replicatedJobs: [{template: {spec: {parallelism: two}}}]}": `spec.replicatedJobs[0].template.spec.parallelism: "two" is invalid; ` +
				`supported values: an integer ≥ 0`,
			"{replicatedJobs: [{template: {spec: {completions: 1.5}}}]}": "spec.replicatedJobs[0].template.spec.completions: 1.5 is invalid; " +
				"supported values: an integer ≥ 0",
			"{startupPolicy: {startupPolicyOrder: 7}}": "spec.startupPolicy.startupPolicyOrder: 7 is invalid; supported values: a text; write \"7\" with quotes",
			"{startupPolicy: InOrder}":                 `spec.startupPolicy: "InOrder" is invalid; supported values: an object`,
			"{replicatedJobs: [{template: {metadata: {annotations: 7}}}]}": "spec.replicatedJobs[0].template.metadata.annotations: 7 is invalid; " +
				"supported values: an object",
		},
		"Job": {"{parallelism: two}": `spec.parallelism: "two" is invalid; supported values: an integer ≥ 0`},
	} {
		for spec, problem := range cases {
			o := source.Owners[slices.IndexFunc(source.Owners, func(o *source.Owner) bool { return o.Kind == kind })]
			out, err := o.ReadOwner(object(t, "{metadata: {namespace: default, name: a}, spec: "+spec+"}"))
			require.EqualError(t, err, problem)
			require.EqualError(t, out.Problem, kind+" default/a cannot be read: "+problem)
		}
	}
	for i := range source.All {
		s := &source.All[i]
		if s.Space != "podgroup-volcano" {
			continue
		}
		pg, more, err := s.ReadObject(object(t, `{kind: PodGroup, metadata: {namespace: default, name: a, uid: u}, spec: {minMember: "3"}}`))
		require.Error(t, err)
		require.Equal(t, "u", string(pg.UID))
		require.ErrorContains(t, more.Problem, "PodGroup default/a cannot be read: ")
	}
}

// TestSizesThatDiffer: a member of a LeaderWorkerSet that says another size than the one that counts is told.
func TestSizesThatDiffer(t *testing.T) {
	leader, worker := lwsPod("a", "0", "0", "2"), lwsPod("a", "0", "1", "3")
	g := source.Gang{Ref: source.GangOf(leader), Pods: map[string]*v1.Pod{"default/" + leader.Name: leader, "default/" + worker.Name: worker}}
	require.Equal(t, g.Ref, source.GangOf(worker))
	d, ok := source.Declare(g, source.Defaults{})
	require.True(t, ok)
	require.Equal(t, 2, d.Min)
	require.Empty(t, d.Contradictions(g, leader))
	require.Equal(t,
		[]string{
			`leaderworkerset.sigs.k8s.io/size: "3" has no effect: ` + d.DeclaringPod + ` says "2", which is used; write the same on all members`,
		}, d.Contradictions(g, worker))
}
