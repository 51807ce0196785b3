package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// Keys without effect are reported, since the user meant something by them.

// IneffectiveKeys returns messages on keys without effect: unknown annotations, keys of pods, and gang sizes, which the spec gives.
func (o *Owned) IneffectiveKeys() (unknown, ineffective []string) {
	unknown = scheduling.Unknown(o.Values, nil)
	for _, key := range memberKeys {
		if _, found := o.Values[key]; found && o.Key.Kind != jobs.Kind {
			ineffective = append(ineffective,
				fmt.Sprintf("%s has no effect on %s: how many pods start together is known from its spec, or from its PodGroup", key, o.Key))
		}
	}
	return unknown, append(ineffective, o.misplaced...)
}

// Keys of Kueue that Muster does not read.
const (
	labelKueuePodGroup      = "kueue.x-k8s.io/pod-group-name"
	annotationKueueTotal    = "kueue.x-k8s.io/pod-group-total-count"
	annotationKueueTogether = "kueue.x-k8s.io/podset-group-name"
)

var (
	// ignoredKeys have no effect on a gang by themselves.
	ignoredKeys = []string{AnnotationKueueSliceSize, annotationKueueTogether}
	// gangKeys are all annotations that describe a gang, and have no effect on a pod without one. Pods without a gang have a backfill policy
	// and a run time, too.
	gangKeys = slices.DeleteFunc(
		slices.Concat(allKeys, constraintKeys[1:], ignoredKeys, []string{annotationKueueTotal}),
		func(key string) bool {
			return key == scheduling.AnnotationBackfill || key == scheduling.AnnotationMaxRuntime
		},
	)
	// podLabels and podAnnotations have an effect on pods only.
	podLabels = []string{
		scheduling.LabelPodGroup, scheduling.LabelPodGroupX, scheduling.LabelGangName, scheduling.LabelMinAvailable, labelKueuePodGroup,
		scheduling.LabelQuotaName, scheduling.LabelDisablePreemptible, scheduling.LabelQuotaPreemptible,
	}
	podAnnotations = []string{
		scheduling.AnnotationGangName, workloads.VolcanoGroup, workloads.VolcanoGroupOther, scheduling.AnnotationTopologySelector,
		scheduling.AnnotationTopologyIndex,
	}
	// exclusiveKeys have an effect on the kind of object that has the same index in exclusiveKinds, and on its pods.
	exclusiveKeys  = []string{workloads.JobSetExclusive, lws.ExclusiveKeyAnnotationKey}
	exclusiveKinds = []string{workloads.JobSetKind.Kind, workloads.LeaderWorkerSetKind.Kind}
	// remedies are for keys that have no effect on pods either.
	remedies = map[string]string{
		annotationKueueTogether: fmt.Sprintf("use %s with scope %s on the object that owns both pod sets",
			scheduling.AnnotationTopologySpec, scheduling.ScopeGangGroup),
		labelKueuePodGroup:   "use label " + scheduling.LabelPodGroup + " of the pods",
		annotationKueueTotal: "use label " + scheduling.LabelPodGroup + " of the pods",
		exclusiveKeys[0]:     "use " + scheduling.AnnotationTopologySpec + "; only a " + exclusiveKinds[0] + " has the other key",
		exclusiveKeys[1]:     "use " + scheduling.AnnotationTopologySpec + "; only a " + exclusiveKinds[1] + " has the other key",
	}
)

// withoutEffect returns the message that keys have no effect at a place. remedy is for the keys without an entry in remedies.
func withoutEffect(keys []string, place, remedy string) string {
	var others, messages []string
	for _, key := range keys {
		if own := remedies[key]; own != "" {
			messages = append(messages, key+" has no effect"+place+"; "+own)
		} else {
			others = append(others, key)
		}
	}
	if len(others) > 0 {
		verb := " has"
		if len(others) > 1 {
			verb = " have"
		}
		messages = append([]string{strings.Join(others, ", ") + verb + " no effect" + place + "; " + remedy}, messages...)
	}
	return strings.Join(messages, "; ")
}

