package source

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// Labels that Grove gives its pods.
const (
	groveGang  = "grove.io/podgang"
	groveGroup = "grove.io/podclique"
)

// podGangs are Grove's. Of a PodGang nothing but status.placementScore is a scheduler's to
// write, and we write nothing.
var podGangs = &Owner{
	Resource: schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"},
	Role:     "rbac/sources/grove.yaml",
	Kind:     "PodGang",
	Read:     readPodGang,
	Keep:     keepMinima,
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
		order, packs, err := readPodGroups(u, out)
		if err != nil {
			return err
		}
		all, err := readPack(u.Object, "spec")
		if err != nil {
			return err
		}
		if all, err = readPackConfigs(u, all, order, packs); err != nil {
			return err
		}
		out.addPack(all, FieldPackRequired, FieldPackPreferred)
		for _, name := range order {
			if first := order[0]; packs[name] != packs[first] {
				return fmt.Errorf("spec.podgroups: %q asks for %s, %q for %s; legal: the same topologyConstraint on all podgroups, or one of the whole PodGang",
					first, packs[first], name, packs[name])
			}
		}
		if len(order) > 0 {
			out.addPack(packs[order[0]], FieldPackPartRequired, FieldPackPartPreferred)
		}
		return nil
	}()
	if _, reuses := field(u.Object, "spec", "reuseReservationRef"); reuses {
		out.Notes = append(out.Notes, Note{InvalidAnnotation, "spec.reuseReservationRef has no effect: places are not kept for a PodGang that comes after another one"})
	}
	return nil
}

// readPodGroups reads the podgroups: how many of each must start together, and where.
func readPodGroups(u *unstructured.Unstructured, out *Owned) (order []string, packs map[string]pack, err error) {
	all, err := objectsIn(u.Object, "spec", "podgroups")
	if err != nil {
		return nil, nil, err
	}
	packs = map[string]pack{}
	for i, object := range all {
		at := fmt.Sprintf("spec.podgroups[%d]", i)
		name, _ := object["name"].(string)
		if _, twice := out.Parts[name]; name == "" || twice {
			return nil, nil, fmt.Errorf("%s.name: %v is not legal; legal: a name that no other podgroup has", at, quoted(object["name"]))
		}
		least, err := count(object["minReplicas"], 0)
		if err != nil {
			return nil, nil, fmt.Errorf("%s.minReplicas: %w", at, err)
		}
		if packs[name], err = readPack(object); err != nil {
			return nil, nil, fmt.Errorf("%s.%w", at, err)
		}
		out.Parts[name], order = Part{Jobs: 1, Size: least}, append(order, name)
	}
	return order, packs, nil
}

// pack is a topologyConstraint: label keys, "" where none is named.
type pack struct{ required, preferred string }

func (p pack) String() string {
	if p == (pack{}) {
		return "no topologyConstraint"
	}
	return fmt.Sprintf("required %q, preferred %q", p.required, p.preferred)
}

func (o *Owned) addPack(p pack, required, preferred string) {
	if p.required != "" {
		o.add(required, p.required)
	}
	if p.preferred != "" {
		o.add(preferred, p.preferred)
	}
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

// readPackConfigs takes the constraints of some podgroups for those of each, or of all. What is
// between, a group within the group, cannot be placed yet.
func readPackConfigs(u *unstructured.Unstructured, all pack, order []string, packs map[string]pack) (pack, error) {
	configs, err := objectsIn(u.Object, "spec", "topologyConstraintGroupConfigs")
	if err != nil {
		return all, err
	}
	for i, object := range configs {
		at := fmt.Sprintf("spec.topologyConstraintGroupConfigs[%d]", i)
		asks, err := readPack(object)
		if err != nil {
			return all, fmt.Errorf("%s.%w", at, err)
		}
		names, _, err := unstructured.NestedStringSlice(object, "podGroupNames")
		if err != nil {
			return all, fmt.Errorf("%s.podGroupNames: %w", at, err)
		}
		of := map[string]bool{}
		for _, name := range names {
			if of[name] = true; !slices.Contains(order, name) {
				return all, fmt.Errorf("%s.podGroupNames: %q is no podgroup; legal: one of %v", at, name, order)
			}
		}
		switch {
		case asks == pack{}:
		case len(of) == len(order) && len(of) != 1 && all == pack{}:
			all = asks
		case len(of) == 1 && packs[names[0]] == pack{}:
			packs[names[0]] = asks
		default:
			return all, fmt.Errorf("%s: %s for podgroups %v; legal: for one podgroup or for all of them, without another constraint for the same, since groups within a PodGang are not placed yet",
				at, asks, slices.Sorted(maps.Keys(of)))
		}
	}
	return all, nil
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
	d.speakerOwner(g)
	d.speakerPod(g)
	pod := first(g.any(), func(*v1.Pod) bool { return true })
	if err := g.Owner.Problem; err != nil {
		d.problem(err)
		d.note(InvalidAnnotation, err.Error()) // who looks at the PodGang does not see its gangs
	}
	d.Notes = append(d.Notes, g.Owner.Notes...)
	part := pod.Labels[groveGroup]
	is, known := g.Owner.Parts[part]
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
			d.Group = append(d.Group, gang.Ref{Source: g.Ref.Source, Namespace: g.Ref.Namespace, Name: podGangPart(g.Owner.Key.Name, name)})
		}
	}
	if len(d.Group) < 2 {
		d.Group = nil
	}
	sortRefs(d.Group)
}
