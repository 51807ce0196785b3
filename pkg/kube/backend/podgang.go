package backend

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// kindPodGang is the kind that KAI and other schedulers read.
var kindPodGang = schema.GroupVersionKind{Group: "scheduler.grove.io", Version: "v1alpha1", Kind: "PodGang"}

// passThrough writes PodGangs, for schedulers that read them. It does not change PodGangs of Grove's operator.
type passThrough struct{ names }

// Name returns the backend's name.
func (p *passThrough) Name() string { return "podgang" }

// Gate returns the gate's name. Grove's own gate has another name, and is not removed here.
func (p *passThrough) Gate() string { return "grove.io/podgang" }

// Kinds returns PodGang.
func (p *passThrough) Kinds(Cluster) []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kindPodGang}
}

// Objects returns the PodGang, as Grove's operator would write it; none for a gang that is a PodGang already.
func (p *passThrough) Objects(info *podgang.PodGangInfo, c Cluster) ([]Object, []podgang.Note, error) {
	if info.Kind == podgang.PodGang {
		return nil, nil, nil
	}
	all, notes, err := pack(info.TopologyConstraint, c.Topology)
	if err != nil {
		return nil, nil, err
	}
	var groups, configs []any
	for i := range info.PodGroups {
		g := &info.PodGroups[i]
		if len(g.SubGroups) > 0 {
			return nil, nil, unsupported(reasons.NotTranslated, p.Name(), "sub-groups (subGroupPolicy %q)", g.SubGroups[0].Name)
		}
		own, more, err := pack(g.TopologyConstraint, c.Topology)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
		refs := []any{}
		for _, ref := range g.PodReferences {
			refs = append(refs, map[string]any{"namespace": ref.Namespace, "name": ref.Name})
		}
		groups = append(groups,
			with(map[string]any{"name": gangLabel(g.Name), "minReplicas": int64(g.MinReplicas), "podReferences": refs}, "topologyConstraint", own))
	}
	for _, config := range info.TopologyConstraintGroupConfigs {
		own, more, err := pack(config.TopologyConstraint, c.Topology)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
		var names []any
		for _, name := range config.PodGroupNames {
			names = append(names, gangLabel(name))
		}
		configs = append(configs, with(map[string]any{"name": config.Name, "podGroupNames": names}, "topologyConstraint", own))
	}
	u := newObject(kindPodGang, info, gangLabel(info.Name)) // the name that pods and podgroups refer to
	if info.SchedulerName != "" {
		label(u, workloads.LabelSchedulerName, info.SchedulerName)
	}
	if info.Base != "" {
		label(u, workloads.LabelBasePodGang, gangLabel(info.Base))
	}
	spec := with(map[string]any{"podgroups": groups}, "topologyConstraint", all)
	if len(configs) > 0 {
		spec["topologyConstraintGroupConfigs"] = configs
	}
	if info.PriorityClassName != "" {
		spec["priorityClassName"] = info.PriorityClassName
	}
	if ref := info.ReuseReservationRef; ref != nil {
		spec["reuseReservationRef"] = map[string]any{"namespace": ref.Namespace, "name": ref.Name}
	}
	u.Object["spec"] = spec
	return []Object{{Unstructured: u}}, notes, nil
}

// with sets a field of object, unless value is nil, and returns object.
func with(object map[string]any, field string, value map[string]any) map[string]any {
	if value != nil {
		object[field] = value
	}
	return object
}

// pack returns a PodGang's topologyConstraint; nil for none.
func pack(c *podgang.TopologyConstraint, t podgang.Topology) (map[string]any, []podgang.Note, error) {
	required, preferred, notes, err := t.PackOf(c)
	if err != nil || required == "" && preferred == "" {
		return nil, notes, err
	}
	keys := map[string]any{}
	for field, key := range map[string]string{"required": required, "preferred": preferred} {
		if key != "" {
			keys[field] = key
		}
	}
	return map[string]any{"packConstraint": keys}, notes, nil
}

// Minima returns the minima of the podgroups.
func (p *passThrough) Minima(existing []*unstructured.Unstructured) map[string]int32 {
	out := map[string]int32{}
	for _, u := range existing {
		each(u, func(g map[string]any) {
			name, _ := g["name"].(string)
			if n, ok := g["minReplicas"].(int64); ok && n > 0 {
				out[podgang.GroupName(u.GetName(), name)] = int32(n)
			}
		}, "spec", "podgroups")
	}
	return out
}

// each calls do with each object of a list.
func each(u *unstructured.Unstructured, do func(map[string]any), path ...string) {
	list, _, _ := unstructured.NestedSlice(u.Object, path...)
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			do(object)
		}
	}
}

// PreparePod sets the pod's labels with its PodGang and podgroup, unless it is Grove's pod, which has them.
func (p *passThrough) PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, _ Cluster) error {
	key, err := keyOf(pod, key, "a scheduler of PodGangs")
	if err != nil || key.Kind == podgang.PodGang {
		return err
	}
	label(pod, workloads.LabelPodGang, gangLabel(key.Gang))
	label(pod, workloads.LabelPodClique, gangLabel(key.Group))
	return nil
}

// Validate accepts every object: PodGangs can express every PodCliqueSet.
func (p *passThrough) Validate(_, _ *unstructured.Unstructured) podgang.Verdict {
	return podgang.Verdict{}
}
