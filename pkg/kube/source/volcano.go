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

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

const volcanoTask = "volcano.sh/task-spec" // the key under which pods of Volcano name their task

// volcano reads Volcano's PodGroup. Only Volcano's own components write its status.
var volcano = Source{
	Way:    "annotation " + workloads.VolcanoGroup,
	Space:  "podgroup-volcano",
	NameOf: volcanoGang,
	Object: &Object{
		Resource: schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}, Kind: "PodGroup",
		Optional: true, ReadOnly: true, Role: "rbac/sources/volcano.yaml",
		New: func() runtime.Object { return &unstructured.Unstructured{} }, Read: readVolcano, More: volcanoMore,
		Spec: func() any { return &workloads.VolcanoSpec{} },
	},
}

// volcanoGang returns the PodGroup that a pod names in Volcano's annotation; "" for none.
func volcanoGang(pod *v1.Pod) string {
	if len(pod.Annotations) == 0 {
		return ""
	}
	return workloads.VolcanoGroupOf(pod.Annotations)
}

// readVolcano returns Volcano's PodGroup in the shape of Koordinator's, with its minimum. It keeps a negative one, which is invalid.
func readVolcano(u *unstructured.Unstructured) (*sigs.PodGroup, error) {
	var minimum struct {
		MinMember int32 `json:"minMember"`
	}
	if err := workloads.Read(u, "spec", &minimum); err != nil {
		return nil, err
	}
	pg := shape(u)
	if pg.Spec.MinMember = minimum.MinMember; minimum.MinMember >= 0 {
		var spec workloads.VolcanoSpec
		_ = workloads.Read(u, "spec", &spec) // volcanoMore reports the error
		pg.Spec.MinMember, pg.Spec.MinResources = max(minimum.MinMember, spec.TaskMembers()), spec.MinResources
	}
	return pg, nil
}

// volcanoMore returns the fields that only Volcano's PodGroup has.
func volcanoMore(u *unstructured.Unstructured) (out More) {
	out.Values = map[string]string{}
	var spec workloads.VolcanoSpec
	if out.Problem = workloads.Read(u, "spec", &spec); out.Problem == nil {
		out.SubGroups, out.Problem = readSubGroups(spec.SubGroupPolicy)
	}
	if out.Problem != nil {
		return out
	}
	out.PriorityClass = spec.PriorityClassName
	addTierFields(spec.NetworkTopology, func(key, value string) { out.Values[key] = value })
	for name, n := range spec.MinTaskMember {
		if out.Tasks == nil {
			out.Tasks = map[string]int{}
		}
		out.Tasks[name] = int(n)
	}
	if sum := spec.TaskMembers(); len(out.Tasks) > 1 && sum < spec.MinMember {
		names := slices.Sorted(maps.Keys(out.Tasks))
		out.Notes = append(out.Notes, Note{
			reasons.InvalidAnnotation,
			fmt.Sprintf("spec.minTaskMember %v adds up to %d of minMember %d: members of any task fill the rest; raise minTaskMember to name them",
				names, sum, spec.MinMember),
		})
	}
	return out
}

// readTasks makes a gang wait until each of its tasks has its minimum of members. Pods that Jobs have completed lower that minimum. A
// gang with a running or finished member does not wait. It sets d.Tasks, the members that the gang starts with, unless sub-groups
// select these members.
func (d *Declaration) readTasks(g Gang) {
	if len(g.More.Tasks) == 0 {
		return
	}
	d.DependsOnMembers = true
	existing, uncounted, taskOfJob := map[string]int{}, map[string]map[string]int{}, map[OwnerKey]string{}
	for _, pod := range g.allPods() {
		task, gate := taskOf(pod), ""
		if job, ok := JobOf(pod); ok {
			taskOfJob[job] = task
		}
		if g.Gate != nil {
			gate = g.Gate(pod)
		}
		switch {
		case gate == "":
			existing[task]++
		case uncounted[task] == nil:
			uncounted[task] = map[string]int{gate: 1}
		default:
			uncounted[task][gate]++
		}
	}
	for _, task := range slices.Sorted(maps.Keys(g.More.Tasks)) {
		n := stillNeeded(g.More.Tasks[task],
			slices.DeleteFunc(slices.Clone(g.Children), func(job *Owned) bool { return taskOfJob[job.Key] != task }))
		if existing[task] < n && !g.hasStarted() {
			d.setWaiting(fmt.Sprintf("%d of %d members of task %s", existing[task], n, task) + gang.Existing(uncounted[task]))
		}
	}
	if len(g.More.SubGroups) == 0 {
		d.Tasks, d.Multiples = g.More.Tasks, true // no task lacks its minimum when the gang starts
	}
}

// PartOf returns the role of a member in its gang, for messages: its task, ReplicatedJob, or leader or worker; "" if it has none.
func PartOf(pod *v1.Pod) string {
	task := taskOf(pod)
	job := pod.Labels[workloads.JobSetReplicated]
	index := pod.Labels[lws.WorkerIndexLabelKey]
	switch {
	case task != "":
		return fmt.Sprintf("task %q", task)
	case job != "":
		return fmt.Sprintf("replicated job %q", job)
	case index == "0":
		return "role leader"
	case index != "":
		return "role worker"
	}
	return ""
}

// taskOf returns the task of a member, from its label or its annotation.
func taskOf(pod *v1.Pod) string {
	if task := pod.Labels[volcanoTask]; task != "" {
		return task
	}
	return pod.Annotations[volcanoTask]
}
