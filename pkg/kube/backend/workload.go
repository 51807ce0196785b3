package backend

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// nativeAPI is Kubernetes' own API of gangs. Each minor version serves a different version, and no earlier one:
//
//	1.35  v1alpha1  Workload.podGroups                    pods name a part of it: spec.workloadRef
//	1.36  v1alpha2  Workload.podGroupTemplates, PodGroup   pods name a PodGroup: spec.schedulingGroup
//	1.37  v1beta1   the same, with other names             the same
const nativeAPI = "scheduling.k8s.io"

// The supported versions.
const (
	Native35 = "v1alpha1"
	Native36 = "v1alpha2"
	Native37 = "v1beta1"
)

// maxNativeGroups is the maximal number of groups in a Workload.
const maxNativeGroups = 8

// workload writes Kubernetes' own objects, in the served version.
type workload struct{ names }

// Name returns the backend's name.
func (w *workload) Name() string { return "workload" }

// Matches returns Default for "" and for the default scheduler's name; else how well names match.
func (w *workload) Matches(name string) Match {
	if name == "" || name == defaultScheduler {
		return Default
	}
	return w.names.Matches(name)
}

// Serves adds the default scheduler to the names.
func (w *workload) Serves() string {
	return names{exact: append([]string{defaultScheduler}, w.exact...)}.Serves()
}

// Gate returns the gate's name.
func (w *workload) Gate() string { return "scheduling.k8s.io/workload" }

// native returns a kind of nativeAPI in a version.
func native(version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: nativeAPI, Version: version, Kind: kind}
}

// Kinds returns Workload, and PodGroup in versions that have it.
func (w *workload) Kinds(c Cluster) []schema.GroupVersionKind {
	switch c.Native {
	case Native35:
		return []schema.GroupVersionKind{native(c.Native, "Workload")}
	case Native36, Native37:
		return []schema.GroupVersionKind{native(c.Native, "Workload"), native(c.Native, "PodGroup")}
	}
	return nil
}

// Objects returns the Workload and its PodGroups. The error says that no version is served, or that it cannot express the gang.
func (w *workload) Objects(info *podgang.PodGangInfo, c Cluster) ([]Object, []podgang.Note, error) {
	if len(w.Kinds(c)) == 0 {
		return nil, nil, &podgang.Error{
			Reason: reasons.SchedulingAPINotServed,
			Message: fmt.Sprintf("the API server serves no version of %s that has Workloads (%s, %s, %s): pods of gang %s stay gated", nativeAPI,
				Native35, Native36, Native37, info.Name),
		}
	}
	if n := len(info.PodGroups); n > maxNativeGroups {
		return nil, nil, unsupported(reasons.TooManyPodGroups, w.Name(),
			"one gang has %d groups; use at most %d", n, maxNativeGroups)
	}
	if partial := partialConstraint(info); partial != nil {
		return nil, nil, unsupported(reasons.TopologyGroupConfigUnsupported, w.Name(),
			"a topologyConstraint of some groups together (topologyConstraintGroupConfigs %q)", partial.Name)
	}
	groups, notes, err := w.groups(info, c)
	if err != nil {
		return nil, nil, err
	}
	if len(groups) > 1 {
		notes = append(notes, podgang.Note{
			Reason:  reasons.NotTranslated,
			Message: fmt.Sprintf("workload backend: each of the %d groups starts by itself: scheduling.k8s.io has no gang of several", len(groups)),
		})
	}
	out := []Object{w.workload(info, c.Native, groups)}
	if c.Native != Native35 {
		for _, g := range groups {
			out = append(out, w.podGroup(info, c.Native, g))
		}
	}
	if info.PriorityClassName != "" && c.Native != Native37 {
		for i := range out {
			annotate(out[i].Unstructured, map[string]string{AnnotationPriorityClass: info.PriorityClassName})
		}
	}
	return out, append(notes, reuse(info, w.Name())...), nil
}

// nativeGroup is a group, independent of the API version.
type nativeGroup struct {
	name    string
	minimum int32
	key     string // the node label key with one value for all its pods
}

// groups returns the groups of a gang. A constraint of the gang becomes that of its only group; with several groups it is an error.
func (w *workload) groups(info *podgang.PodGangInfo, c Cluster) (out []nativeGroup, notes []podgang.Note, err error) {
	names, err := groupNames(info)
	if err != nil {
		return nil, nil, err
	}
	all, notes, err := c.Topology.Key(info.TopologyConstraint)
	if err != nil {
		return nil, nil, err
	}
	if all != "" && len(info.PodGroups) > 1 {
		return nil, nil, unsupported(reasons.NotTranslated, w.Name(), "a topologyConstraint of several groups together (%s)",
			info.TopologyConstraint.Where)
	}
	for i := range info.PodGroups {
		g := &info.PodGroups[i]
		if len(g.SubGroups) > 0 {
			return nil, nil, unsupported(reasons.NotTranslated, w.Name(), "sub-groups (subGroupPolicy %q)", g.SubGroups[0].Name)
		}
		own, more, err := c.Topology.Key(constraintOf(info, g))
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, more...)
		n := nativeGroup{names[i], g.MinReplicas, orElse(own, all)}
		if n.key != "" && c.Native == Native35 {
			return nil, nil, unsupported(reasons.NotTranslated, w.Name(), "a topologyConstraint in %s/%s", nativeAPI, c.Native)
		}
		out = append(out, n)
	}
	return out, notes, nil
}

