package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroupSpec says when a gang may start. All of it is optional: a PodGroup may also exist only to carry annotations.
//
// +kubebuilder:object:generate=true
type PodGroupSpec struct {
	// minMember is how many members start together; with fewer, none starts. Default: 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinMember int32 `json:"minMember,omitempty"`

	// minResources is the request of all members together, also of members that are created later. The gang starts
	// where this amount is free. Until the other members exist, Muster holds their capacity, at most for the time to
	// wait. Default: none.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, type(self[k]) == int ? self[k] < 0 : self[k].startsWith('-'))`,messageExpression=`self.filter(k, type(self[k]) == int ? self[k] < 0 : self[k].startsWith('-'))[0] + ' is below 0; supported values: quantities ≥ 0'`
	// +optional
	MinResources corev1.ResourceList `json:"minResources,omitempty"`

	// scheduleTimeoutSeconds is how long members with an assigned node wait for the other members. After this time
	// all of them release their nodes. Default: defaultTimeout of CoschedulingArgs.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// ConditionScheduled is the type of the condition for the progress of a gang. Only Muster writes it.
const ConditionScheduled = "Scheduled"

// ConditionStarted is the type of the condition that a gang has reached minMember once, and still has a member of that time. Its members
// may then be replaced one by one.
const ConditionStarted = "Started"

// ConditionRepairing is the type of the condition that a gang is incomplete: it was complete, members run, and fewer than minMember do.
// It is removed when the gang is complete or has ended, and when capacity for its missing members is not held any more.
const ConditionRepairing = "Repairing"

// ConditionStartPromised is the type of the condition that the start of a gang is promised. It is False if a promise cannot be kept and no
// other start is known. It is removed when the gang has nodes.
const ConditionStartPromised = "StartPromised"

// PodGroupStatus is what the scheduler last saw of a gang.
//
// +kubebuilder:object:generate=true
type PodGroupStatus struct {
	// phase is a summary of the counts below.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// occupiedBy names the owners of the members, as namespace/name, separated by commas.
	// +optional
	OccupiedBy string `json:"occupiedBy,omitempty"`

	// scheduled is how many members have a node. 0 is written, too.
	// +optional
	Scheduled int32 `json:"scheduled"`

	// running is how many members run. 0 is written, too.
	// +optional
	Running int32 `json:"running"`

	// succeeded is the number of members that succeeded.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is the number of members that failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// domain is the path of the lowest topology domain with all members that have a node, such as spine-1/block-2.
	// It is absent if that is the whole cluster, or if no member has a node.
	// +optional
	Domain string `json:"domain,omitempty"`

	// position is the gang's position in the queue, from 1, at most half a minute old. It is absent if the gang has
	// started, if Muster does not try the gang yet, and beyond position 100.
	// +optional
	Position int32 `json:"position,omitempty"`

	// scheduleStartTime is when the first member of this gang was given a node.
	// +optional
	ScheduleStartTime *metav1.Time `json:"scheduleStartTime,omitempty"`

	// conditions say what the gang waits for, or why it is unschedulable or rejected.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodGroupPhase is a PodGroup's place in its life:
//
//	Pending -> PreScheduling -> Scheduling -> Scheduled -> Running -> Finished
//	                                                   \-> Failed
type PodGroupPhase string

const (
	// PodGroupPending means that fewer than minMember members exist.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupPreScheduling means that minMember members exist, and none has a node.
	PodGroupPreScheduling PodGroupPhase = "PreScheduling"
	// PodGroupScheduling means that some members have a node, but fewer than minMember.
	PodGroupScheduling PodGroupPhase = "Scheduling"
	// PodGroupScheduled means that minMember members have a node.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning means that minMember members run or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupFinished means that minMember members have succeeded.
	PodGroupFinished PodGroupPhase = "Finished"
	// PodGroupFailed means that a member failed, and with the failed ones counted minMember members have run.
	PodGroupFailed PodGroupPhase = "Failed"
)
