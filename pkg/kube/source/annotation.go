package source

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// annotation reads Koordinator's annotation. It needs no PodGroup: the members describe their gang.
var annotation = Source{
	Way:           "annotation " + scheduling.AnnotationGangName,
	Space:         koordinator,
	NameOf:        func(pod *v1.Pod) string { return pod.Annotations[scheduling.AnnotationGangName] },
	SelfDescribed: true,
}
