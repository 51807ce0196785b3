package podgang

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Annotations of Volcano, on pods and on what owns them.
const (
	AnnotationGroupName      = "scheduling.k8s.io/group-name"
	annotationGroupNameOther = "scheduling.volcano.sh/group-name"
	AnnotationMode           = "volcano.sh/network-topology-mode"
	AnnotationTier           = "volcano.sh/network-topology-highest-tier"
)

// networkTopology is Volcano's, in its own PodGroup, in a LeaderWorkerSet whose CRD has it, and in sub-groups.
type networkTopology struct {
	Mode               string `json:"mode"`
	HighestTierAllowed *int32 `json:"highestTierAllowed"`
	HighestTierName    string `json:"highestTierName"`
}

func (n *networkTopology) constraint(where string) *TopologyConstraint {
	if n == nil {
		return nil
	}
	return &TopologyConstraint{Where: where, Tiers: &Tiers{n.Mode, n.HighestTierAllowed, n.HighestTierName}}
}

// annotated is what annotations say of how pods gather: network-topology-spec counts before tiers. A tier that is no
// number is Volcano's hard without a tier, and said to be so.
func annotated(whose string, annotations map[string]string) (out []*TopologyConstraint) {
	if spec := annotations[scheduling.AnnotationTopologySpec]; spec != "" {
		out = append(out, &TopologyConstraint{Where: whose + "annotation " + scheduling.AnnotationTopologySpec, Spec: spec})
	}
	mode, hasMode := annotations[AnnotationMode]
	tier, hasTier := annotations[AnnotationTier]
	if hasMode || hasTier {
		tiers := &Tiers{Mode: mode}
		if n, err := strconv.ParseInt(tier, 10, 32); err == nil {
			k := int32(n)
			tiers.HighestTier = &k
		}
		out = append(out, &TopologyConstraint{Where: whose + "annotations volcano.sh/network-topology", Tiers: tiers})
	}
	return out
}

type volcanoPodGroup struct {
	Spec struct {
		MinMember         int32               `json:"minMember"`
		MinTaskMember     map[string]int32    `json:"minTaskMember"`
		MinResources      corev1.ResourceList `json:"minResources"`
		Queue             string              `json:"queue"`
		PriorityClassName string              `json:"priorityClassName"`
		NetworkTopology   *networkTopology    `json:"networkTopology"`
		SubGroupPolicy    []subGroupPolicy    `json:"subGroupPolicy"`
	} `json:"spec"`
}

type subGroupPolicy struct {
	Name            string                `json:"name"`
	SubGroupSize    *int32                `json:"subGroupSize"`
	MinSubGroups    *int32                `json:"minSubGroups"`
	LabelSelector   *metav1.LabelSelector `json:"labelSelector"`
	MatchLabelKeys  []string              `json:"matchLabelKeys"`
	NetworkTopology *networkTopology      `json:"networkTopology"`
}

// FromVolcanoPodGroup builds the gang of Volcano's PodGroup: one group, with its policies of sub-groups. pods are those
// that name it.
func FromVolcanoPodGroup(pg *unstructured.Unstructured, pods []metav1.Object) (*PodGangInfo, error) {
	var in volcanoPodGroup
	if err := read(pg, &in); err != nil {
		return nil, err
	}
	out := newInfo(pg, VolcanoPodGroup, pg.GetName())
	out.Queue, out.PriorityClassName = in.Spec.Queue, in.Spec.PriorityClassName
	out.TopologyConstraint = in.Spec.NetworkTopology.constraint("spec.networkTopology")
	if said := annotated("", pg.GetAnnotations()); out.TopologyConstraint == nil && len(said) > 0 {
		out.TopologyConstraint = said[0]
	}
	group := PodGroupInfo{Name: pg.GetName(), MinReplicas: in.least(), MinResources: in.Spec.MinResources}
	for _, pod := range pods {
		if !leaving(pod) {
			group.PodReferences = append(group.PodReferences, types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()})
		}
	}
	slices.SortFunc(group.PodReferences, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range in.Spec.SubGroupPolicy {
		s := SubGroupInfo{
			Name: p.Name, Size: orOne(p.SubGroupSize), LabelSelector: p.LabelSelector, MatchLabelKeys: p.MatchLabelKeys,
			TopologyConstraint: p.NetworkTopology.constraint(fmt.Sprintf("spec.subGroupPolicy[%d].networkTopology", i)),
		}
		if p.MinSubGroups != nil {
			s.Least = *p.MinSubGroups
		}
		if s.Name == "" || s.Size < 1 || s.Least < 0 {
			return nil, illegal(pg, "spec.subGroupPolicy[%d]: name %q, subGroupSize %d, minSubGroups %d; legal: a name, an integer ≥ 1, an integer ≥ 0", i, s.Name, s.Size, s.Least)
		}
		group.SubGroups = append(group.SubGroups, s)
	}
	out.PodGroups = []PodGroupInfo{group}
	return out, nil
}

// least is minMember, or the sum of minTaskMember if that is more.
func (in *volcanoPodGroup) least() int32 {
	sum := int64(0)
	for _, n := range in.Spec.MinTaskMember {
		sum += int64(max(0, n))
	}
	return max(1, in.Spec.MinMember, int32(min(sum, math.MaxInt32)))
}
