package workload

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

const jobSetController = "jobset.sigs.k8s.io/jobset-controller"

// JobSet's labels, annotations and taint that only the created pods have.
const (
	jobSetReplicas   = "jobset.sigs.k8s.io/replicatedjob-replicas"
	jobSetAll        = "jobset.sigs.k8s.io/global-replicas"
	jobSetKey        = "jobset.sigs.k8s.io/job-key"
	jobSetIndexOfAll = "jobset.sigs.k8s.io/job-global-index"
	jobSetGroup      = "jobset.sigs.k8s.io/group-name"
	jobSetGroupSize  = "jobset.sigs.k8s.io/group-replicas"
	jobSetGroupIndex = "jobset.sigs.k8s.io/job-group-index"
	jobSetCoordinate = "jobset.sigs.k8s.io/coordinator"
	jobSetPriority   = "jobset.sigs.k8s.io/priority"
	jobSetNodeOf     = "alpha.jobset.sigs.k8s.io/namespaced-job"
	jobSetTaint      = "alpha.jobset.sigs.k8s.io/no-schedule"
)

// jobSet adds the pods of a JobSet's Jobs, <set>-<replicated job>-<index>, which are Indexed by default. Pods that start after other pods
// have these in After: with InOrder, dependsOn or exclusive-topology.
func (m *maker) jobSet(u *unstructured.Unstructured) field.ErrorList {
	s := jobSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s.JobSet); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	s.setDefaults()
	if errs := s.check(); len(errs) > 0 {
		return errs
	}
	switch manager := ptr.Deref(s.Spec.ManagedBy, jobSetController); {
	case manager != jobSetController:
		m.note("JobSet", s.Namespace, s.Name, "no pods, since spec.managedBy is "+strconv.Quote(manager))
		return nil
	case ptr.Deref(s.Spec.Suspend, false):
		m.note("JobSet", s.Namespace, s.Name, "no pods, since spec.suspend is true")
		return nil
	}
	if s.hasHostnames() {
		m.add(headlessService(s.subdomain(), &s, workloads.JobSetKind, map[string]string{workloads.JobSetName: s.Name}))
	}
	pods := map[string][]string{} // by replicated job, the names of its pods
	var allPods []string
	for i := range s.Spec.ReplicatedJobs {
		r := &s.Spec.ReplicatedJobs[i]
		prerequisites, reason := s.prerequisites(r, allPods, pods)
		if reason != "" {
			m.note("JobSet", s.Namespace, s.Name, fmt.Sprintf("no pods of replicated job %s, since %s", r.Name, reason))
			continue
		}
		names, errs := m.replicatedJob(&s, i, prerequisites)
		if len(errs) > 0 {
			return errs
		}
		pods[r.Name] = names
		allPods = append(allPods[:len(allPods):len(allPods)], names...)
	}
	return nil
}

// jobSet is a JobSet, with methods that return its Jobs and their names and labels.
type jobSet struct{ workloads.JobSet }

// setDefaults sets the defaults of JobSet's CRD and webhook.
func (s *jobSet) setDefaults() {
	for i := range s.Spec.ReplicatedJobs {
		r := &s.Spec.ReplicatedJobs[i]
		r.GroupName = cmp.Or(r.GroupName, "default")
		if r.Replicas == nil {
			r.Replicas = ptr.To[int32](1)
		}
		if r.Template.Spec.CompletionMode == nil {
			r.Template.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		}
		pod := &r.Template.Spec.Template.Spec
		pod.RestartPolicy = cmp.Or(pod.RestartPolicy, v1.RestartPolicyOnFailure)
		job := &batchv1.Job{Spec: r.Template.Spec}
		legacyscheme.Scheme.Default(job)
		r.Template.Spec = job.Spec
	}
}

