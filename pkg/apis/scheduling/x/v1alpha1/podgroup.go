// Package v1alpha1 is PodGroup as scheduler-plugins serves it, in scheduling.x-k8s.io.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.x-k8s.io
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

var (
	// GroupVersion is this package's.
	GroupVersion = schema.GroupVersion{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}
	// PodGroups is the resource.
	PodGroups = GroupVersion.WithResource("podgroups")
)

// AddToScheme registers this group's types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PodGroup{}, &PodGroupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// PodGroup is a gang: pods that start together or not at all.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pg;pgs
// +kubebuilder:printcolumn:name=Min,type=integer,JSONPath=`.spec.minMember`
// +kubebuilder:printcolumn:name=Scheduled,type=integer,JSONPath=`.status.scheduled`
// +kubebuilder:printcolumn:name=Running,type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Scheduled")].reason`
// +kubebuilder:printcolumn:name=Position,type=integer,JSONPath=`.status.position`
// +kubebuilder:printcolumn:name=Domain,type=string,JSONPath=`.status.domain`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PodGroupSpec `json:"spec,omitempty"`
	// +optional
	Status scheduling.PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec is scheduling.PodGroupSpec, with the same fields, as scheduler-plugins takes
// it: there a timeout of 0 is legal, and MPI Operator writes it.
type PodGroupSpec struct {
	// minMember is how many members start together; with fewer, none starts. Default: 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinMember int32 `json:"minMember,omitempty"`

	// minResources is what minMember members need in all. It is accepted for
	// compatibility and has no effect: Muster asks the nodes themselves. Default: none.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule=`!self.exists(k, type(self[k]) == int ? self[k] < 0 : self[k].startsWith('-'))`,messageExpression=`self.filter(k, type(self[k]) == int ? self[k] < 0 : self[k].startsWith('-'))[0] + ' is below 0; legal: quantities ≥ 0'`
	// +optional
	MinResources corev1.ResourceList `json:"minResources,omitempty"`

	// scheduleTimeoutSeconds is how long members that hold a node wait for the rest
	// before all of them give their nodes back; 0 is as if it were not given. Default:
	// defaultTimeout of CoschedulingArgs.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// PodGroupList is a list of them.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}
