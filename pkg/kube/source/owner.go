package source

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Owner is a kind of object for which a controller makes pods, or an object that declares a
// gang. Controllers copy little of what users write there, so it is read where it stands.
type Owner struct {
	Resource schema.GroupVersionResource
	Kind     string
	// Lazy says that its objects are read only when there is a gang that may have such an owner:
	// clusters have many that own none.
	Lazy bool
	// Role is the file below manifests that permits to read its objects.
	Role string
	// Read takes what is to be known of an object beside its annotations; nil is nothing.
	Read func(*unstructured.Unstructured, *Owned) error
	// Trim drops what no reader needs, where clusters have many such objects; nil is nothing.
	Trim func(*unstructured.Unstructured)
	// Keep has an object hold on to something that it has said before; nil is nothing.
	Keep func(was, is *Owned)
	// Family says that the gangs of one such object are declared together: each by what all say.
	Family bool
	// Scored says that status.placementScore is for a scheduler to write: how near the pods of its gangs are
	// to one another. Nothing else of these objects is.
	Scored bool
}

// IsFamily says whether the gangs of one owner of this kind are declared together.
func IsFamily(kind string) bool {
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Kind == kind && o.Family })
}

// Releases says whether parts of an owner of this kind keep a minimum that is said no more: they need none without members.
func Releases(kind string) bool {
	return slices.ContainsFunc(Owners, func(o *Owner) bool { return o.Kind == kind && o.Keep != nil })
}

// OwnerKey names an object that may own a gang.
type OwnerKey struct{ Kind, Namespace, Name string }

func (k OwnerKey) String() string { return fmt.Sprintf("%s %s/%s", k.Kind, k.Namespace, k.Name) }

// Compare orders owners by name.
func (k OwnerKey) Compare(o OwnerKey) int { return topology.CompareNames(k.String(), o.String()) }

// Owned is what an owner says of its gangs.
type Owned struct {
	Key OwnerKey
	// Object is who events are about.
	Object *v1.ObjectReference
	// Words are its annotations, and fields that say the same as annotations of other APIs.
	Words map[string]string
	// Size is how many pods a gang has; 0 if that is not said.
	Size int
	// Left is how many pods the controller of a Job still keeps running, and Succeeded how many it has counted as completed.
	Left, Succeeded int
	// LeaderFirst says why the first pod must not wait for the others; "" if it may.
	LeaderFirst string
	// Follower is what the other pods need; nil if it is what the first does, or not known.
	Follower *v1.PodTemplateSpec
	// Parts are those of an owner that has several, by name.
	Parts map[string]Part
	// Branches are parts that belong together.
	Branches []Branch
	// InTurn says that the parts start one after the other.
	InTurn bool
	// Attempt is the one of which Part.Succeeded is said, "" the first.
	Attempt string
	// TopologyKey is the label key in whose domain all of its gangs must be; "" if none is named.
	TopologyKey string
	// Parent is the object that this one is a part of; zero if it is the root of its tree.
	Parent OwnerKey
	// Problem is why none of its gangs can be planned, and Notes what people should know of it.
	Problem error
	Notes   []Note
	// Unheeded says which words of a Job have no effect, since its pods are no gang, and Scheduler whose pods they are.
	Unheeded, Scheduler string
	// Score is what its status.placementScore says; nil if it says nothing.
	Score *float64
}

// Owns says whether a gang of its name is one of the object's, and not of one that had its name
// before.
func (o *Owned) Owns(ref gang.Ref) bool {
	return o != nil && (ref.UID == "" || o.Object == nil || o.Object.UID == "" || string(o.Object.UID) == ref.UID)
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

// Part is one of several templates of an owner.
type Part struct {
	Jobs, Size int  // so many, of so many pods each
	Alone      bool // each of them is a gang
	Listed     int  // so many pods are listed by name
	Released   bool // Size was said before, and is 0 now
	Succeeded  int  // so many of the Jobs have succeeded: their pods may be gone
	// Words are what is said of it alone, as fields do.
	Words map[string]string
}

// Branch is some parts whose gangs gather with one another, as the fields of one part say it.
type Branch struct {
	Where string // the field that says so
	Parts []string
	Words map[string]string
}

func (o *Owned) says(key string) (string, bool) {
	return said(o.Words, key)
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

// ReadOwner reads an object of a kind. One that cannot be read has that for a problem.
func (o *Owner) ReadOwner(u *unstructured.Unstructured) (*Owned, error) {
	out := &Owned{
		Key:   OwnerKey{o.Kind, u.GetNamespace(), u.GetName()},
		Words: u.GetAnnotations(),
		Object: &v1.ObjectReference{
			APIVersion: o.Resource.GroupVersion().String(), Kind: o.Kind, Namespace: u.GetNamespace(), Name: u.GetName(),
			UID: types.UID(u.GetUID()), ResourceVersion: u.GetResourceVersion(),
		},
	}
	if o.Read == nil {
		return out, nil
	}
	err := o.Read(u, out)
	if err != nil && out.Problem == nil {
		out.Problem = fmt.Errorf("%s cannot be read: %w", out.Key, err)
	}
	return out, err
}

// add says something more than the annotations.
func (o *Owned) add(key, value string) {
	words := map[string]string{}
	maps.Copy(words, o.Words) // which are the object's own
	words[key] = value
	o.Words = words
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

// tierWords adds what a networkTopology says, under fields, to some words.
func tierWords(n *workloads.NetworkTopology, add func(key, value string)) {
	if n == nil {
		return
	}
	add(FieldTopologyMode, n.Mode)
	if n.HighestTierAllowed != nil {
		add(FieldTopologyTier, strconv.Itoa(int(*n.HighestTierAllowed)))
	}
	if n.HighestTierName != "" {
		add(FieldTopologyTierName, n.HighestTierName)
	}
}
