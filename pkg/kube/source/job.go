package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// trimJob leaves of a Job's template which scheduler its pods have, and their annotations: clusters have many Jobs.
func trimJob(u *unstructured.Unstructured) {
	spec, _ := u.Object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	if pod, ok := template["spec"].(map[string]any); ok {
		template["spec"] = map[string]any{"schedulerName": pod["schedulerName"]}
	}
}

// readJob reads how many pods of a Job run at a time, and how many still do when some have finished. The user does not write
// the status, so errors in it have no effect.
func readJob(u *unstructured.Unstructured, out *Owned) error {
	var spec workloads.JobSpec
	var status batchv1.JobStatus
	err := workloads.Read(u, "spec", &spec)
	_ = workloads.Read(u, "status", &status)
	out.Size, out.Left, out.Succeeded = int(spec.Pods()), int(spec.Left(&status)), int(spec.Succeeded(&status))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Labels: u.GetLabels(), Annotations: out.Words}} // labelled alike
	if name := jobSetGang(pod); name != "" {
		out.Parent, out.Makes = OwnerKey{workloads.JobSetKind.Kind, u.GetNamespace(), pod.Labels[workloads.JobSetName]}, gang.Ref{Source: jobSetSpace, Namespace: pod.Namespace, Name: name, UID: pod.Labels[workloads.JobSetUID]}
	}
	template := &spec.Template
	if keys := meant(out.Words); len(keys) > 0 && !gathers(template.Metadata.Annotations) {
		out.Scheduler = cmp.Or(template.Spec.SchedulerName, v1.DefaultSchedulerName)
		out.Unheeded = fmt.Sprintf("%s: no effect on a Job without a gang; supported values: in spec.template.metadata.annotations", strings.Join(keys, ", "))
	}
	return err
}

// job is a Job whose pods say how they gather, or how many must start together. Other Jobs are no
// gangs: their pods need not run at the same time.
var job = Source{
	Way:       "label " + v1JobName + " and an annotation of how pods gather, or " + scheduling.AnnotationMinAvailable,
	Space:     "job",
	Implied:   true,
	NameOf:    jobGang,
	UIDOf:     func(pod *v1.Pod) string { return pod.Labels[v1JobUID] },
	Owner:     jobs,
	OwnerName: func(pod *v1.Pod) string { return pod.Labels[v1JobName] },
	Needs:     true,
	Fill:      fillJob,
}

const (
	v1JobName = "batch.kubernetes.io/job-name"
	v1JobUID  = "batch.kubernetes.io/controller-uid"
)

func jobGang(pod *v1.Pod) string {
	name := pod.Labels[v1JobName]
	if name == "" || len(pod.Annotations) == 0 {
		return ""
	}
	if gathers(pod.Annotations) {
		return name
	}
	return ""
}

// gathers says whether annotations of a Job's pods make these a gang.
func gathers(annotations map[string]string) bool {
	_, least := annotations[scheduling.AnnotationMinAvailable]
	return least || slices.ContainsFunc(ruleKeys, func(key string) bool { _, says := annotations[key]; return says })
}

// fillJob: as many as the pods say must start together, or as run at a time; never more than the controller still makes.
func fillJob(d *Declaration, g Gang) {
	d.speakerOwner(g)
	d.speakerPod(g)
	d.Min, d.Completed = max(1, g.Owner.Left), g.Owner.Succeeded
	pod := first(g.any(), func(pod *v1.Pod) bool { _, says := pod.Annotations[scheduling.AnnotationMinAvailable]; return says })
	value, says := g.Owner.says(scheduling.AnnotationMinAvailable)
	if pod != nil { // they were there first: without them it would be no gang
		value, says = pod.Annotations[scheduling.AnnotationMinAvailable], true
	}
	if !says {
		return
	}
	n, err := scheduling.ParseMinAvailable(value)
	if err == nil && n > g.Owner.Size {
		err = fmt.Errorf("%s: %d is invalid; supported values: at most %d, the pods of %s that run at a time", scheduling.AnnotationMinAvailable, n, g.Owner.Size, g.Owner.Key)
		// Of a gang that runs somebody has lowered the parallelism: it goes on with fewer.
		if d.Counts = true; g.begun() {
			d.note(InvalidAnnotation, fmt.Sprintf("%s; %d is used, since some of them run", err, d.Min))
			return
		}
	}
	if err != nil {
		d.problem(err)
		return
	}
	d.Min = min(d.Min, n)
}
