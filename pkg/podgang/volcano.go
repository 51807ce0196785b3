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

// tiersSaid returns a networkTopology as a constraint; nil for none.
func tiersSaid(n *workloads.NetworkTopology, where string) *TopologyConstraint {
	if n == nil {
		return nil
	}
	return &TopologyConstraint{Where: where, Tiers: &Tiers{n.Mode, n.HighestTierAllowed, n.HighestTierName}}
}

// annotated returns the topology constraints in annotations: network-topology-spec takes precedence over tiers. A tier that is
// no number counts as missing.
func annotated(whose string, annotations map[string]string) (out []*TopologyConstraint) {
	if spec := annotations[scheduling.AnnotationTopologySpec]; spec != "" {
		out = append(out, &TopologyConstraint{Where: whose + "annotation " + scheduling.AnnotationTopologySpec, Spec: spec})
	}
	mode, hasMode := annotations[workloads.VolcanoMode]
	tier, hasTier := annotations[workloads.VolcanoTier]
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

// FromVolcanoPodGroup returns the gang of Volcano's PodGroup: one group, with its sub-group policies. pods are the pods that
// name it.
func FromVolcanoPodGroup(pg *unstructured.Unstructured, pods []metav1.Object) (*PodGangInfo, error) {
	var spec workloads.VolcanoSpec
	if err := read(pg, &spec); err != nil {
		return nil, err
	}
	out := newInfo(pg, VolcanoPodGroup, pg.GetName())
	out.Queue, out.PriorityClassName = spec.Queue, spec.PriorityClassName
	out.TopologyConstraint = tiersSaid(spec.NetworkTopology, "spec.networkTopology")
	if said := annotated("", pg.GetAnnotations()); out.TopologyConstraint == nil && len(said) > 0 {
		out.TopologyConstraint = said[0]
	}
	group := PodGroupInfo{Name: pg.GetName(), MinReplicas: max(1, spec.MinMember, spec.TaskMembers()), MinResources: spec.MinResources}
	for _, pod := range pods {
		if !leaving(pod) {
			group.PodReferences = append(group.PodReferences, types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()})
		}
	}
	slices.SortFunc(group.PodReferences, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range spec.SubGroupPolicy {
		s := SubGroupInfo{
			Name: p.Name, Size: workloads.OrOne(p.SubGroupSize), Least: p.MinSubGroups, LabelSelector: p.LabelSelector, MatchLabelKeys: p.MatchLabelKeys,
			TopologyConstraint: tiersSaid(p.NetworkTopology, fmt.Sprintf("spec.subGroupPolicy[%d].networkTopology", i)),
		}
		if s.Name == "" {
			return nil, illegal(pg, `spec.subGroupPolicy[%d].name: "" is invalid; supported values: a name`, i)
		}
		group.SubGroups = append(group.SubGroups, s)
	}
	out.PodGroups = []PodGroupInfo{group}
	return out, nil
}
