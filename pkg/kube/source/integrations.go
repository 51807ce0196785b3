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

// All are the sources, in the order in which a pod is asked: the first that names a gang
// wins. Those of somebody's own come last (Register).
var All = []Source{native, workload, podGroup, podGroupX, annotation, podGang, volcano, leaderWorkerSet, jobSet, job, labels}

// Register adds a source of somebody's own: a kind of object that declares gangs, or pods that describe theirs themselves. It is to be
// called when the program begins, before anything is read. It panics if a source cannot be like that.
func Register(s Source) {
	switch {
	case s.Way == "" || s.NameOf == nil:
		panic("a source needs a way in which pods name their gang")
	case s.Space == "" || strings.ContainsAny(s.Space, " /") || of(s.Space) != nil:
		panic(fmt.Sprintf("source %s: space %q is invalid; supported values: one of its own, in one word", s.Way, s.Space))
	case s.Fill != nil || s.Family != nil || s.Owner != nil:
		panic(fmt.Sprintf("source %s: what owners say is for Muster's own sources", s.Way))
	case (s.Object == nil) != s.Itself:
		panic(fmt.Sprintf("source %s: either objects declare its gangs, or its pods do themselves", s.Way))
	}
	if s.Object != nil { // of another project, whose status is not ours
		o := *s.Object
		o.Optional, o.ReadOnly, s.Object = true, true, &o
	}
	All = append(All, s)
}

// Of names the gang that a pod is a member of; the zero Ref if it is of none.
func Of(pod *v1.Pod) gang.Ref {
	for i := range All {
		if name := All[i].NameOf(pod); name != "" {
			return All[i].refOf(pod, name)
		}
	}
	return gang.Ref{}
}

// Leads says whether a pod is the one for which the other members of its gang are made. An object of the gang's name may have
// been made for the gang that its controller means; one of another name may be about several of these.
func Leads(pod *v1.Pod) bool {
	named := ""
	for i := range All {
		s := &All[i]
		name := s.NameOf(pod)
		switch {
		case name == "":
		case named != "" && name != named:
			return false
		case s.Leads != nil:
			return s.Leads(pod)
		case s.Object == nil:
			return false
		default:
			named = name
		}
	}
	return false
}

// WayOf is the way in which a pod names its gang (Source.Way); "" if it names none.
func WayOf(pod *v1.Pod) string {
	for i := range All {
		if All[i].NameOf(pod) != "" {
			return All[i].Way
		}
	}
	return ""
}

// Rivals says which ways of a pod name another gang than the one that it is a member of; "" if
// none does.
func Rivals(pod *v1.Pod) string {
	counts, ref, rivals := "", gang.Ref{}, []string(nil)
	for i := range All {
		s := &All[i]
		name := s.NameOf(pod)
		if name == "" || s.Implied && counts != "" {
			continue
		}
		said := fmt.Sprintf("%s: %q", s.Way, name)
		switch of := s.refOf(pod, name); {
		case counts == "":
			counts, ref = said, of
		case of != ref:
			rivals = append(rivals, said)
		}
	}
	if len(rivals) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: not the gang that %s names; supported values: one gang a pod; %s is used", strings.Join(rivals, ", "), counts, counts)
}

// Implied returns the gang that a controller means a pod for, and what names another one
// instead: the pod is a member of that. The zero Ref if there is no such difference.
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

// MeantBy names the owner whose controller means a pod for a gang, whatever the pod names.
func MeantBy(pod *v1.Pod) (OwnerKey, bool) {
	for i := range All {
		if s := &All[i]; s.Implied && s.NameOf(pod) != "" {
			return OwnerKey{s.Owner.Kind, pod.Namespace, s.OwnerName(pod)}, true
		}
	}
	return OwnerKey{}, false
}

// Reads says whether what is declared of a gang depends on objects of a resource: those that
// declare it, or those that own it.
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
			return All[i].Itself
		}
	}
	return false
}

// ObjectOf is the kind of object that declares gangs of a space; nil if there is none.
func ObjectOf(space string) *Object {
	for i := range All {
		if All[i].Space == space && All[i].Object != nil {
			return All[i].Object
		}
	}
	return nil
}

