package source

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// All are the sources by precedence: the first that names a gang of a pod wins. Registered sources come last.
var All = []Source{native, workload, podGroup, podGroupX, annotation, podGang, volcano, leaderWorkerSet, jobSet, job, labels}

// Register adds a source of another project: a kind of object that declares gangs, or pods that describe their gang themselves.
// Call it when the program begins, before anything is read. It panics if the source is invalid.
func Register(s Source) {
	switch {
	case s.Way == "" || s.NameOf == nil:
		panic("a source needs a way in which pods name their gang")
	case s.Space == "" || strings.ContainsAny(s.Space, " /") || sourceOf(s.Space) != nil:
		panic(fmt.Sprintf("source %s: space %q is invalid; supported values: one of its own, in one word", s.Way, s.Space))
	case s.Fill != nil || s.AddFamily != nil || s.Owner != nil:
		panic(fmt.Sprintf("source %s: what owners say is for Muster's own sources", s.Way))
	case (s.Object == nil) != s.SelfDescribed:
		panic(fmt.Sprintf("source %s: either objects declare its gangs, or its pods do themselves", s.Way))
	}
	if s.Object != nil { // Muster does not write the status of other projects
		o := *s.Object
		o.Optional, o.ReadOnly, s.Object = true, true, &o
	}
	All = append(All, s)
}

// GangOf returns the gang that a pod is a member of; the zero Ref for none.
func GangOf(pod *v1.Pod) gang.Ref {
	for i := range All {
		if name := All[i].NameOf(pod); name != "" {
			return All[i].refOf(pod, name)
		}
	}
	return gang.Ref{}
}

// IsLeader says whether a pod is the leader of its gang: the controller creates the other members for it. The source that knows
// leaders need not be the source of the gang. If a source before it names an object, the names must be equal: an object of another
// name may span several gangs.
func IsLeader(pod *v1.Pod) bool {
	named := ""
	for i := range All {
		s := &All[i]
		name := s.NameOf(pod)
		switch {
		case name == "":
		case named != "" && name != named:
			return false
		case s.IsLeader != nil:
			return s.IsLeader(pod)
		case s.Object == nil:
			return false
		default:
			named = name
		}
	}
	return false
}

// WayOf returns the Source.Way in which a pod names its gang; "" if it names none.
func WayOf(pod *v1.Pod) string {
	for i := range All {
		if All[i].NameOf(pod) != "" {
			return All[i].Way
		}
	}
	return ""
}

// WayTo returns the Source.Way in which pods name the gangs that objects of a space declare.
func WayTo(space string) string { return sourceOf(space).Way }

// OtherGangs returns a message if a pod names another gang than the one that it is a member of; else "".
func OtherGangs(pod *v1.Pod) string {
	effective := ""
	ref := gang.Ref{}
	rivals := []string(nil)
	for i := range All {
		s := &All[i]
		name := s.NameOf(pod)
		if name == "" || s.Implied && effective != "" {
			continue
		}
		naming := fmt.Sprintf("%s: %q", s.Way, name)
		switch other := s.refOf(pod, name); {
		case effective == "":
			effective, ref = naming, other
		case other != ref:
			rivals = append(rivals, naming)
		}
	}
	if len(rivals) == 0 {
		return ""
	}
	return fmt.Sprintf("the pod names more than one gang: %s has no effect, because %s is used; keep one of them",
		strings.Join(rivals, ", "), effective)
}

// Implied returns the gang that a controller makes a pod for, if the pod also names a gang that takes precedence. named is that
// key and name, for messages. Otherwise Implied returns the zero Ref.
func Implied(pod *v1.Pod) (ref gang.Ref, named string) {
	for i := range All {
		s := &All[i]
		name := s.NameOf(pod)
		switch {
		case name == "":
		case s.Implied:
			if named == "" {
				return gang.Ref{}, ""
			}
			return s.refOf(pod, name), named
		case named == "":
			named = fmt.Sprintf("%s: %q", s.Way, name)
		}
	}
	return gang.Ref{}, ""
}

// OwnerMakingPod returns the owner for which a controller created the pod, whatever gang the pod names; false for other pods.
func OwnerMakingPod(pod *v1.Pod) (OwnerKey, bool) {
	for i := range All {
		if s := &All[i]; s.Implied && s.NameOf(pod) != "" {
			return OwnerKey{s.Owner.Kind, pod.Namespace, s.OwnerName(pod)}, true
		}
	}
	return OwnerKey{}, false
}

// Reads says whether the declaration of a gang depends on objects of a resource: its own object, or its owner.
func Reads(g Gang, owner OwnerKey, r schema.GroupVersionResource) bool {
	if o := ObjectOf(g.Ref.Source); o != nil && o.Resource == r {
		return true
	}
	kind := kindOf(owner.Kind)
	return kind != nil && kind.Resource == r
}

// Describes says whether a pod describes its gang itself, which then needs no object.
func Describes(pod *v1.Pod) bool {
	for i := range All {
		if All[i].NameOf(pod) != "" {
			return All[i].SelfDescribed
		}
	}
	return false
}

// ObjectOf returns the kind of object that declares gangs of a space; nil for none.
func ObjectOf(space string) *Object {
	for i := range All {
		if All[i].Space == space && All[i].Object != nil {
			return All[i].Object
		}
	}
	return nil
}

