package backend

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Labels of all that is written: who wrote it, by which backend, for which gang, and the UID of the object whose gang it
// is.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "muster-controller"
	LabelGang      = "muster.sh/podgang"
	LabelOwner     = "muster.sh/owner"
	LabelBackend   = "muster.sh/backend"
)

// AnnotationPriorityClass is the gang's priority class where the API has no field for it.
const AnnotationPriorityClass = "muster.sh/priority-class-name"

// AnnotationIncarnation is that of the group's pods: see podgang.PodGroupInfo.
const AnnotationIncarnation = "muster.sh/incarnation"

// gangLabel is the gang's name as a label's value.
func gangLabel(gang string) string { return podgang.Short(gang, podgang.MaxName) }

// newObject is an object of a gang, without a spec.
func newObject(kind schema.GroupVersionKind, info *podgang.PodGangInfo, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(info.Namespace)
	u.SetName(name)
	labels := maps.Clone(info.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelManagedBy], labels[LabelGang], labels[LabelOwner] = ManagedBy, gangLabel(info.Name), string(info.Owner.UID)
	u.SetLabels(labels)
	o := info.Owner
	_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{
		"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": string(o.UID), "controller": true,
	}}, "metadata", "ownerReferences")
	return u
}

// annotate sets the annotations that have a value.
func annotate(u *unstructured.Unstructured, annotations map[string]string) {
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
}

// groupNames are the names of the groups' objects, in their order. Two of one name are an error.
func groupNames(info *podgang.PodGangInfo) ([]string, error) {
	names := make([]string, len(info.PodGroups))
	for i, g := range info.PodGroups {
		names[i] = podgang.GroupName(info.Name, g.Name)
		if slices.Contains(names[:i], names[i]) {
			return nil, &podgang.Error{Reason: podgang.ReasonInvalid, Message: fmt.Sprintf("gang %s: two groups would have the name %q; supported values: group names that differ after the gang's name", info.Name, names[i])}
		}
	}
	return names, nil
}

// constraintOf is the one of a group by itself: its own, or that of a list of groups which names it alone.
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

// together is the first constraint of several groups together that are not all of them; nil if there is none.
func together(info *podgang.PodGangInfo) *podgang.TopologyConstraintGroupConfig {
	for i, c := range info.TopologyConstraintGroupConfigs {
		if c.TopologyConstraint != nil && len(c.PodGroupNames) > 1 {
			return &info.TopologyConstraintGroupConfigs[i]
		}
	}
	return nil
}

// unsupported is an *Error for what a backend cannot say.
func unsupported(reason, backend, what string, args ...any) error {
	return &podgang.Error{Reason: reason, Message: backend + " backend does not support " + fmt.Sprintf(what, args...) + "; nothing is written for the gang"}
}

// reuse is the note of a gang that would take over another one's places.
func reuse(info *podgang.PodGangInfo, backend string) []podgang.Note {
	if info.ReuseReservationRef == nil {
		return nil
	}
	return []podgang.Note{{Reason: podgang.ReasonReuse, Message: fmt.Sprintf("%s backend: reuseReservationRef %s has no effect", backend, info.ReuseReservationRef)}}
}

// names are the scheduler names of a backend.
type names struct {
	exact []string // the first is what pods get
	taken bool     // another backend has it
	like  string   // what such names contain, "" for nothing
	any   bool
}

// Matches says how well they serve a name.
func (n names) Matches(name string) Match {
	switch {
	case name != "" && !n.taken && slices.Contains(n.exact, name):
		return Exact
	case n.like != "" && strings.Contains(name, n.like):
		return Like
	case n.any && name != "" && name != defaultScheduler:
		return Any
	}
	return None
}

// Serves says them in words.
func (n names) Serves() string {
	var out []string
	for _, name := range n.exact {
		if !n.taken {
			out = append(out, strconv.Quote(name))
		}
	}
	if n.like != "" {
		out = append(out, fmt.Sprintf("any that contains %q", n.like))
	}
	if n.any {
		out = append(out, "any other")
	}
	return strings.Join(out, ", ")
}

const defaultScheduler = "default-scheduler"

// give has a pod be scheduled by this backend's scheduler: by the one that it names, if that is one of them.
func (n names) give(pod *unstructured.Unstructured) {
	if name, _, _ := unstructured.NestedString(pod.Object, "spec", "schedulerName"); !slices.Contains(n.exact, name) && n.Matches(name) < Like {
		set(pod, n.exact[0], "spec", "schedulerName")
	}
}

// set sets a field of a pod; a pod whose spec is no object is the API server's to refuse.
func set(pod *unstructured.Unstructured, value string, path ...string) {
	_ = unstructured.SetNestedField(pod.Object, value, path...)
}

// label gives a pod a label.
func label(pod *unstructured.Unstructured, key, value string) {
	labels := pod.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	pod.SetLabels(labels)
}

// keyOf is the gang and group of a pod, which it must have: what is known, else what its labels say.
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

// minima are numbers in a field of objects, by the objects' names.
func minima(existing []*unstructured.Unstructured, path ...string) map[string]int32 {
	out := map[string]int32{}
	for _, u := range existing {
		if n, ok, _ := unstructured.NestedInt64(u.Object, path...); ok {
			out[u.GetName()] = int32(n)
		}
	}
	return out
}