// check returns errors for the fields on which the pods depend.
func (s *jobSet) check() (errs field.ErrorList) {
	path := field.NewPath("spec")
	if p := s.Spec.StartupPolicy; p != nil && p.StartupPolicyOrder != "AnyOrder" && p.StartupPolicyOrder != "InOrder" {
		errs = append(errs,
			field.NotSupported(path.Child("startupPolicy", "startupPolicyOrder"), p.StartupPolicyOrder, []string{"AnyOrder", "InOrder"}))
	}
	names := map[string]bool{}
	total := int64(0)
	for i, r := range s.Spec.ReplicatedJobs {
		jobPath := path.Child("replicatedJobs").Index(i)
		if r.Name == "" {
			errs = append(errs, field.Required(jobPath.Child("name"), ""))
		}
		if names[r.Name] {
			errs = append(errs, field.Duplicate(jobPath.Child("name"), r.Name))
		}
		for n, d := range r.DependsOn {
			if !names[d.Name] {
				errs = append(errs,
					field.Invalid(jobPath.Child("dependsOn").Index(n).Child("name"), d.Name, "must be a replicated job that is listed before"))
			}
			if d.Status != "Ready" && d.Status != "Complete" {
				errs = append(errs, field.NotSupported(jobPath.Child("dependsOn").Index(n).Child("status"), d.Status, []string{"Ready", "Complete"}))
			}
		}
		names[r.Name] = true
		errs = append(errs, checkCount(int64(*r.Replicas), jobPath.Child("replicas"))...)
		errs = append(errs, checkJob(&batchv1.Job{Spec: r.Template.Spec}, jobPath.Child("template", "spec"))...)
		total += int64(*r.Replicas) * int64(ptr.Deref(r.Template.Spec.Parallelism, 1))
	}
	if len(errs) == 0 && total > MaxPods {
		errs = append(errs,
			field.Invalid(path.Child("replicatedJobs"), total, "replicas × parallelism of all must be less than or equal to 100000 in a simulation"))
	}
	return errs
}

// prerequisites returns the pods that must run before r's pods are created, or in reason why these are never created. earlierPods are
// all pods of the earlier replicated jobs.
func (s *jobSet) prerequisites(
	r *workloads.ReplicatedJob, earlierPods []string, pods map[string][]string,
) (prerequisites []string, reason string) {
	if s.Spec.InOrder() {
		return earlierPods, ""
	}
	for _, d := range r.DependsOn {
		names, exists := pods[d.Name]
		switch {
		case !exists:
			return nil, "it depends on " + d.Name + ", which has none"
		case d.Status == "Complete" && len(names) > 0:
			return nil, "it waits until " + d.Name + " is complete, and nothing ends in a simulation"
		}
		prerequisites = append(prerequisites, names...)
	}
	return prerequisites, ""
}

// replicatedJob adds the pods of replicated job i and returns their names.
func (m *maker) replicatedJob(s *jobSet, i int, prerequisites []string) (names []string, errs field.ErrorList) {
	path := field.NewPath("spec", "replicatedJobs").Index(i).Child("template", "spec")
	for index := range int(*s.Spec.ReplicatedJobs[i].Replicas) {
		job := s.job(i, index)
		job.UID = m.api.UID("Job", job.Name)
		if job.Annotations[workloads.JobSetExclusive] != "" && !isIndexed(job) {
			m.note("JobSet", s.Namespace, s.Name, "no pods of Job "+job.Name+
				", since with exclusive-topology they wait for that of index 0, and completionMode is NonIndexed")
			continue
		}
		pods, errs := jobPods(job, path)
		if len(errs) > 0 {
			return nil, errs
		}
		for n, pod := range pods {
			names = append(names, pod.Name)
			m.out.Objects = append(m.out.Objects, m.exclusive(Object{Object: pod, After: prerequisites}, pods[0].Name, n == 0))
		}
	}
	return names, nil
}

// job returns the Job with this index of replicated job i.
func (s *jobSet) job(i, index int) *batchv1.Job {
	r := &s.Spec.ReplicatedJobs[i]
	keys, annotations := s.keys(i, index)
	annotations = mergeMaps(annotations, keys)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.jobName(r, index),
			Labels: mergeMaps(keys, r.Template.Labels), Annotations: mergeMaps(annotations, r.Template.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, workloads.JobSetKind)},
		},
		Spec: *r.Template.Spec.DeepCopy(),
	}
	t := &job.Spec.Template
	t.Labels, t.Annotations = mergeMaps(keys, t.Labels), mergeMaps(annotations, t.Annotations)
	if s.hasHostnames() {
		t.Spec.Subdomain = s.subdomain()
	}
	if job.Annotations[workloads.JobSetExclusive] != "" && job.Annotations[workloads.JobSetSelects] != "" {
		t.Spec.NodeSelector = mergeMaps(map[string]string{jobSetNodeOf: job.Namespace + "_" + job.Name}, t.Spec.NodeSelector)
		t.Spec.Tolerations = append(t.Spec.Tolerations, v1.Toleration{
			Key: jobSetTaint, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule,
		})
	}
	job.Spec.Suspend = ptr.To(false)
	return job
}