// policy returns the scheduling policy: gang with the minimum, or basic for a group without a minimum.
func (g nativeGroup) policy() map[string]any {
	if g.minimum == 0 {
		return map[string]any{"basic": map[string]any{}}
	}
	return map[string]any{"gang": map[string]any{"minCount": int64(g.minimum)}}
}

// addTo adds the group's fields to object, a template or the spec of a PodGroup, and returns object.
func (g nativeGroup) addTo(object map[string]any, info *podgang.PodGangInfo, version string) map[string]any {
	object["schedulingPolicy"] = g.policy()
	if g.key != "" {
		object["schedulingConstraints"] = map[string]any{"topology": []any{map[string]any{"key": g.key}}}
	}
	if version == Native37 && info.PriorityClassName != "" {
		object["priorityClassName"] = info.PriorityClassName
	}
	return object
}

// workload returns the Workload of a gang.
func (w *workload) workload(info *podgang.PodGangInfo, version string, groups []nativeGroup) Object {
	u := newObject(native(version, "Workload"), info, gangLabel(info.Name))
	gv, _ := schema.ParseGroupVersion(info.Owner.APIVersion)
	ref := map[string]any{"kind": info.Owner.Kind, "name": info.Owner.Name}
	if gv.Group != "" {
		ref["apiGroup"] = gv.Group
	}
	var list []any
	for _, g := range groups {
		if version == Native35 {
			list = append(list, map[string]any{"name": g.name, "policy": g.policy()})
		} else {
			list = append(list, g.addTo(map[string]any{"name": g.name}, info, version))
		}
	}
	u.Object["spec"] = map[string]any{"controllerRef": ref, listOf(version): list}
	return Object{Unstructured: u, Fixed: func(u *unstructured.Unstructured) (out []string) {
		each(u, func(item map[string]any) { out = append(out, fixed(item, version)) }, "spec", listOf(version))
		return out
	}}
}

// listOf returns the field that lists the groups of a Workload.
func listOf(version string) string {
	if version == Native35 {
		return "podGroups"
	}
	return "podGroupTemplates"
}

// podGroup returns the PodGroup of a group.
func (w *workload) podGroup(info *podgang.PodGangInfo, version string, g nativeGroup) Object {
	u := newObject(native(version, "PodGroup"), info, g.name)
	spec := map[string]any{}
	if version == Native36 {
		spec["podGroupTemplateRef"] = map[string]any{
			"workload": map[string]any{"workloadName": gangLabel(info.Name), "podGroupTemplateName": g.name},
		}
	} else {
		spec["workloadRef"] = map[string]any{"workloadName": gangLabel(info.Name), "templateName": g.name}
	}
	u.Object["spec"] = g.addTo(spec, info, version)
	return Object{Unstructured: u, Fixed: func(u *unstructured.Unstructured) []string {
		spec, _, _ := unstructured.NestedMap(u.Object, "spec")
		return []string{fixed(spec, version)}
	}}
}

// fixed returns the values of a group that can only be set at creation, as text: all but the minimum, which can change since 1.37.
func fixed(group map[string]any, version string) string {
	keys := []string{}
	list, _, _ := unstructured.NestedSlice(group, "schedulingConstraints", "topology")
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			keys = append(keys, fmt.Sprint(object["key"]))
		}
	}
	field := "schedulingPolicy"
	if version == Native35 {
		field = "policy"
	}
	minimum, gang, _ := unstructured.NestedInt64(group, field, "gang", "minCount")
	if version == Native37 {
		minimum = 0
	}
	slices.Sort(keys)
	return fmt.Sprintf("%v gang %t %d topology %q priority %v", group["name"], gang, minimum, keys, group["priorityClassName"])
}

// Minima returns the minima of PodGroups, or of the groups of Workloads.
func (w *workload) Minima(existing []*unstructured.Unstructured) map[string]int32 {
	out := map[string]int32{}
	for _, u := range existing {
		if u.GetKind() == "PodGroup" {
			if n, ok, _ := unstructured.NestedInt64(u.Object, "spec", "schedulingPolicy", "gang", "minCount"); ok {
				out[u.GetName()] = int32(n)
			}
		}
		each(u, func(g map[string]any) {
			name, _ := g["name"].(string)
			if n, ok, _ := unstructured.NestedInt64(g, "policy", "gang", "minCount"); ok {
				out[name] = int32(n)
			}
		}, "spec", "podGroups")
	}
	return out
}

// PreparePod sets the pod's field that names its group of the Workload, or its PodGroup. A pod that names a group keeps that name.
func (w *workload) PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, c Cluster) error {
	key, err := keyOf(pod, key, "workload backend")
	if err != nil {
		return err
	}
	for _, field := range []string{"workloadRef", "schedulingGroup"} {
		if _, names, _ := unstructured.NestedMap(pod.Object, "spec", field); names {
			return nil
		}
	}
	switch c.Native {
	case Native35:
		set(pod, gangLabel(key.Gang), "spec", "workloadRef", "name")
		set(pod, key.GroupName(), "spec", "workloadRef", "podGroup")
	case Native36, Native37:
		set(pod, key.GroupName(), "spec", "schedulingGroup", "podGroupName")
	default:
		return fmt.Errorf("workload backend: the API server serves no version of %s that has Workloads", nativeAPI)
	}
	return nil
}

// Validate rejects PodCliqueSets with constraints that Workloads cannot express.
func (w *workload) Validate(object, old *unstructured.Unstructured) podgang.Verdict {
	return podgang.ValidatePodCliqueSet(object, old, podgang.CliqueSetRules{Backend: w.Name(), NoScalingGroups: true})
}
