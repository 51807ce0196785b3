package source

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugins "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// PodGroupsX is the resource of scheduler-plugins' PodGroups.
var PodGroupsX = plugins.SchemeGroupVersion.WithResource("podgroups")

// podGroupX is the PodGroup of the scheduler plugins of Kubernetes' SIG Scheduling, which
// training operators make. It has the shape of Koordinator's, and gangs of its own: a
// PodGroup of the other kind and the same name is another gang.
var podGroupX = Source{
	Way:    "label " + scheduling.LabelPodGroupX,
	Space:  "podgroup-x",
	NameOf: func(pod *v1.Pod) string { return pod.Labels[scheduling.LabelPodGroupX] },
	Object: &Object{
		Resource: PodGroupsX, Kind: "PodGroup", Optional: true,
		New: func() runtime.Object { return &withStatus{} }, Read: readPodGroup,
	},
}

// withStatus is their PodGroup with the status that Muster writes, which has more fields than theirs.
type withStatus struct {
	plugins.PodGroup `json:",inline"`
	Status           scheduling.PodGroupStatus `json:"status,omitempty"`
}
