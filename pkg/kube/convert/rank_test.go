package convert_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// by sets the owner of a pod.
func by(kind, name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
}

// label and annotation give a pod keys and values, one after the other.
func label(words ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for i := 0; i < len(words); i += 2 {
			p.Labels[words[i]] = words[i+1]
		}
	}
}

func annotation(words ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for i := 0; i < len(words); i += 2 {
			p.Annotations[words[i]] = words[i+1]
		}
	}
}

// TestRank: which of the keys that number a pod is its rank, and in which row.
func TestRank(t *testing.T) {
	const (
		worker     = scheduling.LabelWorkerIndex
		completion = scheduling.LabelCompletionIndex
		index      = scheduling.LabelPodIndex
		podName    = scheduling.LabelPodName
		global     = scheduling.LabelGlobalIndex
		integer    = " is invalid; supported values: an integer ≥ 0"
	)
	ours := annotation(scheduling.AnnotationTopologyIndex, "9")
	lws := label(worker, "1", scheduling.LabelLeaderWorkerSet, "vllm", scheduling.LabelGroupIndex, "2")
	jobSet := label(completion, "3", scheduling.LabelJobSet, "train", global, "4")
	of := func(change ...func(*v1.Pod)) []func(*v1.Pod) { return change }
	for name, c := range map[string]struct {
		pod  []func(*v1.Pod)
		row  string
		rank int
		bad  string
	}{
		"no rank":                      {nil, "", gang.NoRank, ""},
		"our annotation":               {of(ours), "", 9, ""},
		"our annotation before others": {of(ours, lws, jobSet, label(index, "5"), by("Job", "j")), "", 9, ""},
		"a worker":                     {of(lws, by("StatefulSet", "vllm-2")), "vllm-2", 1, ""},
		"a leader, which has an index": {of(lws, label(worker, "0", index, "2"), by("StatefulSet", "vllm")), "vllm-2", 0, ""},
		"a worker before a completion": {of(lws, label(completion, "7")), "vllm-2", 1, ""},
		"of an Indexed Job":            {of(label(completion, "7"), by("Job", "j")), "j", 7, ""},
		"by the Job's annotation":      {of(annotation(completion, "7"), by("Job", "j")), "j", 7, ""},
		"the Job's label counts":       {of(label(completion, "7"), annotation(completion, "8"), by("Job", "j")), "j", 7, ""},
		"of a JobSet":                  {of(jobSet, by("Job", "train-workers-1")), "train-4", 3, ""},
		"of an older JobSet": {
			of(label(completion, "3", scheduling.LabelJobSet, "train"), by("Job", "train-workers-1")), "train-workers-1", 3, "",
		},
		"a completion before an index": {of(label(completion, "7", index, "8"), by("Job", "j")), "j", 7, ""},
		"of a StatefulSet":             {of(label(index, "10", podName, "web-11"), by("StatefulSet", "web")), "web", 10, ""},
		"of an older StatefulSet":      {of(label(podName, "web-11"), by("StatefulSet", "web")), "web", 11, ""},
		"of no owner":                  {of(label(index, "0")), "", 0, ""},
		"of Kubeflow": {
			of(label("training.kubeflow.org/replica-type", "worker", "training.kubeflow.org/replica-index", "2"), by("PyTorchJob", "p")), "p worker", 2, "",
		},
		"of Volcano": {
			of(annotation("volcano.sh/task-spec", "ps"), annotation("volcano.sh/task-index", "2"), by("Job", "v")), "v ps", 2, "",
		},
		"of Grove": {of(label("grove.io/podclique", "g-a", "grove.io/podclique-pod-index", "2"), by("PodClique", "g-a")), "g-a g-a", 2, ""},
		"a bad rank of ours": {
			of(annotation(scheduling.AnnotationTopologyIndex, "x"), jobSet), "", gang.NoRank, scheduling.AnnotationTopologyIndex + `: "x"` + integer,
		},
		"a bad worker":                {of(label(worker, "-1", index, "2")), "", gang.NoRank, worker + `: "-1"` + integer},
		"a bad completion":            {of(label(completion, "")), "", gang.NoRank, completion + `: ""` + integer},
		"a bad completion, annotated": {of(annotation(completion, "1.5")), "", gang.NoRank, completion + `: "1.5"` + integer},
		"a bad index":                 {of(label(index, "99999999999", podName, "web-1")), "", gang.NoRank, index + `: "99999999999"` + integer},
		"a pod name without an ordinal": {
			of(label(podName, "7")), "", gang.NoRank,
			podName + `: "7" is invalid; supported values: a name that ends in a hyphen and an integer ≥ 0`,
		},
		"a pod name with a bad ordinal": {of(label(podName, "web-x")), "", gang.NoRank, podName + `: "web-x" is invalid`},
		"a bad number of a Job": {
			of(jobSet, label(global, "x"), by("Job", "train-workers-1")), "train-workers-1", 3, global + `: "x"` + integer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := convert.Member(pod(c.pod...), gang.Ref{})
			require.Equal(t, c.row, m.Row)
			require.Equal(t, c.rank, m.Rank)
			if c.bad == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.bad)
			}
		})
	}
}

