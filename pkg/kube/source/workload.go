package source

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Workloads are what Kubernetes 1.35 has in place of PodGroups, and no other version.
var Workloads = schema.GroupVersionResource{Group: nativeAPI, Version: "v1alpha1", Resource: "workloads"}

var workloads = &Owner{
	Resource: Workloads,
	Role:     "rbac/sources/workload.yaml",
	Kind:     "Workload",
	Read:     readWorkload,
}

// workload is a pod group of a Workload, or one of its replicas. Its pods name it in spec.workloadRef,
// which later Kubernetes does not know, nor this scheduler's types: whoever reads pods writes it into
// spec.schedulingGroup.podGroupName as WorkloadRef does, which is no legal name there.
var workload = Source{
	Way:       "field spec.workloadRef",
	Space:     "workload",
	NameOf:    workloadGang,
	Owner:     workloads,
	OwnerName: func(pod *v1.Pod) string { name, _, _ := strings.Cut(workloadGang(pod), "/"); return name },
	Needs:     true,
	Fill:      fillWorkload,
}

// WorkloadRef is what a pod's spec says in workloadRef, in one name; "" if it says nothing.
func WorkloadRef(spec map[string]any) string {
	ref, _ := objectIn(spec, "workloadRef")
	name, _ := ref["name"].(string)
	if name == "" {
		return ""
	}
	group, _ := ref["podGroup"].(string)
	replica, _ := ref["podGroupReplicaKey"].(string)
	return strings.TrimSuffix(name+"/"+group+"/"+replica, "/")
}

func workloadGang(pod *v1.Pod) string {
	if name := schedulingGroup(pod); strings.IndexByte(name, '/') >= 0 {
		return name
	}
	return ""
}

// readWorkload takes the pod groups of a Workload: how many of each must start together.
func readWorkload(u *unstructured.Unstructured, out *Owned) error {
	out.Parts = map[string]Part{}
	out.Problem = func() error {
		all, err := objectsIn(u.Object, "spec", "podGroups")
		if err != nil {
			return err
		}
		for i, object := range all {
			at := fmt.Sprintf("spec.podGroups[%d]", i)
			name, _ := object["name"].(string)
			if _, twice := out.Parts[name]; name == "" || twice {
				return fmt.Errorf("%s.name: %v is not legal; legal: a name that no other pod group has", at, quoted(object["name"]))
			}
			least, err := policy(object, "minCount", "policy")
			if err != nil {
				return fmt.Errorf("%s.%w", at, err)
			}
			out.Parts[name] = Part{Jobs: 1, Size: least}
		}
		return nil
	}()
	return nil
}

// fillWorkload: with policy basic nobody waits.
func fillWorkload(d *Declaration, g Gang) {
	pod := first(g.any(), func(*v1.Pod) bool { return true })
	_, part, _ := strings.Cut(workloadGang(pod), "/")
	part, _, _ = strings.Cut(part, "/")
	is, known := g.Owner.Parts[part]
	d.speakerOwner(g)
	d.speakerPod(g)
	if !known {
		d.problem(fmt.Errorf("spec.workloadRef.podGroup: %q on %s/%s names no pod group of %s; legal: one of %v",
			part, pod.Namespace, pod.Name, g.Owner.Key, slices.Sorted(maps.Keys(g.Owner.Parts))))
	}
	d.Min = max(1, is.Size)
}
