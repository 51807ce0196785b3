package source

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Owner is a kind of object for which a controller makes pods or objects that declare a gang. Controllers copy few annotations
// to these, so the object itself is read.
type Owner struct {
	Resource schema.GroupVersionResource
	Kind     string
	// Lazy says that an object is only read when a gang may have it as its owner: most objects of this kind own no gang.
	Lazy bool
	// Role is the file below manifests that permits reading its objects.
	Role string
	// Spec returns an empty spec with all fields of the API, also the ones that Muster does not use; nil if they are not known.
	Spec func() any
	// Read adds to Owned what the object declares beside its annotations; nil for nothing.
	Read func(*unstructured.Unstructured, *Owned) error
	// Trim removes what no reader needs, for kinds with many objects; nil for nothing.
	Trim func(*unstructured.Unstructured)
	// Keep carries values of the former version of an object over to the current one; nil for none.
	Keep func(former, current *Owned)
	// Family says that the gangs of one such object are declared together.
	Family bool
	// Children is the kind of the objects through which its controller makes pods. Their status counts the pods still to make; nil for none.
	Children *Owner
	// Scored says that Muster writes status.placementScore: how near the pods of its gangs are to one another. Muster writes no other field.
	Scored bool
}

// ChildKind returns the kind of the objects through which owners of a kind make pods; "" for none.
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

// Owned is what an owner declares of its gangs.
type Owned struct {
	Key OwnerKey
	// Object is the object that events are about.
	Object *v1.ObjectReference
	// Values are its annotations, and fields under the keys of annotations with the same meaning.
	Values map[string]string
	// Size is the number of pods in a gang; 0 if undeclared.
	Size int
	// Groups is how many gangs a LeaderWorkerSet keeps, from index 0 on; 0 for other objects, and while it is being deleted.
	Groups int
	// Remaining is how many pods the controller of a Job still keeps running, and Succeeded how many have completed.
	Remaining, Succeeded int
	// MaxRuntime is the run time that a Job declares for its pods by annotation, and Deadline its activeDeadlineSeconds, counted from Started,
	// by the API server's clock. Each is 0 if undeclared.
	MaxRuntime, Deadline time.Duration
	Started              time.Time
	// MakesFor is the gang that a Job of a JobSet makes pods for; zero for other objects.
	MakesFor gang.Ref
	// LeaderFirst is why the leader must not wait for the other members; "" if it may.
	LeaderFirst string
	// Follower is the template of the other members; nil if they equal the leader, or if it is unknown.
	Follower *v1.PodTemplateSpec
	// Parts are the templates of an owner with several, by name.
	Parts map[string]Part
	// Branches are parts with a topology constraint of their own.
	Branches []Branch
	// InTurn says that the parts start one after the other.
	InTurn bool
	// Attempt is the attempt that Part.Succeeded counts, "" for the first.
	Attempt string
	// TopologyKey is the label key with one value on the nodes of all its gangs; "" for none.
	TopologyKey string
	// Priority and NeverPreempts are a CompositePodGroup's priority and preemptionPolicy for all pods below it; nil if undeclared.
	Priority      *int32
	NeverPreempts *bool
	PriorityClass string // a class without effect
	// Parent is the parent object; zero for the root of a tree.
	Parent OwnerKey
	// Problem is why none of its gangs can be planned, and Notes are for the user.
	Problem   error
	Notes     []Note
	misplaced []string // messages on keys that have an effect only on its pods
	// Ineffective names the annotations of a Job that have no effect, since its pods are no gang, and Scheduler is the scheduler of the pods.
	Ineffective, Scheduler string
	// Score is its status.placementScore; nil if absent.
	Score *float64
}

// Owns says whether ref belongs to this object, and not to a former one of the same name.
func (o *Owned) Owns(ref gang.Ref) bool {
	return o != nil && (ref.UID == "" || o.Object == nil || o.Object.UID == "" || string(o.Object.UID) == ref.UID)
}

// Part is one of several templates of an owner: Jobs times Size pods.
type Part struct {
	Jobs, Size int
	Alone      bool // each of the Jobs is a gang
	Listed     int  // the number of pods that are listed by name
	Released   bool // Size is the former value, and the current one is 0
	Succeeded  int  // the Jobs that have succeeded: their pods may be gone
	// Values are the values of this part alone, by field.
	Values map[string]string
}

// Branch is some parts of an owner with a topology constraint of their own.
type Branch struct {
	Where  string // the field that declares it
	Parts  []string
	Values map[string]string
}

// value returns the owner's value under an annotation key or its alias.
func (o *Owned) value(key string) (string, bool) {
	return annotationValue(o.Values, key)
}

// ReadOwner returns what an object of this kind declares. A read error is returned, and is also the Problem of the result.
func (o *Owner) ReadOwner(u *unstructured.Unstructured) (*Owned, error) {
	out := &Owned{
		Key:    OwnerKey{o.Kind, u.GetNamespace(), u.GetName()},
		Values: u.GetAnnotations(),
		Object: &v1.ObjectReference{
			APIVersion: o.Resource.GroupVersion().String(), Kind: o.Kind, Namespace: u.GetNamespace(), Name: u.GetName(),
			UID: types.UID(u.GetUID()), ResourceVersion: u.GetResourceVersion(),
		},
	}
	out.misplaced = misplaced(u, "the pod template's metadata")
	if o.Read == nil {
		return out, nil
	}
	err := o.Read(u, out)
	if err != nil && out.Problem == nil {
		out.Problem = fmt.Errorf("%s cannot be read: %w", out.Key, err)
	}
	return out, err
}

// setValue sets o.Values[key] in a copy of the map.
func (o *Owned) setValue(key, value string) {
	words := map[string]string{}
	maps.Copy(words, o.Values) // the object's own map stays unchanged
	words[key] = value
	o.Values = words
}

// addTierFields calls add for each set field of n, with the field's name as key; not at all if n is nil.
func addTierFields(n *workloads.NetworkTopology, add func(key, value string)) {
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
