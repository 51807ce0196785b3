package source

import (
	"fmt"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
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
	// Children is the kind of the objects through which its controller makes pods, and which say how many it still makes; nil if there is none.
	Children *Owner
	// Scored says that status.placementScore is for a scheduler to write: how near the pods of its gangs are
	// to one another. Nothing else of these objects is.
	Scored bool
}

// ChildKind is the kind of the objects through which owners of a kind make pods; "" if there is none.
func ChildKind(kind string) string {
	if o := kindOf(kind); o != nil && o.Children != nil {
		return o.Children.Kind
	}
	return ""
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
	// Makes is the gang of whose pods a Job of a JobSet makes some; zero for other objects.
	Makes gang.Ref
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
	// Priority and Never are what a CompositePodGroup says of the priority and the preemption of all pods below it; nil if it says nothing.
	Priority *int32
	Never    *bool
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
