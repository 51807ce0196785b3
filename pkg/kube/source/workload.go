package source

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// Workloads is the resource that only Kubernetes 1.35 has in place of PodGroups.
var Workloads = schema.GroupVersionResource{Group: nativeAPI, Version: "v1alpha1", Resource: "workloads"}

var workloadOwners = &Owner{
	Resource: Workloads,
	Role:     "rbac/sources/workload.yaml",
	Kind:     "Workload",
	Read:     readWorkload,
}

// workload reads the pod groups of a Workload, or their replicas. Pods name them in spec.workloadRef, which later versions and
// this scheduler's types do not know: the reader of pods writes WorkloadRef's result into spec.schedulingGroup.podGroupName. It
// is no valid name there.
var workload = Source{
	Way:        "field spec.workloadRef",
	Space:      "workload",
	NameOf:     workloadGang,
	Owner:      workloadOwners,
	OwnerName:  func(pod *v1.Pod) string { name, _, _ := strings.Cut(workloadGang(pod), "/"); return name },
	NeedsOwner: true,
	Fill:       fillWorkload,
}

// WorkloadRef returns a pod spec's workloadRef as one name; "" if it has none.
func WorkloadRef(spec map[string]any) string {
	ref, _ := spec["workloadRef"].(map[string]any)
	name, _ := ref["name"].(string)
	if name == "" {
		return ""
	}
	group, _ := ref["podGroup"].(string)
	replica, _ := ref["podGroupReplicaKey"].(string)
	return strings.TrimSuffix(name+"/"+group+"/"+replica, "/")
}

// workloadGang returns the WorkloadRef of a pod, which contains a slash; "" if the pod has none.
func workloadGang(pod *v1.Pod) string {
	if name := schedulingGroup(pod); strings.IndexByte(name, '/') >= 0 {
		return name
	}
	return ""
}

// readWorkload reads the pod groups of a Workload: the minimum of each.
func readWorkload(u *unstructured.Unstructured, out *Owned) error {
	var spec struct {
		PodGroups []struct {
			Name   string `json:"name"`
			Policy policy `json:"policy"`
		} `json:"podGroups"`
	}
	out.Parts, out.Problem = map[string]Part{}, workloads.Read(u, "spec", &spec)
	for i := range spec.PodGroups {
		g, at := &spec.PodGroups[i], fmt.Sprintf("spec.podGroups[%d]", i)
		least, err := g.Policy.least(at+".policy", false)
		if _, twice := out.Parts[g.Name]; g.Name == "" || twice {
			err = fmt.Errorf("%s.name: %q is invalid; write a name that no other pod group has", at, g.Name)
		}
		if out.Problem = cmp.Or(out.Problem, err); out.Problem != nil {
			return nil
		}
		out.Parts[g.Name] = Part{Jobs: 1, Size: least}
	}
	return nil
}

// fillWorkload sets d.Min to the minimum of the pod group of g's members; 1 with policy basic.
func fillWorkload(d *Declaration, g Gang) {
	pod := firstPod(g.allPods(), func(*v1.Pod) bool { return true })
	_, part, _ := strings.Cut(workloadGang(pod), "/")
	part, _, _ = strings.Cut(part, "/")
	podSet, known := g.Owner.Parts[part]
	d.addOwner(g)
	d.addPod(g)
	if !known {
		d.setProblem(fmt.Errorf("spec.workloadRef.podGroup: %q on %s/%s names no pod group of %s; supported values: %v",
			part, pod.Namespace, pod.Name, g.Owner.Key, slices.Sorted(maps.Keys(g.Owner.Parts))))
	}
	d.Min = max(1, podSet.Size)
}
