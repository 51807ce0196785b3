package source

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// Keys without effect are reported, since the user meant something by them.

// IneffectiveKeys returns messages on annotations without effect: unknown keys, and gang sizes, which Muster reads from the spec.
func (o *Owned) IneffectiveKeys() (unknown, ineffective []string) {
	unknown = scheduling.Unknown(o.Values, nil)
	for _, key := range memberKeys {
		if _, found := o.Values[key]; found && o.Key.Kind != jobs.Kind {
			ineffective = append(ineffective,
				fmt.Sprintf("%s has no effect on %s: how many pods start together is known from its spec, or from its PodGroup", key, o.Key))
		}
	}
	return unknown, ineffective
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
)

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
	for _, label := range []string{labelKueuePodGroup, workloads.LabelPodClique} {
		if pod.Labels[label] != "" {
			keys = append(keys, label)
		}
	}
	if len(keys) == 0 || !GangOf(pod).IsZero() {
		return ""
	}
	return fmt.Sprintf("%s has no effect, because the pod names no gang; add "+
		"label %s, annotation %s, or the label %s of a Job's pods",
		strings.Join(keys, ", "), scheduling.LabelPodGroup, scheduling.AnnotationGangName, v1JobName)
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