// Misplaced returns messages on keys in the metadata of an object that Muster does not read, such as a Deployment. Keys that its pod
// template has, too, are left out.
func Misplaced(u *unstructured.Unstructured) []string {
	return misplaced(u, ownTemplate, append(slices.Clip(gangKeys), scheduling.AnnotationBackfill, scheduling.AnnotationMaxRuntime)...)
}

const ownTemplate = "spec.template.metadata"

// misplaced returns messages on keys in an object's own metadata that have an effect only in the metadata of its pods. Keys that a template
// in its spec has, too, are left out. at is where they belong, and keys are such annotations beyond podAnnotations.
func misplaced(u *unstructured.Unstructured, at string, keys ...string) (messages []string) {
	for i, key := range exclusiveKeys {
		if u.GetKind() != exclusiveKinds[i] && metav1.GetControllerOf(u) == nil {
			keys = append(slices.Clip(keys), key)
		}
	}
	annotations, labels := u.GetAnnotations(), u.GetLabels()
	for i, keys := range [][]string{slices.Concat(keys, podAnnotations), podLabels} {
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
			_, annotated := annotationValue(annotations, key)
			_, labelled := labels[key]
			return !annotated && !labelled || inTemplate(u.Object["spec"], key)
		})
		if len(keys) > 0 {
			remedy := "write it in " + at + []string{".annotations", ".labels"}[i]
			messages = append(messages, withoutEffect(keys, " in a "+u.GetKind()+"'s own metadata", remedy))
		}
	}
	return messages
}

// inTemplate says whether an object below spec has an annotation or a label with this key: its pods have it, or their notes name it.
func inTemplate(spec any, key string) bool {
	below := func(child any) bool { return inTemplate(child, key) }
	switch spec := spec.(type) {
	case []any:
		return slices.ContainsFunc(spec, below)
	case map[string]any:
		annotation, _, _ := unstructured.NestedFieldNoCopy(spec, "metadata", "annotations", key)
		label, _, _ := unstructured.NestedFieldNoCopy(spec, "metadata", "labels", key)
		return annotation != nil || label != nil || slices.ContainsFunc(slices.Collect(maps.Values(spec)), below)
	}
	return false
}

// otherAnnotations and otherLabels are the keys of pods that users misspell and that scheduling.Unknown does not check.
var (
	otherAnnotations = slices.DeleteFunc(slices.Concat(gangKeys, podAnnotations, exclusiveKeys, []string{volcanoTask}), func(key string) bool {
		return strings.HasPrefix(key, scheduling.GangDomain) || key == scheduling.AnnotationRepair
	})
	otherLabels = []string{
		scheduling.LabelMinAvailable, scheduling.LabelDisablePreemptible, scheduling.LabelQuotaPreemptible, labelKueuePodGroup,
		workloads.LabelPodGang, workloads.LabelPodClique, volcanoTask,
	}
)

// UnknownKeys returns messages on unknown keys of a pod: the ones of scheduling.Unknown, and misspelt keys of other projects.
func UnknownKeys(pod *v1.Pod) []string {
	return slices.Concat(scheduling.Unknown(pod.Annotations, pod.Labels), scheduling.Misspelt("", pod.Annotations, otherAnnotations),
		scheduling.Misspelt("label ", pod.Labels, otherLabels))
}

// WrongForms returns a message for each key of a pod that is a label instead of an annotation, or an annotation instead of a label.
func WrongForms(pod *v1.Pod) (messages []string) {
	check := func(keys []string, form string, has map[string]string, right string, lacks map[string]string) {
		for _, key := range keys {
			_, found := has[key]
			if _, both := lacks[key]; found && !both && !strings.HasPrefix(key, scheduling.GangDomain) { // scheduling.Unknown names these
				messages = append(messages, fmt.Sprintf("%s %s has no effect; write it as %s", form, key, right))
			}
		}
	}
	check(podLabels, "annotation", pod.Annotations, "a label", pod.Labels)
	check(sharedKeys, "label", pod.Labels, "an annotation", pod.Annotations)
	check(constraintKeys, "label", pod.Labels, "an annotation", pod.Annotations)
	check(podAnnotations, "label", pod.Labels, "an annotation", pod.Annotations)
	return messages
}

