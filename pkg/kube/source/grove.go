package source

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// podGangs are Grove's. Of a PodGang nothing but status.placementScore is a scheduler's to
// write.
var podGangs = &Owner{
	Resource: schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"},
	Role:     "rbac/sources/grove.yaml",
	Kind:     "PodGang",
	Read:     readPodGang,
	Keep:     keepMinima,
	Scored:   true,
}

// podGang is a podgroup of a PodGang. Those of one PodGang are a group: their minima start
// together, and whoever is above its minimum follows as there is room.
var podGang = Source{
	Way:       "labels " + workloads.LabelPodGang + ", " + workloads.LabelPodClique,
	Space:     "podgang",
	Implied:   true,
	NameOf:    podGangGang,
	Owner:     podGangs,
	OwnerName: func(pod *v1.Pod) string { return pod.Labels[workloads.LabelPodGang] },
	Needs:     true,
	Fill:      fillPodGang,
}

// podGangGang names the gang of a pod. A pod without a podgroup is of a gang that says so: else
// it would start alone.
func podGangGang(pod *v1.Pod) string {
	if name := pod.Labels[workloads.LabelPodGang]; name != "" {
		return podGangPart(name, pod.Labels[workloads.LabelPodClique])
	}
	return ""
}

// podGangPart names the gang of a podgroup. Grove's own names begin with the PodGang's, others
// need not; values of labels have no slash.
func podGangPart(name, part string) string { return name + "/" + part }

// readPodGang takes what a PodGang says. What is wrong with it is the problem of all its gangs.
func readPodGang(u *unstructured.Unstructured, out *Owned) error {
	var status struct {
		PlacementScore *float64 `json:"placementScore"`
	}
	_ = workloads.Read(u, "status", &status) // what cannot be read is written again
	out.Score = status.PlacementScore
	var spec workloads.PodGangSpec
	if out.Problem = workloads.Read(u, "spec", &spec); out.Problem == nil {
		out.Problem = readPodGroups(&spec, out)
	}
	for key, value := range packWords(spec.TopologyConstraint, FieldPackRequired, FieldPackPreferred) {
		out.add(key, value)
	}
	if spec.ReuseReservationRef != nil {
		out.Notes = append(out.Notes, Note{InvalidAnnotation, "spec.reuseReservationRef has no effect: places are not kept for a PodGang that comes after another one"})
	}
	return nil
}

// readPodGroups reads how many pods of each podgroup must start together, and where; and the constraints of some
// podgroups, which are a level between each of them and all.
func readPodGroups(spec *workloads.PodGangSpec, out *Owned) error {
	out.Parts = map[string]Part{}
	for i, g := range spec.PodGroups {
		if _, twice := out.Parts[g.Name]; g.Name == "" || twice {
			return fmt.Errorf("spec.podgroups[%d].name: %q is invalid; supported values: a name that no other podgroup has", i, g.Name)
		}
		out.Parts[g.Name] = Part{
			Jobs: 1, Size: int(g.MinReplicas), Listed: len(g.PodReferences), Words: packWords(g.TopologyConstraint, FieldPackPartRequired, FieldPackPartPreferred),
		}
	}
	for i, c := range spec.TopologyConstraintGroupConfigs {
		at := fmt.Sprintf("spec.topologyConstraintGroupConfigs[%d]", i)
		for _, name := range c.PodGroupNames {
			if _, known := out.Parts[name]; !known {
				return fmt.Errorf("%s.podGroupNames: %q is no podgroup; supported values: one of %v", at, name, slices.Sorted(maps.Keys(out.Parts)))
			}
		}
		if words := packWords(c.TopologyConstraint, fieldPackRequired, fieldPackPreferred); len(words) > 0 && len(c.PodGroupNames) > 0 {
			out.Branches = append(out.Branches, Branch{Where: at, Parts: c.PodGroupNames, Words: words})
		}
	}
	return nil
}

// packWords are the label keys of a constraint as fields say them.
func packWords(c workloads.TopologyConstraint, required, preferred string) map[string]string {
	out := map[string]string{required: c.PackConstraint.Required, preferred: c.PackConstraint.Preferred}
	maps.DeleteFunc(out, func(_, label string) bool { return label == "" })
	return out
}

// keepMinima keeps the last minimum of podgroups whose minimum is 0 now: Grove releases it once
// they are placed, so that it may replace them, and not because fewer would do. After a
// restart it is not known. A podgroup that lists no pods where others list theirs was scaled to zero, and needs
// none.
func keepMinima(was, is *Owned) {
	listed := false
	for _, part := range is.Parts {
		listed = listed || part.Listed > 0
	}
	for name, part := range is.Parts {
		if part.Size == 0 && (part.Listed > 0 || !listed) {
			part.Size, part.Released = was.Parts[name].Size, true
			is.Parts[name] = part
		}
	}
}

// fillPodGang: a podgroup whose minimum was released waits for nobody, and nobody for it.
func fillPodGang(d *Declaration, g Gang) {
	pod := first(g.any(), func(*v1.Pod) bool { return true })
	part := pod.Labels[workloads.LabelPodClique]
	is, known := g.Owner.Parts[part]
	d.speakerOwner(g)
	d.speakers[len(d.speakers)-1].says = func(key string) (string, bool) {
		if value, ok := is.Words[key]; ok {
			return value, ok
		}
		return g.Owner.says(key)
	}
	d.speakerPod(g)
	d.Notes = append(d.Notes, g.Owner.Notes...)
	switch {
	case part == "":
		d.problem(fmt.Errorf("label %s is missing on %s/%s; supported values: a podgroup of %s", workloads.LabelPodClique, pod.Namespace, pod.Name, g.Owner.Key))
	case !known:
		d.problem(fmt.Errorf("%s: %q on %s/%s names no podgroup of %s; supported values: one of %v",
			workloads.LabelPodClique, part, pod.Namespace, pod.Name, g.Owner.Key, slices.Sorted(maps.Keys(g.Owner.Parts))))
	}
	d.Min = max(1, is.Size)
	if is.Size == 0 {
		return
	}
	for name, other := range g.Owner.Parts {
		ref := podGangRef(g, name)
		if other.Size > 0 && (!other.Released || g.Known == nil || g.Known(ref)) {
			d.Group = append(d.Group, ref)
		}
	}
	if len(d.Group) < 2 {
		d.Group = nil
	}
	for _, b := range g.Owner.Branches {
		some := branch{where: b.Where, keys: packKeys, words: b.Words}
		for _, name := range b.Parts {
			some.gangs = append(some.gangs, podGangRef(g, name))
		}
		d.branches = append(d.branches, some)
	}
	sortRefs(d.Group)
}

// podGangRef is the gang of another podgroup of a gang's PodGang.
func podGangRef(g Gang, part string) gang.Ref {
	return gang.Ref{Source: g.Ref.Source, Namespace: g.Ref.Namespace, Name: podGangPart(g.Owner.Key.Name, part)}
}
