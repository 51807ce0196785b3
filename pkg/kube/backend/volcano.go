package backend

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// kindVolcano is the kind of Volcano's PodGroup.
var kindVolcano = schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"}

// volcano writes a PodGroup for each gang, with a sub-group policy for each of several groups. It does not change Volcano's own ones.
type volcano struct {
	names
	queue string // of gangs without a queue; "" is Volcano's default
}

// Name returns the backend's name.
func (v *volcano) Name() string { return "volcano" }

// Gate returns the name of Volcano's own scheduling gate.
func (v *volcano) Gate() string { return "scheduling.volcano.sh/queue-allocation-gate" }

// Kinds returns Volcano's PodGroup.
func (v *volcano) Kinds(Cluster) []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kindVolcano}
}

// Objects returns the PodGroup of a gang; none for Volcano's own PodGroup.
func (v *volcano) Objects(info *podgang.PodGangInfo, c Cluster) ([]Object, []podgang.Note, error) {
	if info.Kind == podgang.VolcanoPodGroup {
		return nil, nil, nil
	}
	if partial := partialConstraint(info); partial != nil {
		return nil, nil, unsupported(reasons.TopologyGroupConfigUnsupported, v.Name(),
			"a topologyConstraint of some groups together (topologyConstraintGroupConfigs %q)", partial.Name)
	}
	names, err := groupNames(info)
	if err != nil {
		return nil, nil, err
	}
	notes := reuse(info, v.Name())
	all, more, err := c.Topology.TiersOf(info.TopologyConstraint)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, more...)
	u := newObject(kindVolcano, info, gangLabel(info.Name))
	annotate(u, volcanoAnnotations(info.Annotations))
	spec := with(map[string]any{}, "networkTopology", tiers(all))
	minimum := int64(0)
	var policies []any
	for i := range info.PodGroups {
		g := &info.PodGroups[i]
		minimum += int64(g.MinReplicas)
		own, more, err := c.Topology.TiersOf(constraintOf(info, g))
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
		if g.MinReplicas > 0 && (len(info.PodGroups) > 1 || own != nil) {
			policies = append(policies, with(map[string]any{
				"name": names[i], "subGroupSize": int64(g.MinReplicas), "minSubGroups": int64(1), "labelSelector": selector(g.Selector),
			}, "networkTopology", tiers(own)))
		}
	}
	spec["minMember"] = max(1, minimum)
	if len(policies) > 0 {
		spec["subGroupPolicy"] = policies
	}
	for field, value := range map[string]string{"queue": orElse(info.Queue, v.queue), "priorityClassName": info.PriorityClassName} {
		if value != "" {
			spec[field] = value
		}
	}
	if r := resources(info); r != nil {
		spec["minResources"] = r
	}
	u.Object["spec"] = spec
	return []Object{{Unstructured: u}}, notes, nil
}

// volcanoAnnotations returns the annotations for Volcano, except topology constraints, which are in the spec.
func volcanoAnnotations(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		if strings.HasPrefix(key, "volcano.sh/") && key != workloads.VolcanoMode && key != workloads.VolcanoTier {
			out[key] = value
		}
	}
	return out
}

func orElse(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

// tiers returns t as the field networkTopology; nil for nil.
func tiers(t *podgang.Tiers) map[string]any {
	if t == nil {
		return nil
	}
	out := map[string]any{"mode": t.Mode}
	if t.HighestTier != nil {
		out["highestTierAllowed"] = int64(*t.HighestTier)
	}
	if t.HighestTierName != "" {
		out["highestTierName"] = t.HighestTierName
	}
	return out
}

// selector returns a labelSelector that matches these labels.
func selector(labels map[string]string) map[string]any {
	match := map[string]any{}
	for key, value := range labels {
		match[key] = value
	}
	return map[string]any{"matchLabels": match}
}

// resources returns the sum of the requests of all groups; nil if the requests of one group are unknown.
func resources(info *podgang.PodGangInfo) map[string]any {
	sum := corev1.ResourceList{}
	for _, g := range info.PodGroups {
		if g.MinResources == nil {
			return nil
		}
		for name, q := range g.MinResources {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	out := map[string]any{}
	for name, q := range sum {
		out[string(name)] = q.String()
	}
	return out
}

// Minima returns the minima of the policies, or of the gang if it has one group.
func (v *volcano) Minima(existing []*unstructured.Unstructured) map[string]int32 {
	out := minima(existing, "spec", "minMember")
	for _, u := range existing {
		each(u, func(p map[string]any) {
			name, _ := p["name"].(string)
			if n, ok := p["subGroupSize"].(int64); ok {
				out[name] = int32(n)
			}
		}, "spec", "subGroupPolicy")
	}
	return out
}

// PreparePod sets the pod's scheduler, and its annotation with the PodGroup unless the gang comes from a Volcano PodGroup, which the pod
// already names.
func (v *volcano) PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, _ Cluster) error {
	key, err := keyOf(pod, key, "volcano scheduler")
	if err != nil {
		return err
	}
	v.setScheduler(pod)
	if key.Kind == podgang.VolcanoPodGroup {
		return nil
	}
	annotations := pod.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[workloads.VolcanoGroup] = gangLabel(key.Gang)
	pod.SetAnnotations(annotations)
	return nil
}

// Validate rejects PodCliqueSets with constraints that a PodGroup cannot express.
func (v *volcano) Validate(object, old *unstructured.Unstructured) podgang.Verdict {
	return podgang.ValidatePodCliqueSet(object, old, podgang.CliqueSetRules{
		Backend: fmt.Sprintf("%s scheduler", v.exact[0]), NoScalingGroups: true,
	})
}
