package workloads

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// JobSetKind is the version of JobSet that Muster reads.
var JobSetKind = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}

// JobSet has the fields on which its pods depend. Fields of type any are accepted and not read.
//
// In the type of sigs.k8s.io/jobset, replicas: 0 and absent replicas are equal (docs/decisions/0032-api-types.md).
type JobSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              JobSetSpec `json:"spec,omitempty"`
	Status            any        `json:"status,omitempty"`
}

// JobSetSpec is the spec of a JobSet.
type JobSetSpec struct {
	ReplicatedJobs []ReplicatedJob `json:"replicatedJobs,omitempty"`
	Network        *struct {
		EnableDNSHostnames       *bool  `json:"enableDNSHostnames,omitempty"`
		Subdomain                string `json:"subdomain,omitempty"`
		PublishNotReadyAddresses *bool  `json:"publishNotReadyAddresses,omitempty"`
	} `json:"network,omitempty"`
	StartupPolicy *struct {
		StartupPolicyOrder string `json:"startupPolicyOrder"`
	} `json:"startupPolicy,omitempty"`
	Coordinator *struct {
		ReplicatedJob string `json:"replicatedJob"`
		JobIndex      int    `json:"jobIndex,omitempty"`
		PodIndex      int    `json:"podIndex,omitempty"`
	} `json:"coordinator,omitempty"`
	Suspend   *bool   `json:"suspend,omitempty"`
	ManagedBy *string `json:"managedBy,omitempty"`

	SuccessPolicy           any `json:"successPolicy,omitempty"`
	FailurePolicy           any `json:"failurePolicy,omitempty"`
	TTLSecondsAfterFinished any `json:"ttlSecondsAfterFinished,omitempty"`
}

// ReplicatedJob is a template of equal Jobs.
type ReplicatedJob struct {
	Name      string                  `json:"name"`
	GroupName string                  `json:"groupName,omitempty"`
	Template  batchv1.JobTemplateSpec `json:"template"`
	Replicas  *int32                  `json:"replicas,omitempty" min:"0"`
	DependsOn []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	} `json:"dependsOn,omitempty"`
}

// JobSetStatus is the progress of a JobSet.
type JobSetStatus struct {
	Restarts             int32 `json:"restarts"`
	ReplicatedJobsStatus []struct {
		Name      string `json:"name"`
		Succeeded int32  `json:"succeeded"`
	} `json:"replicatedJobsStatus"`
}

// InOrder says whether the ReplicatedJobs start one after the other.
func (s *JobSetSpec) InOrder() bool {
	return s.StartupPolicy != nil && s.StartupPolicy.StartupPolicyOrder == "InOrder"
}

// InTurn says whether a ReplicatedJob waits for another one.
func (s *JobSetSpec) InTurn() bool {
	for i := range s.ReplicatedJobs {
		if len(s.ReplicatedJobs[i].DependsOn) > 0 {
			return true
		}
	}
	return s.InOrder()
}

// Jobs returns the number of Jobs.
func (j *ReplicatedJob) Jobs() int32 { return OrOne(j.Replicas) }

// Pods returns how many pods of each of its Jobs run at a time.
func (j *ReplicatedJob) Pods() int32 {
	return Parallel(j.Template.Spec.Parallelism, j.Template.Spec.Completions)
}

// Parallel returns how many pods of a Job run at a time: the minimum of parallelism (default 1) and completions, if set.
func Parallel(parallelism, completions *int32) int32 {
	n := OrOne(parallelism)
	if completions != nil {
		n = min(n, *completions)
	}
	return max(0, n)
}

// OrOne returns *n, or 1 if n is nil.
func OrOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// Labels and annotations that JobSet's controller and webhooks set. A user sets the last two.
const (
	JobSetName       = "jobset.sigs.k8s.io/jobset-name"
	JobSetUID        = "jobset.sigs.k8s.io/jobset-uid"
	JobSetRestart    = "jobset.sigs.k8s.io/restart-attempt"
	JobSetReplicated = "jobset.sigs.k8s.io/replicatedjob-name"
	JobSetIndex      = "jobset.sigs.k8s.io/job-index"
	JobSetExclusive  = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	JobSetSelects    = "alpha.jobset.sigs.k8s.io/node-selector" // exclusive without waiting for a leader
)
