package convert

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// numbering is one way in which a pod says its rank.
type numbering struct {
	key        string
	annotation bool // or else a label
	parse      func(key, value string) (int, error)
	// row names those whom the same hand numbers: a gang may be several Jobs, each of which
	// has a pod 0, and neighbours are those of one Job. nil is the gang itself.
	row func(*v1.Pod) (string, error)
}

// numberings are asked in this order; the first that a pod has is its rank, also if its
// value is invalid: somebody who writes one means it.
//
//	key                                                    row
//	gang.scheduling.koordinator.sh/network-topology-index  none: ranks of the gang, before all others
//	leaderworkerset.sigs.k8s.io/worker-index               the group of the LeaderWorkerSet
//	batch.kubernetes.io/job-completion-index, the label    the Job; those of a JobSet by its global index
//	batch.kubernetes.io/job-completion-index, annotation   the same
//	apps.kubernetes.io/pod-index                           the StatefulSet
//	statefulset.kubernetes.io/pod-name, its end            the same
//
// The pods of a LeaderWorkerSet are of StatefulSets, too, whose ordinals say less: all
// leaders are of one.
var numberings = []numbering{
	{scheduling.AnnotationTopologyIndex, true, scheduling.ParseIndex, nil},
	{scheduling.LabelWorkerIndex, false, scheduling.ParseIndex, groupRow},
	{scheduling.LabelCompletionIndex, false, scheduling.ParseIndex, jobRow},
	{scheduling.AnnotationCompletionIndex, true, scheduling.ParseIndex, jobRow},
	{scheduling.LabelPodIndex, false, scheduling.ParseIndex, ownerRow},
	{scheduling.LabelPodName, false, scheduling.ParseOrdinal, ownerRow},
}

// rank returns a pod's rank and the row that it is a rank of. A pod that nobody numbers, or
// whose rank is invalid, has none; where only the row is invalid, it is that of the owner.
func rank(pod *v1.Pod) (row string, index int, err error) {
	for i := range numberings {
		n := &numberings[i]
		says := pod.Labels
		if n.annotation {
			says = pod.Annotations
		}
		value, ok := says[n.key]
		if !ok {
			continue
		}
		if index, err = n.parse(n.key, value); err != nil {
			return "", gang.NoRank, err
		}
		if n.row != nil {
			row, err = n.row(pod)
		}
		return row, index, err
	}
	return "", gang.NoRank, nil
}

// ownerRow is named after who makes the pod.
func ownerRow(pod *v1.Pod) (string, error) {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Name, nil
	}
	return "", nil
}

// groupRow is a group of a LeaderWorkerSet: its leader is another StatefulSet's.
func groupRow(pod *v1.Pod) (string, error) {
	return numbered(pod, scheduling.LabelLeaderWorkerSet, scheduling.LabelGroupIndex)
}

// jobRow is a Job. A JobSet numbers its Jobs; without the number their names are in the
// order of the ReplicatedJobs' names.
func jobRow(pod *v1.Pod) (string, error) {
	return numbered(pod, scheduling.LabelJobSet, scheduling.LabelGlobalIndex)
}

// numbered is the row that labels name by a set and a number in it.
func numbered(pod *v1.Pod, set, number string) (string, error) {
	value, ok := pod.Labels[number]
	if !ok {
		return ownerRow(pod)
	}
	if _, err := scheduling.ParseIndex(number, value); err != nil {
		row, _ := ownerRow(pod)
		return row, err
	}
	return pod.Labels[set] + "-" + value, nil
}

// roles are labels with which controllers name the pod that starts or coordinates the others of its gang, and its values.
var roles = map[string][]string{
	"spark-role":                            {"driver"},
	"ray.io/node-type":                      {"head"},
	"training.kubeflow.org/job-role":        {"master", "launcher"},
	"training.kubeflow.org/replica-type":    {"master", "chief", "launcher"},
	"mpi-job-role":                          {"launcher"},
	"volcano.sh/task-spec":                  {"master", "launcher", "driver", "head"},
	"jobset.sigs.k8s.io/replicatedjob-name": {"launcher", "driver", "master", "leader"},
}

// Leads returns whether a pod starts or coordinates the others of its gang: it is a launcher, driver or head, or has rank 0. Without
// it the others do no work.
func Leads(pod *v1.Pod) bool {
	for label, values := range roles {
		if slices.Contains(values, strings.ToLower(pod.Labels[label])) {
			return true
		}
	}
	_, index, err := rank(pod)
	return err == nil && index == 0
}
