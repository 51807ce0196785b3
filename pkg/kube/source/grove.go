package source

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// podGangs are Grove's PodGangs. Schedulers write nothing of them but status.placementScore.
var podGangs = &Owner{
	Resource: schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"},
	Role:     "rbac/sources/grove.yaml",
	Kind:     "PodGang",
	Read:     readPodGang,
	Spec:     func() any { return &workloads.PodGangSpec{} },
	Keep:     keepMinima,
	Scored:   true,
}

// podGang reads the podgroups of a PodGang. The podgroups of one PodGang are a group: their minima start together, and members
// beyond a minimum start as capacity permits.
var podGang = Source{
	Way:        "labels " + workloads.LabelPodGang + ", " + workloads.LabelPodClique,
	Space:      "podgang",
	Implied:    true,
	NameOf:     podGangGang,
	Owner:      podGangs,
	OwnerName:  func(pod *v1.Pod) string { return pod.Labels[workloads.LabelPodGang] },
	NeedsOwner: true,
	Fill:       fillPodGang,
}

// podGangGang returns the gang of a pod; "" without a PodGang. A pod without a podgroup gets a gang that reports the missing
// label. Without that gang, the pod would start alone.
func podGangGang(pod *v1.Pod) string {
	if name := pod.Labels[workloads.LabelPodGang]; name != "" {
		return podGangPart(name, pod.Labels[workloads.LabelPodClique])
	}
	return ""
}

// podGangPart returns the gang of a podgroup. Grove's names of podgroups begin with the PodGang's, but other makers' need not.
// Values of labels have no slash.
func podGangPart(name, part string) string { return name + "/" + part }

// readPodGang reads a PodGang. Its errors are the problem of all its gangs.
func readPodGang(u *unstructured.Unstructured, out *Owned) error {
	var status struct {
		PlacementScore *float64 `json:"placementScore"`
	}
	_ = workloads.Read(u, "status", &status) // an invalid score is overwritten
	out.Score = status.PlacementScore
	var spec workloads.PodGangSpec
	if out.Problem = workloads.Read(u, "spec", &spec); out.Problem == nil {
		out.Problem = readPodGroups(&spec, out)
	}
	out.PriorityClass = spec.PriorityClassName
	for key, value := range packWords(spec.TopologyConstraint, FieldPackRequired, FieldPackPreferred) {
		out.setValue(key, value)
	}
	if spec.ReuseReservationRef != nil {
		out.Notes = append(out.Notes,
			Note{reasons.InvalidAnnotation, "spec.reuseReservationRef has no effect: no capacity is reserved for a PodGang that replaces another"})
	}
	return nil
}

// readPodGroups reads the minimum and the topology constraint of each podgroup, and the constraints that several podgroups share.
func readPodGroups(spec *workloads.PodGangSpec, out *Owned) error {
	out.Parts = map[string]Part{}
	for i, g := range spec.PodGroups {
		if _, twice := out.Parts[g.Name]; g.Name == "" || twice {
			return fmt.Errorf("spec.podgroups[%d].name: %q is invalid; write a name that no other podgroup has", i, g.Name)
		}
		out.Parts[g.Name] = Part{
			Jobs: 1, Size: int(g.MinReplicas), Listed: len(g.PodReferences), Values: packWords(g.TopologyConstraint, FieldPackPartRequired,
				FieldPackPartPreferred),
		}
	}
	for i, c := range spec.TopologyConstraintGroupConfigs {
		at := fmt.Sprintf("spec.topologyConstraintGroupConfigs[%d]", i)
		for _, name := range c.PodGroupNames {
			if _, known := out.Parts[name]; !known {
				return fmt.Errorf("%s.podGroupNames: %q is no podgroup; supported values: %v", at, name, slices.Sorted(maps.Keys(out.Parts)))
			}
		}
		if words := packWords(c.TopologyConstraint, fieldPackRequired, fieldPackPreferred); len(words) > 0 && len(c.PodGroupNames) > 0 {
			out.Branches = append(out.Branches, Branch{Where: at, Parts: c.PodGroupNames, Values: words})
		}
	}
	return nil
}

// packWords returns the label keys of c: the required one under the field name required, the preferred one under preferred.
func packWords(c workloads.TopologyConstraint, required, preferred string) map[string]string {
	out := map[string]string{required: c.PackConstraint.Required, preferred: c.PackConstraint.Preferred}
	maps.DeleteFunc(out, func(_, label string) bool { return label == "" })
	return out
}

// keepMinima copies the minimum of former to current's podgroups with minimum 0, and marks them as Released. Grove sets minimum 0
// once a podgroup is placed, so that Grove may replace its pods. A podgroup that lists no pods while another one lists some was
// scaled to zero: it gets no former minimum. After a restart the former minimum is unknown.
func keepMinima(former, current *Owned) {
	listed := false
	for _, part := range current.Parts {
		listed = listed || part.Listed > 0
	}
	for name, part := range current.Parts {
		if part.Size == 0 && (part.Listed > 0 || !listed) {
			part.Size, part.Released = former.Parts[name].Size, true
			current.Parts[name] = part
		}
	}
}

// fillPodGang fills d from the podgroup of g's members. A gang with minimum 0 has no group. A group includes a Released podgroup
// only while that podgroup has members.
func fillPodGang(d *Declaration, g Gang) {
	pod := firstPod(g.allPods(), func(*v1.Pod) bool { return true })
	part := pod.Labels[workloads.LabelPodClique]
	clique, known := g.Owner.Parts[part]
	d.addOwner(g)
	d.origins[len(d.origins)-1].lookup = func(key string) (string, bool) {
		if value, ok := clique.Values[key]; ok {
			return value, ok
		}
		return g.Owner.value(key)
	}
	d.addPod(g)
	d.Notes = append(d.Notes, g.Owner.Notes...)
	switch {
	case part == "":
		d.setProblem(fmt.Errorf("label %s is missing on %s/%s; write the name of a podgroup of %s",
			workloads.LabelPodClique, pod.Namespace, pod.Name, g.Owner.Key))
	case !known:
		d.setProblem(fmt.Errorf("%s: %q on %s/%s names no podgroup of %s; supported values: %v",
			workloads.LabelPodClique, part, pod.Namespace, pod.Name, g.Owner.Key, slices.Sorted(maps.Keys(g.Owner.Parts))))
	}
	d.Min = max(1, clique.Size)
	if clique.Size == 0 {
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
		config := branch{where: b.Where, keys: packKeys, values: b.Values}
		for _, name := range b.Parts {
			config.gangs = append(config.gangs, podGangRef(g, name))
		}
		d.branches = append(d.branches, config)
	}
	sortRefs(d.Group)
}

// podGangRef returns the gang of another podgroup of the same PodGang.
func podGangRef(g Gang, part string) gang.Ref {
	return gang.Ref{Source: g.Ref.Source, Namespace: g.Ref.Namespace, Name: podGangPart(g.Owner.Key.Name, part)}
}
