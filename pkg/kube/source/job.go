package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

var jobs = &Owner{
	Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
	Kind:     "Job",
	Role:     "rbac/sources/job.yaml",
	Lazy:     true,
	Read:     readJob,
	Trim:     trimJob,
}

// trimJob removes the spec of a Job's template except schedulerName, to save memory: clusters have many Jobs.
func trimJob(u *unstructured.Unstructured) {
	spec, _ := u.Object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	if pod, ok := template["spec"].(map[string]any); ok {
		template["spec"] = map[string]any{"schedulerName": pod["schedulerName"]}
	}
}

// readJob sets the Size of a Job (the pods that run at a time), and how many pods remain or have succeeded. The user does not write
// the status, so errors in it have no effect.
func readJob(u *unstructured.Unstructured, out *Owned) error {
	var spec workloads.JobSpec
	var status batchv1.JobStatus
	err := workloads.Read(u, "spec", &spec)
	_ = workloads.Read(u, "status", &status)
	out.Size = int(spec.Pods())
	out.Remaining = int(spec.Left(&status))
	out.Succeeded = int(spec.Succeeded(&status))
	// a Job has the labels of its pods
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Labels: u.GetLabels(), Annotations: out.Values}}
	if name := jobSetGang(pod); name != "" {
		out.Parent, out.MakesFor = OwnerKey{
			workloads.JobSetKind.Kind, u.GetNamespace(),
			pod.Labels[workloads.JobSetName],
		}, gang.Ref{Source: jobSetSpace, Namespace: pod.Namespace, Name: name, UID: pod.Labels[workloads.JobSetUID]}
	}
	if seconds := spec.ActiveDeadlineSeconds; seconds != nil {
		out.Deadline = time.Duration(*seconds) * time.Second
	}
	if status.StartTime != nil {
		out.Started = status.StartTime.Time
	}
	readIneffective(u, &spec, out)
	return err
}

// readIneffective sets MaxRuntime. If the pods of a Job are no gang, it also sets Ineffective and Scheduler.
func readIneffective(u *unstructured.Unstructured, spec *workloads.JobSpec, out *Owned) {
	messages := misplaced(u, ownTemplate, append(slices.Clip(gangKeys), scheduling.AnnotationBackfill)...)
	if value, ok := out.Values[scheduling.AnnotationMaxRuntime]; ok {
		runtime, err := scheduling.ParseMaxRuntime(value)
		if out.MaxRuntime = runtime; err != nil {
			messages = append(messages, err.Error()+"; it has no effect")
		}
	}
	if len(messages) > 0 && !isGang(spec.Template.Metadata.Annotations) {
		out.Scheduler = cmp.Or(spec.Template.Spec.SchedulerName, v1.DefaultSchedulerName)
		out.Ineffective = strings.Join(messages, "; ")
	}
}

// job reads Jobs if their pods have a topology constraint or a minimum. Other Jobs are no gangs: their pods need not run at the same time.
var job = Source{
	Way:        "label " + v1JobName + " and an annotation of how pods gather, or " + scheduling.AnnotationMinAvailable,
	Space:      "job",
	Implied:    true,
	NameOf:     jobGang,
	UIDOf:      func(pod *v1.Pod) string { return pod.Labels[v1JobUID] },
	Owner:      jobs,
	OwnerName:  func(pod *v1.Pod) string { return pod.Labels[v1JobName] },
	NeedsOwner: true,
	Fill:       fillJob,
}

const (
	v1JobName = "batch.kubernetes.io/job-name"
	v1JobUID  = "batch.kubernetes.io/controller-uid"
)

// jobGang returns the Job's name for a pod of a Job that is a gang (isGang); else "".
func jobGang(pod *v1.Pod) string {
	name := pod.Labels[v1JobName]
	if name == "" || len(pod.Annotations) == 0 {
		return ""
	}
	if isGang(pod.Annotations) {
		return name
	}
	return ""
}

// isGang says whether the annotations of a Job's pods make them a gang.
func isGang(annotations map[string]string) bool {
	_, minimum := annotations[scheduling.AnnotationMinAvailable]
	return minimum || slices.ContainsFunc(constraintKeys, func(key string) bool { _, found := annotations[key]; return found })
}

// fillJob sets d.Min to the min-available of the pods or of the Job, but at most to the number of pods that the Job still runs.
func fillJob(d *Declaration, g Gang) {
	d.addOwner(g)
	d.addPod(g)
	d.Min, d.Completed = max(1, g.Owner.Remaining), g.Owner.Succeeded
	pod := firstPod(g.allPods(), func(pod *v1.Pod) bool { _, found := pod.Annotations[scheduling.AnnotationMinAvailable]; return found })
	value, found := g.Owner.value(scheduling.AnnotationMinAvailable)
	if pod != nil { // the pods' own value makes them a gang, so it takes precedence
		value, found = pod.Annotations[scheduling.AnnotationMinAvailable], true
	}
	if !found {
		return
	}
	n, err := scheduling.ParseMinAvailable(value)
	if err == nil && n > g.Owner.Size {
		err = fmt.Errorf("%s: %d is invalid; write at most %d, the pods of %s that run at a time",
			scheduling.AnnotationMinAvailable, n, g.Owner.Size, g.Owner.Key)
		// The parallelism of a running gang was lowered: the gang continues with fewer.
		if d.DependsOnMembers = true; g.hasStarted() {
			d.note(reasons.InvalidAnnotation, fmt.Sprintf("%s; %d is used, because some pods run", err, d.Min))
			return
		}
	}
	if err != nil {
		d.setProblem(err)
		return
	}
	d.Min = min(d.Min, n)
}