// TestRanksCountInTheOrderOfTheReference: of any two keys that number pods the first counts.
func TestRanksCountInTheOrderOfTheReference(t *testing.T) {
	i := slices.IndexFunc(scheduling.Keys(), func(c scheduling.Chapter) bool { return c.Keys[0].Name == scheduling.AnnotationTopologyIndex })
	keys := scheduling.Keys()[i].Keys
	say := func(k scheduling.Key, rank string) func(*v1.Pod) {
		if k.Name == scheduling.LabelPodName {
			rank = "p-" + rank
		}
		if k.Label {
			return label(k.Name, rank)
		}
		return annotation(k.Name, rank)
	}
	for i, first := range keys {
		for _, second := range keys[i+1:] {
			m, err := convert.Member(pod(say(first, "1"), say(second, "2")), gang.Ref{})
			require.NoError(t, err)
			require.Equal(t, 1, m.Rank, "%s, then %s", first.Name, second.Name)
		}
	}
}

// TestRanksOfOneGang: in which order the pods of one gang come that several hands have made.
func TestRanksOfOneGang(t *testing.T) {
	jobSet := func(name, job, global, index string) *v1.Pod {
		return pod(by("Job", job), label(scheduling.LabelJobSet, "train", scheduling.LabelGlobalIndex, global, scheduling.LabelCompletionIndex,
			index),
			func(p *v1.Pod) { p.Name = name })
	}
	named := func(name string, change ...func(*v1.Pod)) *v1.Pod {
		return pod(append(change, func(p *v1.Pod) { p.Name = name })...)
	}
	for name, inOrder := range map[string][]*v1.Pod{
		"a JobSet: Job by Job, as it numbers them": {
			jobSet("z-0", "train-zero-0", "0", "0"), jobSet("b-0-0", "train-b-0", "2", "0"), jobSet("b-0-1", "train-b-0", "2", "1"),
			jobSet("b-0-10", "train-b-0", "2", "10"), jobSet("a-0-0", "train-a-0", "10", "0"),
		},
		"StatefulSets: one after the other": {
			named("q", by("StatefulSet", "ps"),
				label(scheduling.LabelPodIndex, "0")), named("p", by("StatefulSet", "ps"), label(scheduling.LabelPodIndex, "1")),
			named("c", by("StatefulSet", "worker"),
				label(scheduling.LabelPodIndex, "0")), named("b", by("StatefulSet", "worker"), label(scheduling.LabelPodIndex, "2")),
		},
		"ranks of the gang, then others', then names": {
			named("d", annotation(scheduling.AnnotationTopologyIndex, "8")), named("c", by("Job", "a"), label(scheduling.LabelCompletionIndex, "3")),
			named("b-2", by("Job", "a")), named("b-10", by("Job", "a")),
		},
		"names where two are equal": {
			named("w-2", by("Job", "j"), label(scheduling.LabelCompletionIndex, "0")), named("w-10", by("Job", "j"),
				label(scheduling.LabelCompletionIndex, "0")),
			named("w-1", by("Job", "j"), label(scheduling.LabelCompletionIndex, "1")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want, got []string
			var members []gang.Member
			for _, p := range inOrder {
				m, err := convert.Member(p, gang.Ref{})
				require.NoError(t, err)
				want, members = append(want, m.Pod), append(members, m)
			}
			slices.Reverse(members)
			slices.SortStableFunc(members, func(x, y gang.Member) int {
				if c := x.CompareRanks(&y, topology.CompareNames); c != 0 {
					return c
				}
				return topology.CompareNames(x.Pod, y.Pod)
			})
			for _, m := range members {
				got = append(got, m.Pod)
			}
			require.Equal(t, want, got)
		})
	}
}

// TestRanksCostNothing: a member without a rank costs one allocation, its name. So does a member of a StatefulSet.
func TestRanksCostNothing(t *testing.T) {
	for name, p := range map[string]*v1.Pod{
		"no keys":       pod(by("ReplicaSet", "r")),
		"a StatefulSet": pod(by("StatefulSet", "s"), label(scheduling.LabelPodIndex, "3")),
	} {
		const itsName = 1
		require.EqualValues(t, itsName, testing.AllocsPerRun(100, func() { _, _ = convert.Member(p, gang.Ref{}) }), name)
	}
}

// BenchmarkMember reads a pod without a rank, and pods with a rank from the first and the last supported field.
func BenchmarkMember(b *testing.B) {
	for name, p := range map[string]*v1.Pod{
		"plain":  pod(by("ReplicaSet", "r")),
		"ranked": pod(annotation(scheduling.AnnotationTopologyIndex, "3")),
		"last":   pod(by("StatefulSet", "s"), label(scheduling.LabelPodName, "s-3")),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = convert.Member(p, gang.Ref{})
			}
		})
	}
}
