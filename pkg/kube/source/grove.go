package source

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Labels that Grove gives its pods.
const (
	groveGang  = convert.LabelPodGang
	groveGroup = "grove.io/podclique"
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
	Way:       "labels " + groveGang + ", " + groveGroup,
	Space:     "podgang",
	Implied:   true,
	NameOf:    podGangGang,
	Owner:     podGangs,
	OwnerName: func(pod *v1.Pod) string { return pod.Labels[groveGang] },
	Needs:     true,
	Fill:      fillPodGang,
}

// podGangGang names the gang of a pod. A pod without a podgroup is of a gang that says so: else
// it would start alone.
func podGangGang(pod *v1.Pod) string {
	if name := pod.Labels[groveGang]; name != "" {
		return podGangPart(name, pod.Labels[groveGroup])
	}
	return ""
}

// podGangPart names the gang of a podgroup. Grove's own names begin with the PodGang's, others
// need not; values of labels have no slash.
func podGangPart(name, part string) string { return name + "/" + part }

// readPodGang takes what a PodGang says. What is wrong with it is the problem of all its gangs.
func readPodGang(u *unstructured.Unstructured, out *Owned) error {
	out.Parts = map[string]Part{}
	out.Problem = func() error {
		if err := readPodGroups(u, out); err != nil {
			return err
		}
		all, err := readPack(u.Object, "spec")
		if err != nil {
			return err
		}
		for key, value := range all.words(FieldPackRequired, FieldPackPreferred) {
			out.add(key, value)
		}
		return readPackConfigs(u, out)
	}()
	if score, ok := field(u.Object, "status", "placementScore"); ok {
		out.Score = number(score)
	}
	if _, reuses := field(u.Object, "spec", "reuseReservationRef"); reuses {
		out.Notes = append(out.Notes, Note{InvalidAnnotation, "spec.reuseReservationRef has no effect: places are not kept for a PodGang that comes after another one"})
	}
	return nil
}

// readPodGroups reads the podgroups: how many of each must start together, and where.
func readPodGroups(u *unstructured.Unstructured, out *Owned) error {
	all, err := objectsIn(u.Object, "spec", "podgroups")
	if err != nil {
		return err
	}
	for i, object := range all {
		at := fmt.Sprintf("spec.podgroups[%d]", i)
		name, _ := object["name"].(string)
		if _, twice := out.Parts[name]; name == "" || twice {
			return fmt.Errorf("%s.name: %v is not legal; legal: a name that no other podgroup has", at, quoted(object["name"]))
		}
		least, err := count(object["minReplicas"], 0)
		if err != nil {
			return fmt.Errorf("%s.minReplicas: %w", at, err)
		}
		pack, err := readPack(object)
		if err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		out.Parts[name] = Part{Jobs: 1, Size: least, Words: pack.words(FieldPackPartRequired, FieldPackPartPreferred)}
	}
	return nil
}

// pack is a topologyConstraint: label keys, "" where none is named.
type pack struct{ required, preferred string }

// words are what it says as fields do.
func (p pack) words(required, preferred string) map[string]string {
	out := map[string]string{required: p.required, preferred: p.preferred}
	maps.DeleteFunc(out, func(_, label string) bool { return label == "" })
	return out
}

// readPack reads the topologyConstraint of an object, or of its field.
func readPack(object map[string]any, in ...string) (p pack, err error) {
	path := append(slices.Clone(in), "topologyConstraint", "packConstraint")
	if p.required, err = text(object, append(slices.Clone(path), "required")...); err != nil {
		return pack{}, err
	}
	p.preferred, err = text(object, append(slices.Clone(path), "preferred")...)
	return p, err
}

// readPackConfigs takes the constraints of some podgroups: a level between each of them and all.
func readPackConfigs(u *unstructured.Unstructured, out *Owned) error {
	configs, err := objectsIn(u.Object, "spec", "topologyConstraintGroupConfigs")
	if err != nil {
		return err
	}
	for i, object := range configs {
		at := fmt.Sprintf("spec.topologyConstraintGroupConfigs[%d]", i)
		asks, err := readPack(object)
		if err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		names, err := textsIn(object, "podGroupNames")
		if err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		for _, name := range names {
			if _, known := out.Parts[name]; !known {
				return fmt.Errorf("%s.podGroupNames: %q is no podgroup; legal: one of %v", at, name, slices.Sorted(maps.Keys(out.Parts)))
			}
		}
		if asks != (pack{}) && len(names) > 0 {
			out.Branches = append(out.Branches, Branch{Where: at, Parts: names, Words: asks.words(fieldPackRequired, fieldPackPreferred)})
		}
	}
	return nil
}

// keepMinima keeps the last minimum of podgroups whose minimum is 0 now: Grove releases it once
// they are placed, so that it may replace them, and not because fewer would do. After a
// restart it is not known.
func keepMinima(was, is *Owned) {
	for name, part := range is.Parts {
		if part.Size == 0 {
			part.Size = was.Parts[name].Size
			is.Parts[name] = part
		}
	}
}

// fillPodGang: a podgroup whose minimum was released waits for nobody, and nobody for it.
func fillPodGang(d *Declaration, g Gang) {
	pod := first(g.any(), func(*v1.Pod) bool { return true })
	part := pod.Labels[groveGroup]
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
		d.problem(fmt.Errorf("label %s is missing on %s/%s; legal: a podgroup of %s", groveGroup, pod.Namespace, pod.Name, g.Owner.Key))
	case !known:
		d.problem(fmt.Errorf("%s: %q on %s/%s names no podgroup of %s; legal: one of %v",
			groveGroup, part, pod.Namespace, pod.Name, g.Owner.Key, slices.Sorted(maps.Keys(g.Owner.Parts))))
	}
	d.Min = max(1, is.Size)
	if is.Size == 0 {
		return
	}
	for name, other := range g.Owner.Parts {
		if other.Size > 0 {
			d.Group = append(d.Group, podGangRef(g, name))
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
