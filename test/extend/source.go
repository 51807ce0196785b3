package extend

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Crews makes a gang of the pods with the label example.com/crew: the object Crew of that name says how many start together, and in
// its annotations how they gather.
var Crews = source.Source{
	Way:    "label example.com/crew",
	Space:  "crew",
	NameOf: func(pod *v1.Pod) string { return pod.Labels["example.com/crew"] },
	Object: &source.Object{
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "crews"}, Kind: "Crew",
		New:  func() runtime.Object { return &unstructured.Unstructured{} },
		Read: readCrew,
	},
}

// readCrew gives a Crew the shape of a PodGroup.
func readCrew(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	size, _, err := unstructured.NestedInt64(u.Object, "spec", "size")
	pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), CreationTimestamp: u.GetCreationTimestamp(),
		Annotations: u.GetAnnotations(),
	}}
	pg.Spec.MinMember = int32(size)
	return pg, err
}
