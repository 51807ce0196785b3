package podgang

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// PodKey is the gang and group of a pod, by the builders' names.
type PodKey struct {
	Kind        Kind
	Gang, Group string
}

// GroupName returns the name of the group's object.
func (k PodKey) GroupName() string { return GroupName(k.Gang, k.Group) }

// KeyOf returns the gang and group of a pod from the labels and annotations that its controller sets. ok is false for pods without a gang;
// incomplete labels are an error. The gang of a JobSet's pod also depends on the JobSet: see KeyAmong.
func KeyOf(pod metav1.Object) (key PodKey, ok bool, err error) {
	labels, annotations := pod.GetLabels(), pod.GetAnnotations()
	gang, clique := labels[workloads.LabelPodGang], labels[workloads.LabelPodClique]
	switch {
	case gang != "" && clique != "":
		return validKey(PodKey{PodGang, gang, clique}, labels, "label", workloads.LabelPodGang, workloads.LabelPodClique)
	case gang != "":
		return PodKey{}, false, missingLabel(workloads.LabelPodClique)
	case clique != "":
		return PodKey{}, false, missingLabel(workloads.LabelPodGang)
	}
	if name := workloads.VolcanoGroupOf(annotations); name != "" && labels[lws.SetNameLabelKey] == "" {
		return validKey(PodKey{VolcanoPodGroup, name, name}, annotations, "annotation", workloads.VolcanoGroup, workloads.VolcanoGroupOther)
	}
	if labels[lws.SetNameLabelKey] == "" {
		return PodKey{}, false, nil
	}
	g, ok := lwsGroupOf(pod)
	if !ok {
		return PodKey{}, false, missingLabel(lws.GroupIndexLabelKey + ", " + lws.RevisionKey)
	}
	name := g.name(labels[lws.SetNameLabelKey])
	return validKey(PodKey{LeaderWorkerSet, name, name}, labels, "label", lws.SetNameLabelKey, lws.RevisionKey)
}

// validKey returns key, or an error if a value under names is not a valid name of an object. Users may write any label, and the API server
// would reject a pod that refers to an invalid name. values are the pod's labels or annotations; kind says which.
func validKey(key PodKey, values map[string]string, kind string, names ...string) (PodKey, bool, error) {
	for _, name := range names {
		if value := values[name]; value != "" {
			if problems := validation.IsDNS1123Subdomain(value); len(problems) > 0 {
				return PodKey{}, false, fmt.Errorf("%s %s: %q is invalid; supported values: %s", kind, name, value, problems[0])
			}
		}
	}
	return key, true, nil
}

// KeyAmong returns the gang and group of a pod, found among infos, the gangs built from its object. ok is false if there is none.
func KeyAmong(infos []*PodGangInfo, pod metav1.Object) (key PodKey, ok bool) {
	labels := pod.GetLabels()
	for _, info := range infos {
		if isFormerJobSet(info, labels) {
			continue
		}
		for _, g := range info.PodGroups {
			if len(g.Selector) > 0 && hasLabels(labels, g.Selector) {
				return PodKey{info.Kind, info.Name, g.Name}, true
			}
		}
	}
	return PodKey{}, false
}

// isFormerJobSet returns whether a pod belongs to a deleted JobSet of the same name.
func isFormerJobSet(info *PodGangInfo, labels map[string]string) bool {
	uid := labels[workloads.JobSetUID]
	return info.Kind == JobSet && uid != "" && uid != string(info.Owner.UID)
}

// hasLabels returns whether labels contain all of selector.
func hasLabels(labels, selector map[string]string) bool {
	for key, value := range selector {
		if label, ok := labels[key]; !ok || label != value {
			return false
		}
	}
	return true
}

func missingLabel(label string) error {
	return fmt.Errorf("the gang's scheduler requires pod label %q", label)
}
