package source

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// nativeAPI is Kubernetes' own API of gangs.
const nativeAPI = "scheduling.k8s.io"

// native is Kubernetes' own PodGroup, of 1.36 and later. What a Workload says stands in the
// PodGroups that are made from it, so it is not read. 1.35 has no PodGroup, see workload.
//
// Whoever makes a PodGroup says where it is in a tree:
//
//	CompositePodGroup          minGroupCount, one label key for all that is below it
//	    CompositePodGroup      the same, or none
//	        PodGroup           minCount, one label key for each: a gang of the group
var native = Source{
	Way:    "field spec.schedulingGroup.podGroupName",
	Space:  "podgroup-native",
	NameOf: nativeGang,
	Object: &Object{
		Resource: schema.GroupVersionResource{Group: nativeAPI, Version: "v1beta1", Resource: "podgroups"},
		Role:     "rbac/sources/native.yaml",
		Others:   []string{"v1alpha3", "v1alpha2"}, Kind: "PodGroup",
		Optional: true, ReadOnly: true,
		New: func() runtime.Object { return &unstructured.Unstructured{} }, Read: readNative, More: moreOfNative,
		Condition: nativeCondition,
	},
	Family: nativeFamily,
}

var compositePodGroups = &Owner{
	Resource: schema.GroupVersionResource{Group: nativeAPI, Version: "v1alpha3", Resource: "compositepodgroups"},
	Role:     "rbac/sources/native.yaml",
	Kind:     "CompositePodGroup",
	Read:     readComposite,
	Family:   true,
}

func nativeGang(pod *v1.Pod) string {
	if name := schedulingGroup(pod); strings.IndexByte(name, '/') < 0 {
		return name
	}
	return ""
}

// schedulingGroup is what a pod says in spec.schedulingGroup, "" if it says nothing.
func schedulingGroup(pod *v1.Pod) string {
	if of := pod.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		return *of.PodGroupName
	}
	return ""
}

// The condition of a PodGroup that was whole once, which then stays, and what it was in 1.36.
const (
	initiallyScheduled     = "PodGroupInitiallyScheduled"
	initiallyScheduledIn36 = "PodGroupScheduled"
)

// nativeCondition is what the scheduler is asked to write, and all that it writes.
func nativeCondition(pg *sigs.PodGroup) string {
	if pg.APIVersion == nativeAPI+"/v1alpha2" {
		return initiallyScheduledIn36
	}
	return initiallyScheduled
}

// readNative gives a PodGroup the shape of the others. What is wrong with it is in its More.
func readNative(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	pg := shape(u)
	least, _ := policy(u.Object, "minCount", "spec", "schedulingPolicy")
	pg.Spec.MinMember = int32(max(1, least))
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if says, _ := objectIn(u.Object, "status"); says != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(says, &status); err == nil {
			pg.Status.Conditions = status.Conditions
		}
	}
	return pg, nil
}

// policy is the minimum of a gang, as the policy at a path says it; 0 if none is asked for.
func policy(object map[string]any, field string, at ...string) (int, error) {
	says, err := objectIn(object, at...)
	if err != nil {
		return 0, err
	}
	gangs, err := objectIn(object, append(slices.Clone(at), "gang")...)
	if err != nil {
		return 0, err
	}
	where := strings.Join(at, ".")
	switch basic := says["basic"] != nil; {
	case basic == (gangs != nil):
		return 0, fmt.Errorf("%s: legal: one of basic and gang", where)
	case basic:
		return 0, nil
	}
	least, err := count(gangs[field], 1)
	if err != nil {
		return 0, fmt.Errorf("%s.gang.%s: %w", where, field, err)
	}
	return least, nil
}

// topologyKey is the label key in whose domain all must be; "" if none is named.
func topologyKey(object map[string]any) (string, error) {
	path := []string{"spec", "schedulingConstraints", "topology"}
	all, err := objectsIn(object, path...)
	if err != nil || len(all) == 0 {
		return "", err
	}
	if len(all) > 1 {
		return "", fmt.Errorf("spec.schedulingConstraints.topology: %d constraints; legal: at most 1", len(all))
	}
	key, ok := all[0]["key"].(string)
	if !ok || key == "" {
		return "", fmt.Errorf("%s: %s is not legal; legal: a label key of nodes", FieldTopologyKey, quoted(all[0]["key"]))
	}
	return key, nil
}

// wholeOnly says whether a disruptionMode has all members leave together. 1.36 has it as a word.
func wholeOnly(object map[string]any) (bool, error) {
	mode, said := field(object, "spec", "disruptionMode")
	switch m := mode.(type) {
	case map[string]any:
		_, single := m["single"]
		if _, all := m["all"]; single != all {
			return all, nil
		}
	case string:
		if m == "Pod" || m == "PodGroup" {
			return m == "PodGroup", nil
		}
	}
	if !said {
		return false, nil
	}
	return false, fmt.Errorf("spec.disruptionMode: %s is not legal; legal: one of single and all", quoted(mode))
}

// moreOfNative is what no other PodGroup says.
func moreOfNative(u *unstructured.Unstructured) (out More) {
	_, bad := policy(u.Object, "minCount", "spec", "schedulingPolicy")
	key, badKey := topologyKey(u.Object)
	whole, badMode := wholeOnly(u.Object)
	parent, badParent := text(u.Object, "spec", "parentCompositePodGroupName")
	for _, err := range []error{bad, badKey, badMode, badParent} {
		if err != nil && out.Problem == nil {
			out.Problem = err
		}
	}
	if out.Whole = whole; key != "" {
		out.Words = map[string]string{FieldTopologyKey: key}
	}
	if parent != "" {
		out.Owner = OwnerKey{compositePodGroups.Kind, u.GetNamespace(), parent}
	}
	return out
}

// readComposite takes the minimum of a CompositePodGroup, and files its label key under the name
// that it has for its PodGroups: it is they who say it.
func readComposite(u *unstructured.Unstructured, out *Owned) error {
	least, bad := policy(u.Object, "minGroupCount", "spec", "schedulingPolicy")
	key, badKey := topologyKey(u.Object)
	_, badMode := wholeOnly(u.Object)
	parent, badParent := text(u.Object, "spec", "parentCompositePodGroupName")
	if parent != "" {
		out.Parent = OwnerKey{out.Key.Kind, out.Key.Namespace, parent}
	}
	for _, err := range []error{bad, badKey, badMode, badParent} {
		if err != nil && out.Problem == nil {
			out.Problem = fmt.Errorf("%s: %w", out.Key, err)
		}
	}
	out.Size, out.TopologyKey = least, key
	return nil
}
