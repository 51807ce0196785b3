package workload

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// JobSetKind is what is read of JobSets.
var JobSetKind = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}

// JobSet is a JobSet as far as its pods depend on it. The other fields only have names.
type JobSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
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
	} `json:"spec,omitempty"`
	Status any `json:"status,omitempty"`
}

// ReplicatedJob is a template of Jobs that are alike.
type ReplicatedJob struct {
	Name      string                  `json:"name"`
	GroupName string                  `json:"groupName,omitempty"`
	Template  batchv1.JobTemplateSpec `json:"template"`
	Replicas  *int32                  `json:"replicas,omitempty"`
	DependsOn []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	} `json:"dependsOn,omitempty"`
}

// Keys that JobSet's controller and webhooks set, all of them labels and annotations; the last
// four are what users ask with.
const (
	jobSetName       = "jobset.sigs.k8s.io/jobset-name"
	jobSetUID        = "jobset.sigs.k8s.io/jobset-uid"
	jobSetRestart    = "jobset.sigs.k8s.io/restart-attempt"
	jobSetReplicated = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetReplicas   = "jobset.sigs.k8s.io/replicatedjob-replicas"
	jobSetAll        = "jobset.sigs.k8s.io/global-replicas"
	jobSetIndex      = "jobset.sigs.k8s.io/job-index"
	jobSetKey        = "jobset.sigs.k8s.io/job-key"
	jobSetIndexOfAll = "jobset.sigs.k8s.io/job-global-index"
	jobSetGroup      = "jobset.sigs.k8s.io/group-name"
	jobSetGroupSize  = "jobset.sigs.k8s.io/group-replicas"
	jobSetGroupIndex = "jobset.sigs.k8s.io/job-group-index"
	jobSetCoordinate = "jobset.sigs.k8s.io/coordinator"
	jobSetPriority   = "jobset.sigs.k8s.io/priority"

	jobSetExclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetSelects   = "alpha.jobset.sigs.k8s.io/node-selector"
	jobSetNodeOf    = "alpha.jobset.sigs.k8s.io/namespaced-job"
	jobSetTaint     = "alpha.jobset.sigs.k8s.io/no-schedule"
)

const jobSetController = "jobset.sigs.k8s.io/jobset-controller"
