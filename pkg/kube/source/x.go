package source

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	x "github.com/muster-scheduler/muster/pkg/apis/scheduling/x/v1alpha1"
)

// podGroupX is the PodGroup of the scheduler plugins of Kubernetes' SIG Scheduling, which
// training operators make. It has the shape of Koordinator's, and gangs of its own: a
// PodGroup of the other kind and the same name is another gang.
var podGroupX = Source{
	Way:    "label " + scheduling.LabelPodGroupX,
	Space:  "podgroup-x",
	NameOf: func(pod *v1.Pod) string { return pod.Labels[scheduling.LabelPodGroupX] },
	Object: &Object{
		Resource: x.PodGroups, Kind: "PodGroup", Optional: true,
		New: func() runtime.Object { return &x.PodGroup{} }, Read: readPodGroup,
	},
}
