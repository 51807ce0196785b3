package workloads

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"
)

// LeaderWorkerSetKind is the version of LeaderWorkerSet that Muster reads.
var LeaderWorkerSetKind = lws.GroupVersion.WithKind("LeaderWorkerSet")

// LeaderWorkerSet is a LeaderWorkerSet with the field that Muster's manifests add to its CRD.
type LeaderWorkerSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LeaderWorkerSetSpec `json:"spec,omitempty"`
	Status            any                 `json:"status,omitempty"`
}

// LeaderWorkerSetSpec is the spec of a LeaderWorkerSet.
type LeaderWorkerSetSpec struct {
	lws.LeaderWorkerSetSpec `json:",inline"`
	NetworkTopology         *NetworkTopology `json:"networkTopology,omitempty"`
}

// LeaderFirst returns why a leader must not wait for its workers; "" if it may. exclusive says that an annotation demands exclusive
// topology.
func (s *LeaderWorkerSetSpec) LeaderFirst(exclusive bool) string {
	switch {
	case s.StartupPolicy == lws.LeaderReadyStartupPolicy:
		return "workers are created only after the leader is ready"
	case exclusive:
		return LeaderScheduled
	}
	return ""
}

// LeaderScheduled is the result of LeaderFirst with exclusive topology.
const LeaderScheduled = "workers are created only after the leader is scheduled"

// RequestLimits sets each missing request to the limit of its resource. The API server does this to pods, but not to templates.
func RequestLimits(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					if r.Requests == nil {
						r.Requests = corev1.ResourceList{}
					}
					r.Requests[name] = limit
				}
			}
		}
	}
}
