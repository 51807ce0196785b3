package workload

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// LeaderWorkerSetKind is what is read of LeaderWorkerSets.
var LeaderWorkerSetKind = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}

// LeaderWorkerSet is a LeaderWorkerSet as far as its pods depend on it. The other fields only
// have names.
type LeaderWorkerSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Replicas             *int32               `json:"replicas,omitempty"`
		LeaderWorkerTemplate LeaderWorkerTemplate `json:"leaderWorkerTemplate"`
		StartupPolicy        string               `json:"startupPolicy,omitempty"`
		NetworkConfig        *struct {
			SubdomainPolicy *string `json:"subdomainPolicy,omitempty"`
		} `json:"networkConfig,omitempty"`

		RolloutStrategy any `json:"rolloutStrategy,omitempty"`
		NetworkTopology any `json:"networkTopology,omitempty"`
	} `json:"spec,omitempty"`
	Status any `json:"status,omitempty"`
}

// LeaderWorkerTemplate is a template of groups that are alike.
type LeaderWorkerTemplate struct {
	LeaderTemplate *v1.PodTemplateSpec `json:"leaderTemplate,omitempty"`
	WorkerTemplate v1.PodTemplateSpec  `json:"workerTemplate"`
	Size           *int32              `json:"size,omitempty"`
	SubGroupPolicy *struct {
		Type *string `json:"subGroupPolicyType,omitempty"`
		Size *int32  `json:"subGroupSize,omitempty"`
	} `json:"subGroupPolicy,omitempty"`
	VolumeClaimTemplates []v1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	RestartPolicy                        any `json:"restartPolicy,omitempty"`
	PersistentVolumeClaimRetentionPolicy any `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
}

// Keys that LeaderWorkerSet's controllers and webhook set, and what users ask with.
const (
	lwsName        = "leaderworkerset.sigs.k8s.io/name"
	lwsGroupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
	lwsGroupKey    = "leaderworkerset.sigs.k8s.io/group-key"
	lwsWorkerIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	lwsRevision    = "leaderworkerset.sigs.k8s.io/template-revision-hash"
	lwsSubIndex    = "leaderworkerset.sigs.k8s.io/subgroup-index"
	lwsSubKey      = "leaderworkerset.sigs.k8s.io/subgroup-key"

	lwsSize       = "leaderworkerset.sigs.k8s.io/size"
	lwsLeaderName = "leaderworkerset.sigs.k8s.io/leader-name"
	lwsSubSize    = "leaderworkerset.sigs.k8s.io/subgroup-size"
	lwsSubType    = "leaderworkerset.sigs.k8s.io/subgroup-policy-type"
	lwsSubdomain  = "leaderworkerset.sigs.k8s.io/subdomainPolicy"

	lwsExclusive    = "leaderworkerset.sigs.k8s.io/exclusive-topology"
	lwsSubExclusive = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
)

const (
	leaderCreated    = "LeaderCreated"
	leaderReady      = "LeaderReady"
	leaderWorker     = "LeaderWorker"
	leaderExcluded   = "LeaderExcluded"
	shared           = "Shared"
	uniquePerReplica = "UniquePerReplica"
)
