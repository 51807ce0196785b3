package source

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// labels reads the deprecated labels of Koordinator that preceded its annotations.
var labels = Source{
	Way:           "label " + scheduling.LabelGangName,
	Space:         koordinator,
	NameOf:        func(pod *v1.Pod) string { return pod.Labels[scheduling.LabelGangName] },
	SelfDescribed: true,
}