// keys returns the labels of a Job and its pods, which are annotations too, and the annotations. A replicated job's own values
// take precedence over the JobSet's.
func (s *jobSet) keys(i, index int) (labels, annotations map[string]string) {
	r := &s.Spec.ReplicatedJobs[i]
	var total, offset, groupTotal, groupOffset int
	for n, job := range s.Spec.ReplicatedJobs {
		replicas := int(*job.Replicas)
		total += replicas
		if n < i {
			offset += replicas
		}
		if job.GroupName == r.GroupName {
			groupTotal += replicas
			if n < i {
				groupOffset += replicas
			}
		}
	}
	labels = map[string]string{
		workloads.JobSetName: s.Name, workloads.JobSetUID: string(s.UID), workloads.JobSetRestart: "0",
		workloads.JobSetReplicated: r.Name, jobSetReplicas: strconv.Itoa(int(*r.Replicas)), jobSetAll: strconv.Itoa(total),
		workloads.JobSetIndex: strconv.Itoa(index), jobSetIndexOfAll: strconv.Itoa(offset + index),
		jobSetKey:   sha1Hash(s.Namespace + "/" + s.jobName(r, index)),
		jobSetGroup: r.GroupName, jobSetGroupSize: strconv.Itoa(groupTotal), jobSetGroupIndex: strconv.Itoa(groupOffset + index),
	}
	if c := s.Spec.Coordinator; c != nil {
		labels[jobSetCoordinate] = fmt.Sprintf("%s-%s-%d-%d.%s", s.Name, c.ReplicatedJob, c.JobIndex, c.PodIndex, s.subdomain())
	}
	annotations = map[string]string{}
	for _, source := range []map[string]string{s.Annotations, r.Template.Annotations} {
		if source[workloads.JobSetExclusive] == "" {
			continue
		}
		annotations[workloads.JobSetExclusive] = source[workloads.JobSetExclusive]
		if value, ok := source[workloads.JobSetSelects]; ok {
			annotations[workloads.JobSetSelects] = value
		}
	}
	return labels, annotations
}

// exclusive returns o, changed as JobSet's webhook does. Every pod gets the label that the anti-affinity of other Jobs selects. With
// exclusive topology, the first pod gets affinity for a domain of its own. The Job's other pods are created when firstPod has a node.
func (m *maker) exclusive(o Object, firstPod string, isFirst bool) Object {
	pod := o.Object.(*v1.Pod)
	key := pod.Annotations[workloads.JobSetExclusive]
	if pod.Annotations[workloads.JobSetSelects] != "" {
		return o
	}
	priority := strconv.Itoa(int(ptr.Deref(pod.Spec.Priority, m.api.Priority(pod.Spec.PriorityClassName))))
	pod.Labels[jobSetPriority] = strings.Replace(priority, "-", "n", 1)
	if key == "" {
		return o
	}
	if !isFirst {
		o.After, o.Near = append([]string{firstPod}, o.After...), key
		return o
	}
	addExclusiveTerms(pod, key, jobSetKey, &metav1.LabelSelector{}, metav1.LabelSelectorRequirement{
		Key: jobSetPriority, Operator: metav1.LabelSelectorOpIn, Values: []string{pod.Labels[jobSetPriority]},
	})
	return o
}

func (s *jobSet) jobName(r *workloads.ReplicatedJob, index int) string {
	return fmt.Sprintf("%s-%s-%d", s.Name, r.Name, index)
}

func (s *jobSet) hasHostnames() bool {
	return s.Spec.Network == nil || ptr.Deref(s.Spec.Network.EnableDNSHostnames, true)
}

func (s *jobSet) subdomain() string {
	if s.Spec.Network == nil {
		return s.Name
	}
	return cmp.Or(s.Spec.Network.Subdomain, s.Name)
}
