package podgang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// tierConstraint returns a networkTopology as a constraint; nil for nil. path is the field, for messages.
func tierConstraint(n *workloads.NetworkTopology, path string) *TopologyConstraint {
	if n == nil {
		return nil
	}
	return &TopologyConstraint{Where: path, Tiers: &Tiers{n.Mode, n.HighestTierAllowed, n.HighestTierName}}
}

// annotationConstraints returns the topology constraints in annotations: network-topology-spec comes before tiers. A tier that is no number
// counts as missing. prefix is for messages.
func annotationConstraints(prefix string, annotations map[string]string) (out []*TopologyConstraint) {
	if spec := annotations[scheduling.AnnotationTopologySpec]; spec != "" {
		out = append(out, &TopologyConstraint{Where: prefix + "annotation " + scheduling.AnnotationTopologySpec, Spec: spec})
	}
	mode, hasMode := annotations[workloads.VolcanoMode]
	tier, hasTier := annotations[workloads.VolcanoTier]
	if hasMode || hasTier {
		tiers := &Tiers{Mode: mode}
		if n, err := strconv.ParseInt(tier, 10, 32); err == nil {
			k := int32(n)
			tiers.HighestTier = &k
		}
		out = append(out, &TopologyConstraint{Where: prefix + "annotations volcano.sh/network-topology", Tiers: tiers})
	}
	return out
}

// FromVolcanoPodGroup returns the gang of Volcano's PodGroup: one group, with its sub-group policies. pods are the pods that name it.
func FromVolcanoPodGroup(pg *unstructured.Unstructured, pods []metav1.Object) (*PodGangInfo, error) {
	var spec workloads.VolcanoSpec
	if err := read(pg, &spec); err != nil {
		return nil, err
	}
	out := newInfo(pg, VolcanoPodGroup, pg.GetName())
	out.Queue, out.PriorityClassName = spec.Queue, spec.PriorityClassName
	out.TopologyConstraint = tierConstraint(spec.NetworkTopology, "spec.networkTopology")
	if constraints := annotationConstraints("", pg.GetAnnotations()); out.TopologyConstraint == nil && len(constraints) > 0 {
		out.TopologyConstraint = constraints[0]
	}
	group := PodGroupInfo{Name: pg.GetName(), MinReplicas: max(1, spec.MinMember, spec.TaskMembers()), MinResources: spec.MinResources}
	for _, pod := range pods {
		if !isTerminating(pod) {
			group.PodReferences = append(group.PodReferences, types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()})
		}
	}
	slices.SortFunc(group.PodReferences, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range spec.SubGroupPolicy {
		s := SubGroupInfo{
			Name: p.Name, Size: workloads.OrOne(p.SubGroupSize), Least: p.MinSubGroups, LabelSelector: p.LabelSelector,
			MatchLabelKeys:     p.MatchLabelKeys,
			TopologyConstraint: tierConstraint(p.NetworkTopology, fmt.Sprintf("spec.subGroupPolicy[%d].networkTopology", i)),
		}
		if s.Name == "" {
			return nil, invalidField(pg, `spec.subGroupPolicy[%d].name is missing; write a name`, i)
		}
		group.SubGroups = append(group.SubGroups, s)
	}
	out.PodGroups = []PodGroupInfo{group}
	return out, nil
}
