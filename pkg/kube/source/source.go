// Package source determines which gang a pod belongs to, and reads the gang's declaration from the objects of an API. Each API is one
// file and one entry of All (integrations.go); no other package depends on the API. The functions are pure: no client, no cache, no lock.
package source

import (
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Source is one integration: an API, or one of its ways, in which pods name their gang.
type Source struct {
	// Way is what users write on a pod, for messages.
	Way string
	// Space is the name space of the gangs' names, as in gang.Ref. Sources with the same Space name the same gangs.
	Space string
	// NameOf returns the gang that a pod names in this way, in the pod's namespace; "" for none.
	NameOf func(*v1.Pod) string
	// UIDOf returns the UID of the object that a pod names. An object recreated under its name has other gangs. nil is for pods
	// that only know a name.
	UIDOf func(*v1.Pod) string
	// SelfDescribed says that the pods describe their gang if no object does.
	SelfDescribed bool
	// Implied says that a controller names the gang. A name that the user writes takes precedence over the implied one.
	Implied bool
	// Owner is the kind of object that the pods are made for, and OwnerName returns a pod's owner; nil for sources without owners.
	Owner     *Owner
	OwnerName func(*v1.Pod) string
	// IsLeader says whether a pod is the leader for which the controller makes the other members. Members older than their leader
	// belong to a former leader and are deleted with it. nil is for gangs without a leader.
	IsLeader func(*v1.Pod) bool
	// NeedsOwner says that a gang cannot be declared without its owner.
	NeedsOwner bool
	// Fill reads the declaration of a gang that has members. nil: the object declares the gang, or the members do if there is none.
	Fill func(*Declaration, Gang)
	// Object is the kind of object that declares gangs; nil if another source of the same Space has that object.
	Object *Object
	// AddFamily returns the gang's More with what its owner (which is known) and the owner's other gangs declare; nil for none.
	AddFamily func(Gang) More
}

// Object is a kind of object that declares gangs.
type Object struct {
	Resource schema.GroupVersionResource
	// OlderVersions are older versions of the API, read where the cluster does not serve the first.
	OlderVersions []string
	Kind          string
	// Optional says that clusters may lack it.
	Optional bool
	// ReadOnly says that Muster writes nothing to its status except Condition.
	ReadOnly bool
	// Role is the file below manifests that permits reading it, if that is a separate file.
	Role string
	// Condition returns the type of the condition that Muster sets once the gang has reached its minimum. Muster never removes it.
	Condition func(*sigs.PodGroup) string
	New       func() runtime.Object // an empty one
	// Spec returns an empty spec with all fields of the API, also the ones that Muster does not use; nil if New returns such a type.
	Spec func() any
	// Read converts the object to the shape of a PodGroup, in which all declarations are read.
	Read func(*unstructured.Unstructured) (*sigs.PodGroup, error)
	// More returns what does not fit into that PodGroup; nil for nothing.
	More func(*unstructured.Unstructured) More
}

// More is what an object declares beyond the fields of a PodGroup.
type More struct {
	Values    map[string]string // values by the key of the annotation that means the same
	Problem   error             // why the gang cannot be planned
	WaitsFor  string            // the missing objects that the gang waits for; "" for none
	Missing   string            // like WaitsFor, but running members continue
	Tasks     map[string]int    // the minimum number of members of each task
	SubGroups []SubGroups       // the policies by which members form sub-groups
	Notes     []Note
	Owner     OwnerKey   // the object that must be known, too; zero for none
	Group     []gang.Ref // the gangs that start together with this one, sorted
	Branches  []branch   // the parts of Group with a topology constraint of their own
	// Above are the levels above the gang, if the group may start without some of its gangs.
	Above      []choice.Level
	EvictWhole bool // members are evicted together, even the ones beyond the minimum
	// Priority overrides the priority of all members; nil if they keep their own. PriorityClass is a class without effect.
	Priority      *int32
	PriorityClass string
	NeverPreempts *bool // preemptionPolicy Never for all members; nil if each pod's own counts
}

// refOf returns the gang that pod is a member of, if pod names its gang name in the way of this source.
func (s *Source) refOf(pod *v1.Pod, name string) gang.Ref {
	ref := gang.Ref{Source: s.Space, Namespace: pod.Namespace, Name: name}
	if s.UIDOf != nil {
		ref.UID = s.UIDOf(pod)
	}
	return ref
}

// ReadObject reads an object that declares a gang, in the shape of a PodGroup. If it cannot be read, the error is returned, and
// it is also the gang's problem.
func (s *Source) ReadObject(u *unstructured.Unstructured) (pg *sigs.PodGroup, more More, err error) {
	if pg, err = s.Object.Read(u); err != nil {
		return shape(u), More{Problem: fmt.Errorf("%s %s/%s cannot be read: %w", s.Object.Kind, u.GetNamespace(), u.GetName(), err)}, err
	}
	if s.Object.More != nil {
		more = s.Object.More(u)
	}
	return pg, more, nil
}

// shape returns a PodGroup with the object's metadata and an empty spec.
func shape(u *unstructured.Unstructured) *sigs.PodGroup {
	return &sigs.PodGroup{TypeMeta: metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}, ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
		CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
		Annotations: u.GetAnnotations(), Labels: u.GetLabels(), OwnerReferences: u.GetOwnerReferences(),
	}}
}

