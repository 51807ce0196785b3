package source

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

const volcanoTask = "volcano.sh/task-spec" // pods of Volcano name their task by this

// volcano is Volcano's PodGroup. Its status is for Volcano's own components to write.
var volcano = Source{
	Way:    "annotation " + workloads.VolcanoGroup,
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
	return workloads.VolcanoGroupOf(pod.Annotations)
}

// readVolcano takes the minimum of Volcano's PodGroup. A negative one stays as it is.
func readVolcano(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	var least struct {
		MinMember int32 `json:"minMember"`
	}
	if err := workloads.Read(u, "spec", &least); err != nil {
		return nil, err
	}
	pg := shape(u)
	if pg.Spec.MinMember = least.MinMember; least.MinMember >= 0 {
		var spec workloads.VolcanoSpec
		_ = workloads.Read(u, "spec", &spec) // moreOfVolcano says what is wrong
		pg.Spec.MinMember, pg.Spec.MinResources = max(least.MinMember, spec.TaskMembers()), spec.MinResources
	}
	return pg, nil
}

// moreOfVolcano is what no other PodGroup says.
func moreOfVolcano(u *unstructured.Unstructured) (out More) {
	out.Words = map[string]string{}
	var spec workloads.VolcanoSpec
	if out.Problem = workloads.Read(u, "spec", &spec); out.Problem == nil {
		out.SubGroups, out.Problem = readSubGroups(spec.SubGroupPolicy)
	}
	if out.Problem != nil {
		return out
	}
	out.PriorityClass = spec.PriorityClassName
	tierWords(spec.NetworkTopology, func(key, value string) { out.Words[key] = value })
	for name, n := range spec.MinTaskMember {
		if out.Tasks == nil {
			out.Tasks = map[string]int{}
		}
		out.Tasks[name] = int(n)
	}
	if sum := spec.TaskMembers(); len(out.Tasks) > 1 && sum < spec.MinMember {
		names := slices.Sorted(maps.Keys(out.Tasks))
		out.Notes = append(out.Notes, Note{
			InvalidAnnotation,
			fmt.Sprintf("spec.minTaskMember %v adds up to %d of minMember %d: which tasks the others are of is not considered", names, sum, spec.MinMember),
		})
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

// PartOf names the role of a member in its gang, for messages: its task, ReplicatedJob, or whether it leads; "" if it has none.
func PartOf(pod *v1.Pod) string {
	task, job, index := taskOf(pod), pod.Labels[workloads.JobSetReplicated], pod.Labels[lws.WorkerIndexLabelKey]
	switch {
	case task != "":
		return "task " + task
	case job != "":
		return "replicated job " + job
	case index == "0":
		return "role leader"
	case index != "":
		return "role worker"
	}
	return ""
}

// taskOf names the task of a member, by its label or by its annotation.
func taskOf(pod *v1.Pod) string {
	if task := pod.Labels[volcanoTask]; task != "" {
		return task
	}
	return pod.Annotations[volcanoTask]
}
