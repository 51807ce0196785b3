package podgang

import (
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// read decodes the spec of an object into into. For an invalid field it returns an *Error that names the object.
func read(u *unstructured.Unstructured, into any) error {
	if err := workloads.Read(u, "spec", into); err != nil {
		return &Error{reasons.InvalidGang, fmt.Sprintf("%s %s/%s: %s", u.GetKind(), u.GetNamespace(), u.GetName(), err)}
	}
	return nil
}

// invalidField returns an error about an object's field.
func invalidField(u *unstructured.Unstructured, format string, args ...any) error {
	return &Error{reasons.InvalidGang, fmt.Sprintf("%s %s/%s: ", u.GetKind(), u.GetNamespace(), u.GetName()) + fmt.Sprintf(format, args...)}
}

// MaxGangs limits the gangs, or groups of them, of one object: the user may write any number, and all of them are in memory at once.
const MaxGangs = 10_000

// checkGangLimit returns an error if an object would have more than MaxGangs.
func checkGangLimit(u *unstructured.Unstructured, field string, n int64) error {
	if n <= MaxGangs {
		return nil
	}
	return invalidField(u, "%s would become more than %d gangs; use at most %d", field, MaxGangs, MaxGangs)
}

// limitGangs returns n, at least 0 and at most MaxGangs+1, so that products do not overflow.
func limitGangs(n int32) int64 { return min(int64(max(0, n)), MaxGangs+1) }

// OwnerOf returns an object as the owner of the objects written for it.
func OwnerOf(u *unstructured.Unstructured) Owner {
	return Owner{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID()}
}

// newInfo returns an empty gang of an object.
func newInfo(u *unstructured.Unstructured, kind Kind, name string) *PodGangInfo {
	return &PodGangInfo{Namespace: u.GetNamespace(), Name: name, Kind: kind, Owner: OwnerOf(u), Annotations: u.GetAnnotations()}
}

// note adds a note for the user.
func (i *PodGangInfo) note(reason, format string, args ...any) {
	i.Notes = append(i.Notes, Note{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// group returns the group with that name; nil if there is none.
func (i *PodGangInfo) group(name string) *PodGroupInfo {
	for g := range i.PodGroups {
		if i.PodGroups[g].Name == name {
			return &i.PodGroups[g]
		}
	}
	return nil
}

// multiply returns jobs times pods, limited to the largest int32.
func multiply(jobs, pods int32) int32 {
	return int32(min(int64(max(0, jobs))*int64(max(0, pods)), math.MaxInt32))
}

// isTerminating returns whether a pod is being deleted. Such a pod does not count.
func isTerminating(pod metav1.Object) bool { return pod.GetDeletionTimestamp() != nil }
