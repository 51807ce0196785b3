package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions are what is ours to write of the status of Kubernetes' own PodGroup.
type Conditions struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initially returns the conditions of a gang with one that says whether it was whole once, given
// those that are written and the one that says how far it is. What was whole stays so; of one that
// still waits to be tried nothing is said.
func Initially(old Conditions, condition string, is metav1.Condition, once bool, generation int64, now metav1.Time) Conditions {
	c := metav1.Condition{Type: condition, Status: is.Status, Reason: is.Reason, Message: is.Message, ObservedGeneration: generation, LastTransitionTime: now}
	switch {
	case meta.IsStatusConditionTrue(old.Conditions, condition):
		return old
	case once || is.Status == metav1.ConditionTrue:
		c.Status, c.Reason = metav1.ConditionTrue, ReasonScheduled
	case is.Reason == ReasonWaiting || is.Reason == ReasonReady || is.Reason == ReasonBinding:
		return old
	default:
		c.Reason = ReasonUnschedulable // of the reasons that the API knows; the message says whether it ever fits
	}
	out := Conditions{slices.Clone(old.Conditions)}
	meta.SetStatusCondition(&out.Conditions, c)
	return out
}
