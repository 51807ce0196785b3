package podgang

import (
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// read reads the spec of an object. A field that is invalid is an *Error, which names the object.
func read(u *unstructured.Unstructured, into any) error {
	if err := workloads.Read(u, "spec", into); err != nil {
		return &Error{ReasonInvalid, fmt.Sprintf("%s %s/%s: %s", u.GetKind(), u.GetNamespace(), u.GetName(), err)}
	}
	return nil
}

// illegal is an error of an object's field.
func illegal(u *unstructured.Unstructured, format string, args ...any) error {
	return &Error{ReasonInvalid, fmt.Sprintf("%s %s/%s: ", u.GetKind(), u.GetNamespace(), u.GetName()) + fmt.Sprintf(format, args...)}
}

// MaxGangs is how many gangs, or groups of them, one object may make: anybody may write a number, and all of them are in
// memory at a time.
const MaxGangs = 10_000

// tooMany is an error where an object would make more.
func tooMany(u *unstructured.Unstructured, field string, n int64) error {
	if n <= MaxGangs {
		return nil
	}
	return illegal(u, "%s: more than %d gangs would be made of it; supported values: at most %d", field, MaxGangs, MaxGangs)
}

// few is a number, or one that is too many: so products of several stay numbers.
func few(n int32) int64 { return min(int64(max(0, n)), MaxGangs+1) }

// OwnerOf is an object as the owner of what is written for it.
func OwnerOf(u *unstructured.Unstructured) Owner {
	return Owner{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID()}
}

// newInfo is a gang of an object, which owns what is written for it.
func newInfo(u *unstructured.Unstructured, kind Kind, name string) *PodGangInfo {
	return &PodGangInfo{Namespace: u.GetNamespace(), Name: name, Kind: kind, Owner: OwnerOf(u), Annotations: u.GetAnnotations()}
}

// note adds what people should know.
func (i *PodGangInfo) note(reason, format string, args ...any) {
	i.Notes = append(i.Notes, Note{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// group is the group of a name; nil if there is none.
func (i *PodGangInfo) group(name string) *PodGroupInfo {
	for g := range i.PodGroups {
		if i.PodGroups[g].Name == name {
			return &i.PodGroups[g]
		}
	}
	return nil
}

// times is how many pods so many Jobs of so many make, as far as a number can say it.
func times(jobs, pods int32) int32 {
	return int32(min(int64(max(0, jobs))*int64(max(0, pods)), math.MaxInt32))
}

// leaving says whether a pod does not count any more.
func leaving(pod metav1.Object) bool { return pod.GetDeletionTimestamp() != nil }
