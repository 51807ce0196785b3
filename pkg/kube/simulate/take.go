package simulate

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Readable is a kind of object that a scheduler reads from a cluster.
type Readable struct {
	Kind          string
	Resource      schema.GroupVersionResource
	OtherVersions []string // other versions in which a Custom kind may be served
	Custom        bool     // objects are read unstructured

	kind *kind
}

// Kinds lists the kinds that a scheduler reads, referenced kinds first. It omits Deployment, which only controllers read.
func Kinds() (all []Readable) {
	for gk, k := range kinds() {
		if gk.Kind == "Deployment" {
			continue // only controllers read it
		}
		all = append(all, Readable{gk.Kind, k.resource, k.versions, k.custom != nil, k})
	}
	slices.SortFunc(all, func(a, b Readable) int { return a.kind.order - b.kind.order })
	return all
}

// AddListed adds an object of kind r that an API server has listed. The caller must not change it afterwards. from is its position.
func (s *Set) AddListed(r Readable, o runtime.Object, from string) error {
	at := Position{File: from}
	u, custom := o.(*unstructured.Unstructured)
	if !custom {
		if pod, ok := o.(*v1.Pod); ok {
			trimPod(pod)
		}
		s.objects = append(s.objects, object{o, r.kind, at})
		return nil
	}
	raw, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", r.Kind, u.GetNamespace(), u.GetName(), err)
	}
	return s.json(raw, at, metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind() + "List"})
}

// ForEach calls do with every object of the set. do must not change the object.
func (s *Set) ForEach(do func(runtime.Object)) {
	for _, o := range s.objects {
		do(o.Object)
	}
}
