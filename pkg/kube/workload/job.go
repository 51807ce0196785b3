package workload

import (
	"maps"
	"math"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

const jobController = "kubernetes.io/job-controller"

// userJob adds the pods of a Job that the user wrote: only the pods that run first, since no pod finishes in a simulation.
func (m *maker) userJob(j *batchv1.Job) field.ErrorList {
	if reason := idleReason(j); reason != "" {
		m.note("Job", j.Namespace, j.Name, reason)
		return checkJob(j, field.NewPath("spec"))
	}
	pods, errs := jobPods(j, field.NewPath("spec"))
	for _, p := range pods {
		m.add(p)
	}
	return errs
}

// idleReason returns why a Job has no pods; "" if it has pods.
func idleReason(j *batchv1.Job) string {
	if manager := ptr.Deref(j.Spec.ManagedBy, jobController); manager != jobController {
		return "no pods, since spec.managedBy is " + strconv.Quote(manager)
	}
	if ptr.Deref(j.Spec.Suspend, false) {
		return "no pods, since spec.suspend is true"
	}
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == v1.ConditionTrue {
			return "no pods, since its condition " + string(c.Type) + " is True"
		}
	}
	return ""
}

// jobPods returns the first pods of a Job. Each index has one pod, <job>-<index>-<letters>.
func jobPods(j *batchv1.Job, path *field.Path) (pods []*v1.Pod, errs field.ErrorList) {
	if errs := checkJob(j, path); len(errs) > 0 {
		return nil, errs
	}
	active := ptr.Deref(j.Spec.Parallelism, 1)
	if j.Spec.Completions != nil {
		active = min(active, *j.Spec.Completions)
	}
	t := j.Spec.Template.DeepCopy()
	if !ptr.Deref(j.Spec.ManualSelector, false) {
		t.Labels = mergeMaps(t.Labels, map[string]string{
			batchv1.JobNameLabel: j.Name, batchv1.ControllerUidLabel: string(j.UID),
			"job-name": j.Name, "controller-uid": string(j.UID), // as before 1.27
		})
	}
	d := j.Spec.ActiveDeadlineSeconds
	if d != nil && j.Status.StartTime == nil && *d < ptr.Deref(t.Spec.ActiveDeadlineSeconds, math.MaxInt64) {
		t.Spec.ActiveDeadlineSeconds = d // no Job controller ends the pods; without a start, the time counts from their nodes
	}
	names := namer{}
	for i := range int(active) {
		pod := podOf(t, j, jobKind)
		if isIndexed(j) {
			setIndex(pod, j, i)
			ending := "-" + strconv.Itoa(i) + "-"
			pod.Name = names.complete(j.Name[:min(len(j.Name), maxPrefix-len(ending))] + ending)
		} else {
			pod.Name = names.complete(j.Name + "-")
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func isIndexed(j *batchv1.Job) bool {
	return ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// setIndex sets the index of a pod.
func setIndex(pod *v1.Pod, j *batchv1.Job, i int) {
	annotation := map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(i)}
	pod.Labels = mergeMaps(pod.Labels, annotation)
	pod.Annotations = mergeMaps(pod.Annotations, annotation)
	if j.Spec.BackoffLimitPerIndex != nil {
		pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = "0"
	}
	pod.Spec.Hostname = j.Name + "-" + strconv.Itoa(i)
}

// checkJob returns errors for the fields of a Job on which its pods depend. path is the Job's spec.
func checkJob(j *batchv1.Job, path *field.Path) (errs field.ErrorList) {
	if problems := checkName(j); len(problems) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), j.Name, strings.Join(problems, "; ")))
	}
	errs = append(errs, checkCount(int64(ptr.Deref(j.Spec.Parallelism, 1)), path.Child("parallelism"))...)
	if c := j.Spec.Completions; c != nil && *c < 0 {
		errs = append(errs, field.Invalid(path.Child("completions"), *c, "must be greater than or equal to 0"))
	}
	switch mode := ptr.Deref(j.Spec.CompletionMode, batchv1.NonIndexedCompletion); mode {
	case batchv1.NonIndexedCompletion:
	case batchv1.IndexedCompletion:
		if j.Spec.Completions == nil {
			errs = append(errs, field.Required(path.Child("completions"), "when completion mode is Indexed"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("completionMode"), mode,
			[]batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	}
	if ptr.Deref(j.Spec.ManualSelector, false) {
		errs = append(errs, checkSelector(j.Spec.Selector, &j.Spec.Template, path)...)
	}
	templatePath := path.Child("template")
	errs = append(errs, checkTemplate(&j.Spec.Template, templatePath, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)...)
	if j.Spec.Template.Spec.RestartPolicy == "" {
		errs = append(errs, field.Required(templatePath.Child("spec", "restartPolicy"), "valid values: OnFailure, Never"))
	}
	return errs
}

// checkName returns why a Job's name cannot become a label, or the host name of its last index. An empty name is accepted: the
// Job is not made yet.
func checkName(j *batchv1.Job) []string {
	if j.Name == "" {
		return nil
	}
	if lastIndex := ptr.Deref(j.Spec.Completions, 0) - 1; isIndexed(j) && lastIndex >= 0 {
		host := j.Name + "-" + strconv.Itoa(int(lastIndex))
		if problems := validation.IsDNS1123Label(host); len(problems) > 0 {
			return append([]string{"the last pod's host name would be " + host}, problems...)
		}
	}
	return validation.IsValidLabelValue(j.Name)
}

// mergeMaps returns a map with the entries of m and additions. For a key in both, m's value wins.
func mergeMaps(m, additions map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, additions)
	maps.Copy(out, m)
	return out
}