// gangKeysIn returns the keys of annotations that describe a gang.
func gangKeysIn(annotations map[string]string) (keys []string) {
	if len(annotations) == 0 {
		return nil
	}
	for _, key := range gangKeys {
		if _, found := annotationValue(annotations, key); found {
			keys = append(keys, key)
		}
	}
	return keys
}

// KeysWithoutGang returns a message if a pod has keys of a gang but names none; else "".
func KeysWithoutGang(pod *v1.Pod) string {
	keys := gangKeysIn(pod.Annotations)
	for _, key := range exclusiveKeys {
		if _, found := pod.Annotations[key]; found {
			keys = append(keys, key)
		}
	}
	for _, label := range []string{labelKueuePodGroup, workloads.LabelPodClique, scheduling.LabelMinAvailable} {
		if pod.Labels[label] != "" {
			keys = append(keys, label)
		}
	}
	if len(keys) == 0 || !GangOf(pod).IsZero() {
		return ""
	}
	if pod.Labels[v1JobName] != "" {
		return withoutEffect(keys, ", because a Job's pods are no gang by label "+v1JobName+" alone",
			"add annotation "+scheduling.AnnotationMinAvailable+" to the pods")
	}
	return withoutEffect(keys, ", because the pod names no gang", fmt.Sprintf("add label %s, annotation %s, or the label %s of a Job's pods",
		scheduling.LabelPodGroup, scheduling.AnnotationGangName, v1JobName))
}

// KeysOfGangs returns a message if an object that owns pods has annotations of a gang, for the case that its pods form none; else "".
func KeysOfGangs(u *unstructured.Unstructured) string {
	keys := gangKeysIn(u.GetAnnotations())
	if len(keys) == 0 || u.GetKind() == jobs.Kind { // Ineffective reports a Job's
		return ""
	}
	return withoutEffect(keys, fmt.Sprintf(" on %s %s/%s, because its pods form no gang", u.GetKind(), u.GetNamespace(), u.GetName()),
		"name a PodGroup by label "+scheduling.LabelPodGroup+" of the pods")
}

// JobOf returns the Job of a pod: the Job may have annotations without effect, or declare the pod's run time.
func JobOf(pod *v1.Pod) (OwnerKey, bool) {
	name := pod.Labels[v1JobName]
	return OwnerKey{jobs.Kind, pod.Namespace, name}, name != ""
}

// Made returns whether o, which is the Job that JobOf names, made a pod: it is not another Job of the same name.
func (o *Owned) Made(pod *v1.Pod) bool { return o.Owns(gang.Ref{UID: pod.Labels[v1JobUID]}) }

// JobsOf returns the Jobs of the members of g; nil if g's source reads the gang's size from an owner (Source.Fill).
func JobsOf(g Gang) map[OwnerKey]bool {
	if s := sourceOf(g.Ref.Source); s != nil && s.Fill != nil {
		return nil
	}
	out := map[OwnerKey]bool{}
	for _, pods := range []map[string]*v1.Pod{g.Pods, g.Finished} {
		for _, pod := range pods {
			if key, ok := JobOf(pod); ok {
				out[key] = true
			}
		}
	}
	return out
}

// noteIgnoredKeys notes the keys of origins that have no effect.
func (d *Declaration) noteIgnoredKeys() {
	for _, s := range d.origins {
		if _, found := s.lookup(annotationKueueTogether); found {
			d.note(reasons.InvalidAnnotation,
				fmt.Sprintf("%s annotation %s has no effect; use %s with scope %s on the object that owns both pod sets",
					s.name, annotationKueueTogether, scheduling.AnnotationTopologySpec, scheduling.ScopeGangGroup))
		}
		_, sized := s.lookup(AnnotationKueueSliceSize)
		if _, sliced := s.lookup(AnnotationKueueSlice); sized && !sliced {
			d.note(reasons.InvalidAnnotation,
				fmt.Sprintf("%s annotation %s has no effect without %s; add that annotation", s.name, AnnotationKueueSliceSize, AnnotationKueueSlice))
		}
	}
}
