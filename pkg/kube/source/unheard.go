package source

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
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

// Nameless says what a pod that names no gang says of one all the same: that has no effect.
func Nameless(pod *v1.Pod) string {
	var keys []string
	for _, key := range slices.Concat([]string{scheduling.AnnotationTopologySpec}, itself) {
		if _, says := said(pod.Annotations, key); says {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || !Of(pod).IsZero() {
		return ""
	}
	return fmt.Sprintf("%s: no effect, since the pod names no gang; legal: with label %s, annotation %s, or the label %s of a Job's pods",
		strings.Join(keys, ", "), scheduling.LabelPodGroup, scheduling.AnnotationGangName, v1JobName)
}
