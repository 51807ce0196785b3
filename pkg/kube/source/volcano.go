package source

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// Volcano's pods name their PodGroup by one of these.
const (
	volcanoGroup      = "scheduling.k8s.io/group-name"
	volcanoGroupOther = "scheduling.volcano.sh/group-name"
	volcanoTask       = "volcano.sh/task-spec" // and their task by this
)

// volcano is Volcano's PodGroup. Its status is for Volcano's own components to write.
var volcano = Source{
	Way:    "annotation " + volcanoGroup,
	Space:  "podgroup-volcano",
	NameOf: volcanoGang,
	Object: &Object{
		Resource: schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}, Kind: "PodGroup",
		Optional: true, ReadOnly: true, Role: "rbac/sources/volcano.yaml",
		New: func() runtime.Object { return &unstructured.Unstructured{} }, Read: readVolcano, More: moreOfVolcano,
	},
}

func volcanoGang(pod *v1.Pod) string {
	if len(pod.Annotations) == 0 {
		return ""
	}
	if name := pod.Annotations[volcanoGroup]; name != "" {
		return name
	}
	return pod.Annotations[volcanoGroupOther]
}

// readVolcano takes what Volcano's PodGroup says in the same words as the others.
func readVolcano(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	least, _, err := unstructured.NestedInt64(u.Object, "spec", "minMember")
	if err != nil {
		return nil, err
	}
	pg := &sigs.PodGroup{TypeMeta: metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}, ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
		Annotations: u.GetAnnotations(), Labels: u.GetLabels(), OwnerReferences: u.GetOwnerReferences(),
	}}
	pg.Spec.MinMember = int32(least)
	tasks, _, err := unstructured.NestedMap(u.Object, "spec", "minTaskMember")
	if err != nil {
		return nil, err
	}
	sum := int64(0)
	for _, n := range tasks {
		k, _ := n.(int64)
		sum = min(sum+min(max(k, 0), math.MaxInt32), math.MaxInt32)
	}
	if least >= 0 { // else it is said that it is not legal
		least = max(min(least, math.MaxInt32), sum)
	}
	pg.Spec.MinMember = int32(max(least, math.MinInt32))
	return pg, nil
}

// moreOfVolcano is what no other PodGroup says.
func moreOfVolcano(u *unstructured.Unstructured) (out More) {
	out.Words = map[string]string{}
	if err := tierWords(u, func(key, value string) { out.Words[key] = value }, "spec", "networkTopology"); err != nil {
		out.Problem = fmt.Errorf("spec.networkTopology: %w", err)
		return out
	}
	var err error
	if out.SubGroups, err = readSubGroups(u, "spec", "subGroupPolicy"); err != nil {
		out.Problem = fmt.Errorf("spec.subGroupPolicy%w", err)
	}
	least, _, _ := unstructured.NestedInt64(u.Object, "spec", "minMember")
	tasks, _, _ := unstructured.NestedMap(u.Object, "spec", "minTaskMember")
	sum := int64(0)
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		n := tasks[name]
		k, ok := n.(int64)
		if !ok || k < 0 {
			out.Problem = fmt.Errorf("spec.minTaskMember[%s]: %v is not legal; legal: an integer ≥ 0", name, n)
			return out
		}
		sum = min(sum+min(k, math.MaxInt32), math.MaxInt32)
	}
	if len(tasks) > 0 {
		out.Tasks = map[string]int{}
		for name, n := range tasks {
			out.Tasks[name] = int(min(n.(int64), math.MaxInt32))
		}
	}
	if len(tasks) > 1 && sum < least {
		names := slices.Sorted(maps.Keys(tasks))
		out.Notes = append(out.Notes, Note{InvalidAnnotation, fmt.Sprintf("spec.minTaskMember %v adds up to %d of minMember %d: which tasks the others are of is not considered", names, sum, least)})
	}
	return out
}

// tasks has a gang wait until each of its tasks has as many members as it needs. Of a gang that
// runs each is made again for itself. With more members than that, those are placed that come
// first, and which tasks they are of is not considered.
func (d *Declaration) tasks(g Gang) {
	if len(g.More.Tasks) == 0 {
		return
	}
	d.Counts = true
	exist, need := map[string]int{}, 0
	for _, pod := range g.any() {
		exist[taskOf(pod)]++
	}
	for _, task := range slices.Sorted(maps.Keys(g.More.Tasks)) {
		n := g.More.Tasks[task]
		if need += n; exist[task] < n && !g.begun() {
			d.waits(fmt.Sprintf("%d of %d members of task %s exist", exist[task], n, task))
		}
	}
	if len(g.More.Tasks) > 1 && len(g.any()) > max(need, int(g.Object.Spec.MinMember)) {
		d.note(InvalidAnnotation, "spec.minTaskMember: there are more members than it asks for; where not all fit, the first are placed, whichever task they are of")
	}
}

// taskOf names the task of a member, by its label or by its annotation.
func taskOf(pod *v1.Pod) string {
	if task := pod.Labels[volcanoTask]; task != "" {
		return task
	}
	return pod.Annotations[volcanoTask]
}