// Ref returns the gang that an object of this source declares.
func (s *Source) Ref(object *unstructured.Unstructured) gang.Ref {
	return gang.Ref{Source: s.Space, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Versions returns the resources that may hold its objects. The first that the cluster serves is read.
func (o *Object) Versions() []schema.GroupVersionResource {
	all := []schema.GroupVersionResource{o.Resource}
	for _, version := range o.OlderVersions {
		all = append(all, o.Resource.GroupResource().WithVersion(version))
	}
	return all
}

// Gang is all that is known of one gang.
type Gang struct {
	Ref    gang.Ref
	Object *sigs.PodGroup // the object that declares it, in the shape of a PodGroup; nil for none
	More   More           // the rest of the object's declaration
	Owner  *Owned         // the object that OwnerOf names; nil if it is not known
	// Expected says that the owner is missing although other objects of its kind are known.
	Expected bool
	// Denied are the resources of other projects that Muster may not read.
	Denied map[schema.GroupVersionResource]bool
	// Pointer returns the key and name by which pods that the owner makes for a gang name another gang, "" for none. It may be nil.
	Pointer func(gang.Ref) string
	// Known says whether a gang has members; nil if that is not known.
	Known func(gang.Ref) bool
	Pods  map[string]*v1.Pod // its members, by namespace/name
	// Above are the known ancestors of the owner, from its parent up, at most MaxLevels (the length at which a cycle is cut).
	Above []*Owned
	// Children are the known objects through which the owner makes pods, or the Jobs of its members.
	Children []*Owned
	// Siblings are the declared gangs below the same root, including this gang, sorted. Only kinds of owner with Family have them.
	Siblings []Gang
	// Finished are the finished members. They describe the gang if no other pod or object does.
	Finished map[string]*v1.Pod
	// Gate returns why a member does not count yet; "" if it counts. nil: every member counts.
	Gate func(*v1.Pod) string
}

// Defaults are the values for what a gang does not declare, and the cluster's settings that limit a declaration.
type Defaults struct {
	Wait   time.Duration
	Policy gang.MatchPolicy
	Moves  bool // the repair policy is Move
	// NetworkTopologyAware false removes topology constraints from every gang.
	NetworkTopologyAware bool
	// Layers are the topology's layers between its root and the nodes, from the top down; nil without a topology.
	Layers []convert.Layer
	// Check returns why members cannot be gathered by a spec; nil accepts every spec.
	Check func(*scheduling.GatherSpec) error
}

// allPods returns the members, finished or not.
func (g *Gang) allPods() map[string]*v1.Pod {
	if len(g.Finished) == 0 {
		return g.Pods
	}
	all := maps.Clone(g.Finished)
	maps.Copy(all, g.Pods)
	return all
}

// running returns how many members have a node and have not finished.
func (g *Gang) running() (n int) {
	for _, pod := range g.Pods {
		if pod.Spec.NodeName != "" && !convert.Finished(pod) {
			n++
		}
	}
	return n
}

// hasStarted says whether some member has a node or has finished.
func (g *Gang) hasStarted() bool { return g.running() > 0 || len(g.Finished) > 0 }

// Note is something that the user should know about the objects of a gang.
type Note struct{ Reason, Message string }

// Warns says whether the note reports a mistake of the user. The other notes only explain.
func (n Note) Warns() bool {
	return n.Reason != reasons.TopologyRule && n.Reason != reasons.LeaderFirst
}

// Declaration is what is declared of a gang, with defaults filled in.
type Declaration struct {
	gang.Spec
	Gather           *scheduling.GatherSpec // the topology constraint; nil for none
	Values           map[string]string      // values by the key of their annotation
	DeclaringPod     string                 // the member that is read if the object has no value
	Notes            []Note                 // for the user
	ConstraintOrigin string                 // where Gather was declared, in words; "" if it was not
	// Total is the number of members of a gang whose leader is created before the other members: the leader only starts where all of
	// them fit; 0 for other gangs. Follower is the template of the other members; nil if they equal the leader.
	Total    int
	Follower *v1.PodTemplateSpec
	// Resources are the requests of all members (minResources): capacity for members that do not exist yet is held; nil if undeclared.
	Resources v1.ResourceList
	// SubGroups are the policies by which members form sub-groups; none if the gang is undivided.
	SubGroups []SubGroups
	// Tasks are the minimum numbers of members by task; nil without tasks.
	Tasks map[string]int
	// ReadsLayers says that Gather depends on the layers of the topology.
	ReadsLayers bool
	// PerGang says that Gather's constraint on each gang is about this gang alone. Other gangs of its group may have another one.
	PerGang bool
	// Branches are parts of its group with a topology constraint of their own.
	Branches []convert.Own
	// DependsOnMembers says that the declaration may change when members are added, removed or bound.
	DependsOnMembers bool
	// EvictWhole says that its members are evicted together, even the ones beyond Min.
	EvictWhole bool
	// Moves says that the gang moves to another domain if its own cannot replace a lost member (repair policy Move).
	Moves bool
	// Evictable says that the members are evicted first for the repair of another gang (scheduling.AnnotationBackfill).
	Evictable bool
	// MaxRuntime is how long the members run after they have nodes, as the gang's objects declare; 0 if they do not.
	MaxRuntime time.Duration
	// Priority overrides the priority of all members, and NeverPreempts their preemptionPolicy; nil if each pod's own counts.
	Priority      *int32
	NeverPreempts *bool

	origins    []origin
	branches   []branch
	constraint constraint // the one that Gather was read from
	// noMinAvailable says that the members describe the gang and none has a valid min-available.
	noMinAvailable bool
}
