package backend

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Labels of all written objects: the writer, the backend, the gang, and the UID of the owner.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "muster-controller"
	LabelGang      = "muster.sh/podgang"
	LabelOwner     = "muster.sh/owner"
	LabelBackend   = "muster.sh/backend"
)

// AnnotationPriorityClass is the gang's priority class if the API has no field for it.
const AnnotationPriorityClass = "muster.sh/priority-class-name"

// AnnotationIncarnation is the incarnation of the group's pods: see podgang.PodGroupInfo.
const AnnotationIncarnation = "muster.sh/incarnation"

// gangLabel returns the gang's name as a label value.
func gangLabel(gang string) string { return podgang.Short(gang, podgang.MaxName) }

// newObject returns an object of a gang, without a spec.
func newObject(kind schema.GroupVersionKind, info *podgang.PodGangInfo, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(info.Namespace)
	u.SetName(name)
	labels := maps.Clone(info.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelManagedBy] = ManagedBy
	labels[LabelGang] = gangLabel(info.Name)
	labels[LabelOwner] = string(info.Owner.UID)
	u.SetLabels(labels)
	o := info.Owner
	_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{
		"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": string(o.UID), "controller": true,
	}}, "metadata", "ownerReferences")
	return u
}

// annotate replaces the annotations of u by the ones in annotations whose value is not "".
func annotate(u *unstructured.Unstructured, annotations map[string]string) {
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
}

// groupNames returns the names of the groups' objects, in order. Equal names are an error.
func groupNames(info *podgang.PodGangInfo) ([]string, error) {
	names := make([]string, len(info.PodGroups))
	for i, g := range info.PodGroups {
		names[i] = podgang.GroupName(info.Name, g.Name)
		if slices.Contains(names[:i], names[i]) {
			return nil, &podgang.Error{
				Reason: reasons.InvalidGang, Message: fmt.Sprintf(
					"gang %s: two groups would have the name %q; write group names that differ after the gang's name", info.Name, names[i]),
			}
		}
	}
	return names, nil
}

// constraintOf returns a group's own constraint, or that of an entry of topologyConstraintGroupConfigs for this group only; or nil.
func constraintOf(info *podgang.PodGangInfo, g *podgang.PodGroupInfo) *podgang.TopologyConstraint {
	if g.TopologyConstraint != nil {
		return g.TopologyConstraint
	}
	for _, c := range info.TopologyConstraintGroupConfigs {
		if len(c.PodGroupNames) == 1 && c.PodGroupNames[0] == g.Name {
			return c.TopologyConstraint
		}
	}
	return nil
}

// partialConstraint returns the first entry of topologyConstraintGroupConfigs with several groups; nil for none.
func partialConstraint(info *podgang.PodGangInfo) *podgang.TopologyConstraintGroupConfig {
	for i, c := range info.TopologyConstraintGroupConfigs {
		if c.TopologyConstraint != nil && len(c.PodGroupNames) > 1 {
			return &info.TopologyConstraintGroupConfigs[i]
		}
	}
	return nil
}

// unsupported returns a *podgang.Error that a backend cannot express what, a format for args.
func unsupported(reason, backend, what string, args ...any) error {
	return &podgang.Error{
		Reason: reason, Message: backend + " backend does not support " + fmt.Sprintf(what, args...) + "; nothing is written for the gang",
	}
}

// reuse returns a note if the gang refers to another gang's reservation, which has no effect; else nil.
func reuse(info *podgang.PodGangInfo, backend string) []podgang.Note {
	if info.ReuseReservationRef == nil {
		return nil
	}
	return []podgang.Note{{
		Reason:  reasons.ReuseReservationUnsupported,
		Message: fmt.Sprintf("%s backend: reuseReservationRef %s has no effect", backend, info.ReuseReservationRef),
	}}
}

// names are the scheduler names that a backend serves.
type names struct {
	exact          []string // pods get the first
	claimedByOther bool     // another backend claims exact, which is the built-in name
	substring      string   // the substring of further names, "" for none
	anyName        bool     // the backend serves every name but the default scheduler's
}

// Matches returns how well the backend serves a name.
func (n names) Matches(name string) Match {
	switch {
	case name != "" && !n.claimedByOther && slices.Contains(n.exact, name):
		return Exact
	case n.substring != "" && strings.Contains(name, n.substring):
		return Like
	case n.anyName && name != "" && name != defaultScheduler:
		return Any
	}
	return None
}

// Serves returns the served names in words.
func (n names) Serves() string {
	var out []string
	for _, name := range n.exact {
		if !n.claimedByOther {
			out = append(out, strconv.Quote(name))
		}
	}
	if n.substring != "" {
		out = append(out, fmt.Sprintf("any that contains %q", n.substring))
	}
	if n.anyName {
		out = append(out, "any other")
	}
	return strings.Join(out, ", ")
}

const defaultScheduler = "default-scheduler"

// setScheduler sets the pod's scheduler to the backend's, unless the backend serves the pod's own.
func (n names) setScheduler(pod *unstructured.Unstructured) {
	if name, _, _ := unstructured.NestedString(pod.Object, "spec", "schedulerName"); !slices.Contains(n.exact, name) &&
		n.Matches(name) < Like {
		set(pod, n.exact[0], "spec", "schedulerName")
	}
}

// set sets a field of a pod; the API server rejects a pod if its spec is no object.
func set(pod *unstructured.Unstructured, value string, path ...string) {
	_ = unstructured.SetNestedField(pod.Object, value, path...)
}

// label sets a label.
func label(pod *unstructured.Unstructured, key, value string) {
	labels := pod.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	pod.SetLabels(labels)
}

// keyOf returns the gang and group of a pod: known unless that is zero, else from the pod's labels. Without these it is an error.
func keyOf(pod *unstructured.Unstructured, known podgang.PodKey, scheduler string) (podgang.PodKey, error) {
	if known != (podgang.PodKey{}) {
		return known, nil
	}
	key, ok, err := podgang.KeyOf(pod)
	switch {
	case err != nil:
		return key, fmt.Errorf("%s: %w", scheduler, err)
	case !ok:
		return key, fmt.Errorf("%s requires pod label %q", scheduler, workloads.LabelPodGang)
	}
	return key, nil
}

// minima returns the integers in a field of objects, by the objects' names.
func minima(existing []*unstructured.Unstructured, path ...string) map[string]int32 {
	out := map[string]int32{}
	for _, u := range existing {
		if n, ok, _ := unstructured.NestedInt64(u.Object, path...); ok {
			out[u.GetName()] = int32(n)
		}
	}
	return out
}
