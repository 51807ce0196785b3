package backend

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// kindPodGroup is the kind that Koordinator and Muster read.
var kindPodGroup = schema.GroupVersionKind{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Kind: "PodGroup"}

// podGroups is the common part of koordinator and muster: a PodGroup for each group, whose annotation lists all groups of the gang.
type podGroups struct {
	names
	name        string
	mode        string // "" is the scheduler's default
	matchPolicy string // "" is the scheduler's default
	timeout     int32  // seconds, 0 is the scheduler's default
	qos         string // "" is none
	mappings    map[string]string
}

func (p *podGroups) Name() string { return p.name }
func (p *podGroups) Kinds(Cluster) []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kindPodGroup}
}

func (p *podGroups) Minima(e []*unstructured.Unstructured) map[string]int32 {
	return minima(e, "spec", "minMember")
}

// rules are the constraint of the gang and the own constraint of a group.
type rules struct{ all, own *scheduling.GatherSpec }

// objects returns the PodGroups of a gang. layerOf returns the layer of a label key. spec returns the annotation with the constraints r
// of a group in a gang of groups groups.
func (p *podGroups) objects(
	info *podgang.PodGangInfo, t podgang.Topology, layerOf func(string) (string, bool), spec func(r rules, groups int) string,
) ([]Object, []podgang.Note, error) {
	if c := partialConstraint(info); c != nil {
		return nil, nil, unsupported(reasons.TopologyGroupConfigUnsupported, p.name,
			"a topologyConstraint of some groups together (topologyConstraintGroupConfigs %q)", c.Name)
	}
	names, err := groupNames(info)
	if err != nil {
		return nil, nil, err
	}
	notes := reuse(info, p.name)
	all, more, err := t.RulesBy(info.TopologyConstraint, layerOf)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, more...)
	group := gangGroup(info, names)
	var out []Object
	for i := range info.PodGroups {
		g := &info.PodGroups[i]
		if len(g.SubGroups) > 0 {
			return nil, nil, unsupported(reasons.NotTranslated, p.name, "sub-groups (subGroupPolicy %q)", g.SubGroups[0].Name)
		}
		own, more, err := t.RulesBy(constraintOf(info, g), layerOf)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
		u := newObject(kindPodGroup, info, names[i])
		annotate(u, map[string]string{
			scheduling.AnnotationGroups:       p.list(g, info.Namespace, names[i], group),
			scheduling.AnnotationMode:         p.mode,
			scheduling.AnnotationMatchPolicy:  p.matchPolicy,
			scheduling.AnnotationTotalNumber:  number(g.Total),
			scheduling.AnnotationTopologySpec: spec(rules{all, own}, len(info.PodGroups)),
			AnnotationPriorityClass:           info.PriorityClassName,
			AnnotationIncarnation:             g.Incarnation,
		})
		_ = unstructured.SetNestedField(u.Object, int64(max(1, g.MinReplicas)), "spec", "minMember")
		if p.timeout > 0 {
			_ = unstructured.SetNestedField(u.Object, int64(p.timeout), "spec", "scheduleTimeoutSeconds")
		}
		out = append(out, Object{Unstructured: u, Pods: g.Selector})
	}
	return out, notes, nil
}

// gangGroup returns namespace/name of the groups that start together: all groups with a minimum.
func gangGroup(info *podgang.PodGangInfo, names []string) (out []string) {
	for i, g := range info.PodGroups {
		if g.MinReplicas > 0 {
			out = append(out, info.Namespace+"/"+names[i])
		}
	}
	return out
}

// list returns the value of the annotation groups for g: the gang's group as JSON, or g alone if g has no minimum.
func (p *podGroups) list(g *podgang.PodGroupInfo, namespace, name string, group []string) string {
	if g.MinReplicas == 0 {
		group = []string{namespace + "/" + name}
	}
	data, err := json.Marshal(group)
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return string(data)
}

// number returns n as text; "" for 0.
func number(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// PreparePod sets the pod's scheduler, its label with the PodGroup, and the default QoS class if it has none.
func (p *podGroups) PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, _ Cluster) error {
	key, err := keyOf(pod, key, p.exact[0])
	if err != nil {
		return err
	}
	p.setScheduler(pod)
	label(pod, scheduling.LabelPodGroup, key.GroupName())
	if _, own := pod.GetLabels()[labelQoS]; p.qos != "" && !own {
		label(pod, labelQoS, p.qos)
	}
	return nil
}

const labelQoS = "koordinator.sh/qosClass"
