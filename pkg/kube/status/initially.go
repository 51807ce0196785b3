package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// Conditions are the fields that Muster writes in the status of Kubernetes' own PodGroup.
type Conditions struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InitialConditions returns old with a condition of type condition: True once the gang has reached its minimum. complete says that it
// did, progress is the gang's Scheduled condition. A True condition never changes. For a gang that was not tried yet it returns old.
func InitialConditions(
	old Conditions, condition string, progress metav1.Condition, complete bool, generation int64, now metav1.Time,
) Conditions {
	c := metav1.Condition{
		Type: condition, Status: progress.Status, Reason: progress.Reason, Message: progress.Message,
		ObservedGeneration: generation, LastTransitionTime: now,
	}
	switch {
	case meta.IsStatusConditionTrue(old.Conditions, condition):
		return old
	case complete || progress.Status == metav1.ConditionTrue:
		c.Status, c.Reason = metav1.ConditionTrue, reasons.Scheduled
	case progress.Reason == reasons.Waiting || progress.Reason == reasons.Ready || progress.Reason == reasons.Binding:
		return old
	default:
		c.Reason = reasons.Unschedulable // the API knows only this reason; the message says whether the gang ever fits
	}
	out := Conditions{slices.Clone(old.Conditions)}
	meta.SetStatusCondition(&out.Conditions, c)
	return out
}
