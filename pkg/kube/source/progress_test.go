package source_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestProgress: which parts of a JobSet start together, by the status of the other parts.
func TestProgress(t *testing.T) {
	all := []string{"js.cache", "js.driver", "js.workers"}
	for name, c := range map[string]struct {
		status, attempt, of string
		want                []string
	}{
		"nothing is said":        {"", "0", "workers", all},
		"no member has finished": {"replicatedJobsStatus: [{name: driver, succeeded: 0}, {name: workers, succeeded: 1}]", "0", "workers", all},
		"the driver has":         {"replicatedJobsStatus: [{name: driver, succeeded: 1}]", "0", "workers", []string{"js.cache", "js.workers"}},
		"of two Jobs both have":  {"replicatedJobsStatus: [{name: workers, succeeded: 2}]", "0", "driver", []string{"js.cache", "js.driver"}},
		"all others have":        {"replicatedJobsStatus: [{name: driver, succeeded: 1}, {name: cache, succeeded: 1}]", "0", "workers", nil},
		"it has itself":          {"replicatedJobsStatus: [{name: workers, succeeded: 2}]", "0", "workers", nil},
		"in the attempt before": {
			"replicatedJobsStatus: [{name: driver, succeeded: 1}]", "1", "workers",
			[]string{"js.cache.restart-1", "js.driver.restart-1", "js.workers.restart-1"},
		},
		"in this attempt": {
			"restarts: 1, replicatedJobsStatus: [{name: driver, succeeded: 1}]", "1", "workers",
			[]string{"js.cache.restart-1", "js.workers.restart-1"},
		},
		"a pod of the one before":   {"restarts: 1, replicatedJobsStatus: [{name: driver, succeeded: 1}]", "0", "workers", all},
		"a part that is not there":  {"replicatedJobsStatus: [{name: other, succeeded: 1}]", "0", "workers", all},
		"a status that is no list":  {"replicatedJobsStatus: 7, restarts: many", "0", "workers", all},
		"a part that has no number": {"replicatedJobsStatus: [{name: driver, succeeded: all}, 7]", "0", "workers", all},
	} {
		t.Run(name, func(t *testing.T) {
			js := owned(t, object(t, "{kind: JobSet, metadata: {namespace: default, name: js}, status: {"+c.status+`}, spec: {replicatedJobs: [
				{name: driver}, {name: cache}, {name: workers, replicas: 2, template: {spec: {parallelism: 2}}}]}}`))
			p := jobSetPod(c.of, "0", "0")
			p.Labels["jobset.sigs.k8s.io/restart-attempt"] = c.attempt
			var got []string
			for _, ref := range declared(t, js, p).Group {
				got = append(got, ref.Name)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestTasks: each task of Volcano's PodGroup has its members before any starts; a gang that has
// begun does not wait for a task once more.
func TestTasks(t *testing.T) {
	for name, c := range map[string]struct {
		least string
		pods  map[string]string // their task, by name; names with r run, names with f have finished
		want  string
	}{
		"all are there": {"{m: 1, w: 2}", map[string]string{"a": "m", "b": "w", "c": "w"}, ""},
		"one task has none": {
			"{m: 1, w: 2}",
			map[string]string{"a": "w", "b": "w", "c": "w"},
			"problem: 0 of 1 members of task m exist",
		},
		"one task lacks one": {
			"{m: 1, w: 2}",
			map[string]string{"a": "w", "b": "m", "c": "m"},
			"problem: 1 of 2 members of task w exist",
		},
		"both lack some: by name":     {"{w: 2, m: 1}", map[string]string{"a": "x"}, "problem: 0 of 1 members of task m exist"},
		"no task is asked for":        {"{}", map[string]string{"a": "m"}, ""},
		"some run already":            {"{m: 1, w: 2}", map[string]string{"r": "w", "b": "w"}, ""},
		"some have finished":          {"{m: 1, w: 2}", map[string]string{"f": "m", "b": "w"}, ""},
		"more than is asked for":      {"{m: 1, w: 2}", map[string]string{"a": "m", "b": "w", "c": "w", "d": "w"}, ""},
		"more of one task, and alone": {"{w: 1}", map[string]string{"a": "w", "b": "w", "c": "w", "d": "w"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, "{kind: PodGroup, metadata: {namespace: ns, name: vj}, spec: {minMember: 3, minTaskMember: "+c.least+"}}")
			o := source.ObjectOf("podgroup-volcano")
			pg, err := o.Read(u)
			require.NoError(t, err)
			g := source.Gang{Object: pg, More: o.More(u), Pods: map[string]*v1.Pod{}, Finished: map[string]*v1.Pod{}}
			for name, task := range c.pods {
				p := pod(name, words{"volcano.sh/task-spec", task}, words{"scheduling.k8s.io/group-name", "vj"})
				if name == "b" { // its annotation says it as well
					p = pod(name, nil, words{"scheduling.k8s.io/group-name", "vj", "volcano.sh/task-spec", task})
				}
				g.Ref = source.GangOf(p)
				switch name {
				case "r":
					g.Pods[name] = on("n", p)
				case "f":
					g.Finished[name] = p
				default:
					g.Pods[name] = p
				}
			}
			d, ok := source.Declare(g, source.Defaults{})
			require.True(t, ok)
			require.Equal(t, c.want, drawn(d))
			require.Equal(t, c.least != "{}", d.DependsOnMembers, "it is asked again when members come and go")
			if d.Problem.Exists() {
				require.Equal(t, gang.Missing, d.Problem.By)
			}
		})
	}
}

// TestScaledJobs: min-available above the parallelism is refused before the Job has begun, and
// lowered afterwards.
func TestScaledJobs(t *testing.T) {
	least := func(name, n string) *v1.Pod {
		return pod(name, words{"batch.kubernetes.io/job-name", "j"}, words{scheduling.AnnotationMinAvailable, n})
	}
	job := owned(t, object(t,
		"{kind: Job, metadata: {namespace: ns, name: j, annotations: {"+scheduling.AnnotationMinAvailable+": '1'}}, spec: {parallelism: 2}}"))
	says := func(done bool, pods ...*v1.Pod) *source.Declaration {
		g := gangOf(pods...)
		if g.Owner = job; done {
			g.Finished = map[string]*v1.Pod{"ns/z": least("z", "4")}
		}
		d, ok := source.Declare(g, source.Defaults{})
		require.True(t, ok)
		return d
	}
	d := says(false, least("a", "4"))
	require.Contains(t, drawn(d), "problem: "+scheduling.AnnotationMinAvailable+": 4 is invalid; write at most 2")
	require.True(t, d.DependsOnMembers)
	for _, d := range []*source.Declaration{says(false, on("n", least("a", "4")), least("b", "4")), says(true, least("b", "4"))} {
		require.Equal(t, reasons.InvalidAnnotation, drawn(d))
		require.Equal(t, 2, d.Min)
		require.Contains(t, d.Notes[0].Message, "2 is used, because some pods run")
	}
	require.Equal(t, 2, says(false, least("a", "2")).Min, "the pods' own counts before the Job's")
	rule := pod("a", words{"batch.kubernetes.io/job-name", "j"}, words{scheduling.AnnotationTopologySpec, must})
	require.Equal(t, 1, says(false, rule).Min, "which counts where they say nothing")
}

// TestKueueIsApart: a rule of Kueue's is about one gang, also in a group, and no other rule is.
func TestKueueIsApart(t *testing.T) {
	for key, c := range map[string]struct {
		value string
		apart bool
	}{
		source.AnnotationKueueRequired:    {"network.topology.nvidia.com/spine", true},
		source.AnnotationKueuePreferred:   {"network.topology.nvidia.com/block", true},
		source.AnnotationVolcanoTier:      {"1", false},
		scheduling.AnnotationTopologySpec: {must, false},
	} {
		d, _ := source.Declare(source.Gang{Object: podGroup(2, words{key, c.value})}, source.Defaults{NetworkTopologyAware: true, Layers: topo12})
		require.Equal(t, c.apart, d.PerGang, key)
		for _, r := range d.Gather.Rules {
			require.Equal(t, c.apart, r.Scope == scheduling.ScopePodGroup, key)
		}
	}
}

// TestRulesThatDiffer: what is said under the key that counts, and is something else, is told to whichever object says it.
func TestRulesThatDiffer(t *testing.T) {
	tier := func(name, n string) *v1.Pod {
		return pod(name, words{scheduling.LabelPodGroup, "a"}, words{source.AnnotationVolcanoTier, n})
	}
	told := func(pg *sigs.PodGroup, of *v1.Pod, others ...*v1.Pod) []string {
		g := gangOf(append(others, of)...)
		g.Object = pg
		d, ok := source.Declare(g, source.Defaults{NetworkTopologyAware: true, Layers: topo12})
		require.True(t, ok)
		return d.Contradictions(g, of)
	}
	require.Empty(t, told(podGroup(2, nil), tier("b", "1"), tier("a", "1")))
	require.Equal(t,
		[]string{
			`volcano.sh/network-topology-highest-tier: "2" has no effect: ` +
				`pod ns/a annotation volcano.sh/network-topology-highest-tier is used; write the same on all members`,
		},
		told(podGroup(2, nil), tier("b", "2"), tier("a", "1")))
	require.Len(t, told(podGroup(2, words{source.AnnotationVolcanoTier, "1"}), tier("b", "2")), 1, "the PodGroup's own counts")
	require.Empty(t, told(podGroup(2, words{scheduling.AnnotationTopologySpec, must}), tier("b", "2"), tier("a", "1")),
		"another language counts, and that is said once")

	set := owned(t, object(t,
		"{kind: LeaderWorkerSet, metadata: {namespace: default, name: a, annotations: {"+scheduling.AnnotationTopologySpec+": '"+must+"'}}}"))
	leader := lwsPod("a", "0", "0", "1")
	maps.Copy(leader.Annotations, map[string]string{scheduling.AnnotationTopologySpec: prefer})
	g := gangOf(leader)
	g.Owner = set
	d, _ := source.Declare(g, source.Defaults{NetworkTopologyAware: true, Layers: topo12})
	require.Len(t, d.Contradictions(g, leader), 1)
	require.Contains(t, d.Contradictions(g, leader)[0], "has no effect: LeaderWorkerSet default/a says")
	require.Equal(t, "must SpineLayer", drawn(d), "the pod is told, and not the set")
}