// Permission is something that the scheduler must be allowed to do.
type Permission struct {
	Group, Version, Resource string
	Verbs                    string // separated by spaces
	Optional                 bool   // clusters need not serve it
}

// Permissions lists what the objects of all sources need.
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

// Foreign says whether a resource is another project's: clusters need not serve it, nor permit
// the scheduler to read it.
func Foreign(r schema.GroupVersionResource) bool {
	for i := range All {
		if o := All[i].Object; o != nil && slices.Contains(o.Versions(), r) {
			return o.ReadOnly
		}
	}
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Resource == r })
}

func permission(r schema.GroupVersionResource, verbs string, optional bool) Permission {
	return Permission{r.Group, r.Version, r.Resource, verbs, optional}
}

// IsFamily says whether the gangs of one owner of this kind are declared together.
func IsFamily(kind string) bool {
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Kind == kind && o.Family })
}

// Releases says whether parts of an owner of this kind keep a minimum that is said no more: they need none without members.
func Releases(kind string) bool {
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Kind == kind && o.Keep != nil })
}

// Follows notes what the same object said before; nil if it is new.
func (o *Owned) Follows(was *Owned) {
	if was == nil || was.Object == nil || o.Object == nil || was.Object.UID != o.Object.UID {
		return
	}
	for _, kind := range Owners {
		if kind.Kind == o.Key.Kind && kind.Keep != nil {
			kind.Keep(was, o)
		}
	}
}

// Scored is the resource whose status.placementScore is to say how near an object's pods are; ok is false
// if that is not for us to say.
func (o *Owned) Scored() (r schema.GroupVersionResource, ok bool) {
	if kind := kindOf(o.Key.Kind); kind != nil && kind.Scored {
		return kind.Resource, o.Object != nil
	}
	return r, false
}

const kubeflowRole = "rbac/sources/kubeflow.yaml"

// Owners are the kinds whose objects say something of gangs that their pods or PodGroups do not.
var Owners = []*Owner{
	leaderWorkerSets, jobSets, jobs, podGangs, compositePodGroups, workloadOwners,
	// Makers of scheduling.x-k8s.io PodGroups: only annotations are read.
	{Resource: schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}, Role: kubeflowRole, Kind: "TrainJob"},
	{Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v2beta1", Resource: "mpijobs"}, Role: kubeflowRole, Kind: "MPIJob"},
	{Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs"}, Role: kubeflowRole, Kind: "PyTorchJob"},
	{Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "tfjobs"}, Role: kubeflowRole, Kind: "TFJob"},
	{Resource: schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "jaxjobs"}, Role: kubeflowRole, Kind: "JAXJob"},
	{Resource: schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}, Role: "rbac/sources/kuberay.yaml", Kind: "RayCluster"},
}

// ownerIn finds the owner that a list of references names, if it is of a kind that says
// something of gangs.
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

// OwnerOf names the object that may say something of a gang: the owner of the object that
// declares it, else the one that its members name. There need not be such an object.
func OwnerOf(g Gang) (OwnerKey, bool) {
	if g.Object != nil && g.More.Owner != (OwnerKey{}) {
		return g.More.Owner, true
	}
	if g.Object != nil {
		return ownerIn(g.Object.Namespace, g.Object.OwnerReferences)
	}
	s := of(g.Ref.Source)
	if s == nil || s.Owner == nil {
		return OwnerKey{}, false
	}
	for _, pods := range []map[string]*v1.Pod{g.Pods, g.Done} {
		for _, pod := range pods {
			if name := s.OwnerName(pod); name != "" {
				return OwnerKey{s.Owner.Kind, pod.Namespace, name}, true
			}
		}
	}
	return OwnerKey{}, false
}

// kindOf is the kind of owners of that name; nil if there is none.
func kindOf(name string) *Owner {
	for _, o := range Owners {
		if o.Kind == name {
			return o
		}
	}
	return nil
}

// of is the source whose members make up the gangs of a space.
func of(space string) *Source {
	for i := range All {
		if All[i].Space == space {
			return &All[i]
		}
	}
	return nil
}
