// Package v1alpha1 is PodGroup as Koordinator serves it, in scheduling.sigs.k8s.io.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.sigs.k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

var (
	// GroupVersion is the API group and version of this package.
	GroupVersion = schema.GroupVersion{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1"}
	// PodGroups is the resource.
	PodGroups = GroupVersion.WithResource("podgroups")
)

// The API server refuses a group below k8s.io that does not name the review of its API, hence the annotation api-approved.kubernetes.io.

// PodGroup is a gang: pods that start together or not at all.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pg;pgs
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes-sigs/scheduler-plugins/pull/52"
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
	Spec scheduling.PodGroupSpec `json:"spec,omitempty"`
	// +optional
	Status scheduling.PodGroupStatus `json:"status,omitempty"`
}

// PodGroupList is a list of them.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}
