package convert

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// numbering is a label or annotation that gives a pod a rank.
type numbering struct {
	key        string
	annotation bool // key is an annotation; else a label
	parse      func(key, value string) (int, error)
	// row returns the name of the set of pods that are numbered together. A gang may have several Jobs, each with a pod 0. nil: the
	// whole gang is numbered together.
	row func(*v1.Pod) (string, error)
}

// numberings are sorted by precedence; the first key of a pod is its rank, even if the value is invalid.
//
//	key                                                    row
//	gang.scheduling.koordinator.sh/network-topology-index  none: ranks of the gang, first of all
//	leaderworkerset.sigs.k8s.io/worker-index               the group of the LeaderWorkerSet
//	batch.kubernetes.io/job-completion-index, the label    the Job; Jobs of a JobSet by its global index
//	batch.kubernetes.io/job-completion-index, annotation   the same
//	apps.kubernetes.io/pod-index                           the StatefulSet
//	statefulset.kubernetes.io/pod-name, its end            the same
//	training.kubeflow.org/replica-index                    the controller and the role (roleKeys): each role has a pod 0
//	volcano.sh/task-index, label or annotation             the same
//	grove.io/podclique-pod-index                           the same
//
// The pods of a LeaderWorkerSet belong to StatefulSets, too, but with less useful ordinals: all leaders are in one.
var numberings = []numbering{
	{scheduling.AnnotationTopologyIndex, true, scheduling.ParseIndex, nil},
	{scheduling.LabelWorkerIndex, false, scheduling.ParseIndex, groupRow},
	{scheduling.LabelCompletionIndex, false, scheduling.ParseIndex, jobRow},
	{scheduling.AnnotationCompletionIndex, true, scheduling.ParseIndex, jobRow},
	{scheduling.LabelPodIndex, false, scheduling.ParseIndex, ownerRow},
	{scheduling.LabelPodName, false, scheduling.ParseOrdinal, ownerRow},
	{"training.kubeflow.org/replica-index", false, scheduling.ParseIndex, roleRow},
	{"volcano.sh/task-index", false, scheduling.ParseIndex, roleRow},
	{"volcano.sh/task-index", true, scheduling.ParseIndex, roleRow},
	{"grove.io/podclique-pod-index", false, scheduling.ParseIndex, roleRow},
}

// roleKeys are the labels or annotations that name a pod's role in its controller, if the pods of each role are numbered from 0.
var roleKeys = []string{"training.kubeflow.org/replica-type", "volcano.sh/task-spec", workloads.LabelPodClique}

// roleRow returns the pod's controller and its first role as its row.
func roleRow(pod *v1.Pod) (string, error) {
	row, err := ownerRow(pod)
	for _, key := range roleKeys {
		if role := cmp.Or(pod.Labels[key], pod.Annotations[key]); role != "" {
			return row + " " + role, err
		}
	}
	return row, err
}

// isReplicaIndex says whether controllers number replicas in a label. No constraint that members share can depend on it.
func isReplicaIndex(label string) bool {
	return slices.ContainsFunc(numberings, func(n numbering) bool { return n.key == label })
}

// rank returns a pod's rank index and its row: the pods that are numbered together. Without a valid rank, index is gang.NoRank. If only
// the row is invalid, it returns the owner's row and an error.
func rank(pod *v1.Pod) (row string, index int, err error) {
	for i := range numberings {
		n := &numberings[i]
		values := pod.Labels
		if n.annotation {
			values = pod.Annotations
		}
		value, ok := values[n.key]
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

// ownerRow returns the name of the pod's controller as its row; "" without a controller.
func ownerRow(pod *v1.Pod) (string, error) {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Name, nil
	}
	return "", nil
}

// groupRow returns the pod's group of a LeaderWorkerSet as its row: the leader has another controller than the workers.
func groupRow(pod *v1.Pod) (string, error) {
	return numberedRow(pod, scheduling.LabelLeaderWorkerSet, scheduling.LabelGroupIndex)
}

// jobRow returns the pod's Job as its row. A JobSet numbers its Jobs; without that number, the row is the Job's name.
func jobRow(pod *v1.Pod) (string, error) {
	return numberedRow(pod, scheduling.LabelJobSet, scheduling.LabelGlobalIndex)
}

// numberedRow returns "SET-NUMBER" from the labels with these keys, or the owner's row without a number.
func numberedRow(pod *v1.Pod, set, number string) (string, error) {
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

// roles are labels in which controllers name the leader of a gang, and their values for it.
var roles = map[string][]string{
	"spark-role":                            {"driver"},
	"ray.io/node-type":                      {"head"},
	"training.kubeflow.org/job-role":        {"master", "launcher"},
	"training.kubeflow.org/replica-type":    {"master", "chief", "launcher"},
	"mpi-job-role":                          {"launcher"},
	"volcano.sh/task-spec":                  {"master", "launcher", "driver", "head"},
	"jobset.sigs.k8s.io/replicatedjob-name": {"launcher", "driver", "master", "leader"},
}

// StartsOthers says whether a pod starts or coordinates the other members: a launcher, driver or head, or the member with rank 0.
func StartsOthers(pod *v1.Pod) bool {
	for label, values := range roles {
		if slices.Contains(values, strings.ToLower(pod.Labels[label])) {
			return true
		}
	}
	_, index, err := rank(pod)
	return err == nil && index == 0
}
