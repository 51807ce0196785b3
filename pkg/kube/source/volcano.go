package source

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
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
	least, err := minMember(u)
	if err != nil {
		return nil, err
	}
	pg := shape(u)
	if _, sum, _ := minTaskMember(u); least >= 0 { // else it is said that it is not legal
		least = max(least, sum)
	}
	pg.Spec.MinMember = int32(least)
	return pg, nil
}

// minMember is how many members must start together; 0 if that is not said. Less is not legal, and has a default.
func minMember(u *unstructured.Unstructured) (int, error) {
	path := []string{"spec", "minMember"}
	if value, _ := field(u.Object, path...); value != nil {
		if n, ok := value.(int64); ok && math.MinInt32 <= n && n < 0 {
			return int(n), nil
		}
	}
	return countIn(u.Object, 0, 0, path...)
}

// minTaskMember is how many members of each of several tasks must, and how many that are.
func minTaskMember(u *unstructured.Unstructured) (tasks map[string]int, sum int, err error) {
	said, err := objectIn(u.Object, "spec", "minTaskMember")
	for _, name := range slices.Sorted(maps.Keys(said)) {
		n, err := count(said[name], 0)
		if err == nil && said[name] == nil {
			err = errors.New("nothing is not legal; legal: an integer ≥ 0")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("spec.minTaskMember[%s]: %w", name, err)
		}
		if tasks == nil {
			tasks = map[string]int{}
		}
		tasks[name] = n
		sum = min(sum+n, math.MaxInt32)
	}
	return tasks, sum, err
}

// moreOfVolcano is what no other PodGroup says.
func moreOfVolcano(u *unstructured.Unstructured) (out More) {
	out.Words = map[string]string{}
	least, _ := minMember(u)
	badTopology := tierWords(u, func(key, value string) { out.Words[key] = value }, "spec", "networkTopology")
	policies, badPolicy := readSubGroups(u, "spec", "subGroupPolicy")
	tasks, sum, badTask := minTaskMember(u)
	for _, err := range []error{badTopology, badPolicy, badTask} {
		if err != nil {
			out.Problem = err
			return out
		}
	}
	out.SubGroups, out.Tasks = policies, tasks
	if len(tasks) > 1 && sum < least {
		names := slices.Sorted(maps.Keys(tasks))
		out.Notes = append(out.Notes, Note{InvalidAnnotation, fmt.Sprintf("spec.minTaskMember %v adds up to %d of minMember %d: which tasks the others are of is not considered", names, sum, least)})
	}
	return out
}

// tasks has a gang wait until each of its tasks has as many members as it needs, and start with these. Of
// a gang that runs each is made again for itself. With sub-groups, of more members than the gang needs those
// are placed that these choose, whichever tasks they are of.
func (d *Declaration) tasks(g Gang) {
	if len(g.More.Tasks) == 0 {
		return
	}
	d.Counts = true
	exist, held := map[string]int{}, map[string]int{}
	for _, pod := range g.any() {
		if g.Held != nil && g.Held(pod) {
			held[taskOf(pod)]++
		} else {
			exist[taskOf(pod)]++
		}
	}
	for _, task := range slices.Sorted(maps.Keys(g.More.Tasks)) {
		n := g.More.Tasks[task]
		if exist[task] < n && !g.begun() {
			d.waits(fmt.Sprintf("%d of %d members of task %s exist", exist[task], n, task) + gang.Uncounted(held[task]))
		}
	}
	if len(g.More.SubGroups) == 0 {
		d.Tasks, d.Multiples = g.More.Tasks, true // none is to be without its members when the gang starts
	}
}

// taskOf names the task of a member, by its label or by its annotation.
func taskOf(pod *v1.Pod) string {
	if task := pod.Labels[volcanoTask]; task != "" {
		return task
	}
	return pod.Annotations[volcanoTask]
}
