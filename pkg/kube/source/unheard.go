package source

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// What somebody writes where nobody reads it is named: it was meant.

// Unheard says which of the object's annotations nobody listens to: unknown ones in our domain,
// and those that say how many members a gang needs, where that is known already.
func (o *Owned) Unheard() (unknown, without []string) {
	unknown = scheduling.Unknown(o.Words, nil)
	for _, key := range itself {
		if _, says := o.Words[key]; says && o.Key.Kind != jobs.Kind {
			without = append(without, fmt.Sprintf("%s has no effect on %s: how many pods start together is known from its spec, or from its PodGroup", key, o.Key))
		}
	}
	return unknown, without
}

// Keys of Kueue that Muster does not read, and what says the same.
const (
	labelKueuePodGroup      = "kueue.x-k8s.io/pod-group-name"
	annotationKueueTotal    = "kueue.x-k8s.io/pod-group-total-count"
	annotationKueueTogether = "kueue.x-k8s.io/podset-group-name"
)

var (
	// unreadKeys have no effect on a gang by themselves.
	unreadKeys = []string{AnnotationKueueSliceSize, annotationKueueTogether}
	// gangKeys are all keys of annotations that say something of a gang.
	gangKeys = slices.Concat(every, ruleKeys[1:], unreadKeys, []string{annotationKueueTotal})
)

// meant are the keys of some annotations that say something of a gang.
func meant(annotations map[string]string) (keys []string) {
	if len(annotations) == 0 {
		return nil
	}
	for _, key := range gangKeys {
		if _, says := said(annotations, key); says {
			keys = append(keys, key)
		}
	}
	return keys
}

// Nameless says what a pod that names no gang says of one all the same: that has no effect.
func Nameless(pod *v1.Pod) string {
	keys := meant(pod.Annotations)
	for _, label := range []string{labelKueuePodGroup, workloads.LabelPodClique} {
		if pod.Labels[label] != "" {
			keys = append(keys, label)
		}
	}
	if len(keys) == 0 || !Of(pod).IsZero() {
		return ""
	}
	return fmt.Sprintf("%s: no effect, since the pod names no gang; supported values: with label %s, annotation %s, or the label %s of a Job's pods",
		strings.Join(keys, ", "), scheduling.LabelPodGroup, scheduling.AnnotationGangName, v1JobName)
}

// MayOwn names the Job of a pod that names no gang: the Job may say something that has no effect.
func MayOwn(pod *v1.Pod) (OwnerKey, bool) {
	name := pod.Labels[v1JobName]
	return OwnerKey{jobs.Kind, pod.Namespace, name}, name != ""
}

// JobsOf names the Jobs whose pods are members of a gang that says its size otherwise.
func JobsOf(g Gang) map[OwnerKey]bool {
	if s := of(g.Ref.Source); s != nil && s.Fill != nil {
		return nil
	}
	out := map[OwnerKey]bool{}
	for _, pods := range []map[string]*v1.Pod{g.Pods, g.Done} {
		for _, pod := range pods {
			if key, ok := MayOwn(pod); ok {
				out[key] = true
			}
		}
	}
	return out
}

// unread notes what the speakers say under keys that have no effect on a gang.
func (d *Declaration) unread() {
	for _, s := range d.speakers {
		if _, says := s.says(annotationKueueTogether); says {
			d.note(InvalidAnnotation, fmt.Sprintf("%s annotation %s has no effect; supported values: %s with scope %s on the object that owns both pod sets",
				s.who, annotationKueueTogether, scheduling.AnnotationTopologySpec, scheduling.ScopeGangGroup))
		}
		_, sized := s.says(AnnotationKueueSliceSize)
		if _, sliced := s.says(AnnotationKueueSlice); sized && !sliced {
			d.note(InvalidAnnotation, fmt.Sprintf("%s annotation %s has no effect without %s", s.who, AnnotationKueueSliceSize, AnnotationKueueSlice))
		}
	}
}
