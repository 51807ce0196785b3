package workloads

import (
	"cmp"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of Volcano, on pods and on their owners.
const (
	VolcanoGroup      = "scheduling.k8s.io/group-name"
	VolcanoGroupOther = "scheduling.volcano.sh/group-name"
	VolcanoMode       = "volcano.sh/network-topology-mode"
	VolcanoTier       = "volcano.sh/network-topology-highest-tier"
)

// VolcanoGroupOf returns the PodGroup that annotations of a pod name; "" if they name none.
func VolcanoGroupOf(annotations map[string]string) string {
	return cmp.Or(annotations[VolcanoGroup], annotations[VolcanoGroupOther])
}

// VolcanoSpec is the spec of Volcano's PodGroup.
type VolcanoSpec struct {
	MinMember         int32               `json:"minMember"`
	MinTaskMember     map[string]int32    `json:"minTaskMember" min:"0"`
	MinResources      corev1.ResourceList `json:"minResources" min:"0"`
	Queue             string              `json:"queue"`
	PriorityClassName string              `json:"priorityClassName"`
	NetworkTopology   *NetworkTopology    `json:"networkTopology"`
	SubGroupPolicy    []SubGroupPolicy    `json:"subGroupPolicy"`
}

// TaskMembers returns the sum of minTaskMember, at most the largest int32.
func (s *VolcanoSpec) TaskMembers() int32 {
	sum := int64(0)
	for _, n := range s.MinTaskMember {
		sum += int64(n)
	}
	return int32(min(sum, math.MaxInt32))
}

// SubGroupPolicy is a policy by which members form sub-groups.
type SubGroupPolicy struct {
	Name            string                `json:"name"`
	SubGroupSize    *int32                `json:"subGroupSize" min:"1"`
	MinSubGroups    int32                 `json:"minSubGroups" min:"0"`
	LabelSelector   *metav1.LabelSelector `json:"labelSelector"`
	MatchLabelKeys  []string              `json:"matchLabelKeys"`
	NetworkTopology *NetworkTopology      `json:"networkTopology"`
}

// NetworkTopology is Volcano's networkTopology, which LeaderWorkerSets and sub-groups have, too.
type NetworkTopology struct {
	Mode               string `json:"mode,omitempty"`
	HighestTierAllowed *int32 `json:"highestTierAllowed,omitempty"`
	HighestTierName    string `json:"highestTierName,omitempty"`
}