// Permission is an access right that the scheduler needs.
type Permission struct {
	Group, Version, Resource string
	Verbs                    string // separated by spaces
	Optional                 bool   // clusters need not serve it
}

// Permissions lists the access rights for the objects of all sources.
func Permissions() (out []Permission) {
	for i := range All {
		if o := All[i].Object; o != nil {
			out = append(out, permission(o.Resource, "list watch", o.ReadOnly))
			if !o.ReadOnly || o.Condition != nil {
				status := o.Resource
				status.Resource += "/status"
				out = append(out, permission(status, "patch", o.ReadOnly))
			}
		}
	}
	for _, o := range Owners {
		out = append(out, permission(o.Resource, "list watch", true))
		if o.Scored {
			status := o.Resource
			status.Resource += "/status"
			out = append(out, permission(status, "patch", true))
		}
	}
	return out
}

// Foreign says whether a resource is another project's: clusters may lack it, or deny the scheduler to read it.
func Foreign(r schema.GroupVersionResource) bool {
	for i := range All {
		if o := All[i].Object; o != nil && slices.Contains(o.Versions(), r) {
			return o.ReadOnly
		}
	}
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Resource == r })
}

// permission returns the Permission for a resource. verbs are separated by spaces.
func permission(r schema.GroupVersionResource, verbs string, optional bool) Permission {
	return Permission{r.Group, r.Version, r.Resource, verbs, optional}
}

// IsFamily says whether the gangs of one owner of this kind are declared together.
func IsFamily(kind string) bool {
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Kind == kind && o.Family })
}

// Releases says whether parts of an owner of this kind keep their former minimum (Owner.Keep). Parts without members do not.
func Releases(kind string) bool {
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Kind == kind && o.Keep != nil })
}

// CarryOver copies values of former, an older version of the same object, to o, with Owner.Keep. former is nil if the object is new.
func (o *Owned) CarryOver(former *Owned) {
	if former == nil || former.Object == nil || o.Object == nil || former.Object.UID != o.Object.UID {
		return
	}
	for _, kind := range Owners {
		if kind.Kind == o.Key.Kind && kind.Keep != nil {
			kind.Keep(former, o)
		}
	}
}

// Scored returns the resource in which Muster writes status.placementScore; ok is false if it does not write it.
func (o *Owned) Scored() (r schema.GroupVersionResource, ok bool) {
	if kind := kindOf(o.Key.Kind); kind != nil && kind.Scored {
		return kind.Resource, o.Object != nil
	}
	return r, false
}

const kubeflowRole = "rbac/sources/kubeflow.yaml"

// Owners are the kinds of objects that declare more of a gang than its pods or PodGroups do.
var Owners = []*Owner{
	leaderWorkerSets, jobSets, jobs, podGangs, compositePodGroups, workloadOwners,
	// Makers of scheduling.x-k8s.io PodGroups: only annotations are read.
	{
		Resource: schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}, Role: kubeflowRole,
		Kind: "TrainJob",
	},
	{
		Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v2beta1", Resource: "mpijobs"}, Role: kubeflowRole,
		Kind: "MPIJob",
	},
	{
		Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs"}, Role: kubeflowRole,
		Kind: "PyTorchJob",
	},
	{Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "tfjobs"}, Role: kubeflowRole, Kind: "TFJob"},
	{Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "jaxjobs"}, Role: kubeflowRole, Kind: "JAXJob"},
	{
		Resource: schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}, Role: "rbac/sources/kuberay.yaml",
		Kind: "RayCluster",
	},
}

// ownerIn returns the first object in refs whose kind is in Owners; false if there is none.
func ownerIn(namespace string, refs []metav1.OwnerReference) (OwnerKey, bool) {
	for _, ref := range refs {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			continue
		}
		for _, o := range Owners {
			if o.Kind == ref.Kind && o.Resource.Group == gv.Group {
				return OwnerKey{o.Kind, namespace, ref.Name}, true
			}
		}
	}
	return OwnerKey{}, false
}

// OwnerOf returns the owner of the object that declares a gang, else the owner that its members name. The object need not exist.
func OwnerOf(g Gang) (OwnerKey, bool) {
	if g.Object != nil && g.More.Owner != (OwnerKey{}) {
		return g.More.Owner, true
	}
	if g.Object != nil {
		return ownerIn(g.Object.Namespace, g.Object.OwnerReferences)
	}
	s := sourceOf(g.Ref.Source)
	if s == nil || s.Owner == nil {
		return OwnerKey{}, false
	}
	for _, pods := range []map[string]*v1.Pod{g.Pods, g.Finished} {
		for _, pod := range pods {
			if name := s.OwnerName(pod); name != "" {
				return OwnerKey{s.Owner.Kind, pod.Namespace, name}, true
			}
		}
	}
	return OwnerKey{}, false
}

// kindOf returns the entry of Owners with this kind name; nil for none.
func kindOf(name string) *Owner {
	for _, o := range Owners {
		if o.Kind == name {
			return o
		}
	}
	return nil
}

// sourceOf returns the source that finds the members of a space's gangs; nil for none.
func sourceOf(space string) *Source {
	for i := range All {
		if All[i].Space == space {
			return &All[i]
		}
	}
	return nil
}
