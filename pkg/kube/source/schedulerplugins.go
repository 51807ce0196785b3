package source

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugins "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// PodGroupsX is the resource of scheduler-plugins' PodGroups.
var PodGroupsX = plugins.SchemeGroupVersion.WithResource("podgroups")

// podGroupX reads the PodGroup of SIG Scheduling's scheduler plugins, which training operators make. It has the shape of
// Koordinator's PodGroup, but a name space of its own: equal names are different gangs.
var podGroupX = Source{
	Way:    "label " + scheduling.LabelPodGroupX,
	Space:  "podgroup-x",
	NameOf: func(pod *v1.Pod) string { return pod.Labels[scheduling.LabelPodGroupX] },
	Object: &Object{
		Resource: PodGroupsX, Kind: "PodGroup", Optional: true,
		New: func() runtime.Object { return &withStatus{} }, Read: readPodGroup,
	},
}

// withStatus is that PodGroup with the status that Muster writes, which has more fields.
type withStatus struct {
	plugins.PodGroup `json:",inline"`
	Status           scheduling.PodGroupStatus `json:"status,omitempty"`
}
