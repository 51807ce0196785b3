package source

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// koordinator is the space of Koordinator's gangs, which a PodGroup or the members declare. Equal names mean the same gang, whether a
// label or an annotation has them.
const koordinator = "podgroup"

// podGroup reads Koordinator's PodGroup, which members name by a label.
var podGroup = Source{
	Way:    "label " + scheduling.LabelPodGroup,
	Space:  koordinator,
	NameOf: func(pod *v1.Pod) string { return pod.Labels[scheduling.LabelPodGroup] },
	Object: &Object{Resource: sigs.PodGroups, Kind: "PodGroup", New: func() runtime.Object { return &sigs.PodGroup{} }, Read: readPodGroup},
}

func readPodGroup(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	pg := &sigs.PodGroup{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pg)
	return pg, err
}
