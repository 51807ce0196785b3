// Package source says which API makes which pods a gang, and what the objects of that API say about the gang.
// Each API is one file and one entry of All (integrations.go); nothing else needs to know the API. The functions
// are pure: no client, no cache, no lock.
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

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Source is one way in which users make pods a gang.
type Source struct {
	// Way is what users write on a pod, for messages.
	Way string
	// Space is the name space of the gangs' names, as in gang.Ref: several ways of one API
	// may name the same gang.
	Space string
	// NameOf is the name of the gang that a pod names in this way, "" if it names none. The
	// gang is one of the pod's namespace.
	NameOf func(*v1.Pod) string
	// UIDOf is the UID of the object that a pod means by that name: one that is made again under
	// its name has other gangs. nil is for pods that know a name only.
	UIDOf func(*v1.Pod) string
	// Itself says that the pods describe their gang themselves where no object does.
	Itself bool
	// Implied says that a controller names the gang, and not a user: whoever names another one
	// means it.
	Implied bool
	// Owner is the kind of object whose controller makes the pods, and OwnerName the one that a pod
	// names; nil if nothing is to be known of one.
	Owner     *Owner
	OwnerName func(*v1.Pod) string
	// Leads says whether a pod is the one for which the controller makes the other members of its gang:
	// those who are older were made for one before, and go with that. nil is for gangs without one.
	Leads func(*v1.Pod) bool
	// Needs says that without its owner nothing is known of a gang.
	Needs bool
	// Fill says what is declared of a gang that has members; nil is what an object says, or the
	// members where there is none.
	Fill func(*Declaration, Gang)
	// Object is the kind of object that declares gangs; nil if that of another source of
	// the same space does.
	Object *Object
	// Family adds to what an object says what its owner and the other gangs of that owner say;
	// nil is nothing. Of the owner it is only asked once that is known.
	Family func(Gang) More
}

// Object is a kind of object that declares gangs.
type Object struct {
	Resource schema.GroupVersionResource
	// Others are other versions in which it may be served, read where the first is not.
	Others []string
	Kind   string
	// Optional says that clusters need not have it.
	Optional bool
	// ReadOnly says that its status is not ours to write, but for one condition if there is one.
	ReadOnly bool
	// Role is the file below manifests that permits to read it, if that is a file of its own.
	Role string
	// Condition is the type of that condition: that the gang was whole once, which then stays.
	Condition func(*sigs.PodGroup) string
	New       func() runtime.Object // an empty one
	// Read gives the object the shape of a PodGroup, in which all declarations are read.
	Read func(*unstructured.Unstructured) (*sigs.PodGroup, error)
	// More is what has no place in a PodGroup of that shape; nil is nothing.
	More func(*unstructured.Unstructured) More
}

// More is what an object says beside what a PodGroup can say.
type More struct {
	Words     map[string]string // as annotations would
	Problem   error             // why the gang cannot be planned
	Waits     string            // for what it waits that others make; "" for nothing
	Lacks     string            // the same, but those who have started go on
	Tasks     map[string]int    // how many members each of several tasks needs at the least
	SubGroups []SubGroups       // the policies by which members form sub-groups
	Notes     []Note
	Owner     OwnerKey   // the object that must be known, too; zero if there is none
	Group     []gang.Ref // the gangs that start together with it, sorted
	Branches  []branch   // those of them that gather with one another
	// Above are the levels above the gang where not all gangs of the group are needed.
	Above []choice.Level
	Whole bool // its members leave together, however many more they are than it needs
	// Priority is that of all members, whatever these say; nil if they say it. PriorityClass is one that has no effect.
	Priority      *int32
	PriorityClass string
	Never         *bool // whether no pod is evicted for its members, whatever these say; nil if they say it
}

// refOf is the gang of a name that a pod gives.
func (s *Source) refOf(pod *v1.Pod, name string) gang.Ref {
	ref := gang.Ref{Source: s.Space, Namespace: pod.Namespace, Name: name}
	if s.UIDOf != nil {
		ref.UID = s.UIDOf(pod)
	}
	return ref
}

// ReadObject reads an object that declares a gang, in the shape of a PodGroup. One that cannot be read has
// that for a problem, and is the error.
func (s *Source) ReadObject(u *unstructured.Unstructured) (pg *sigs.PodGroup, more More, err error) {
	if pg, err = s.Object.Read(u); err != nil {
		return shape(u), More{Problem: fmt.Errorf("%s %s/%s cannot be read: %w", s.Object.Kind, u.GetNamespace(), u.GetName(), err)}, err
	}
	if s.Object.More != nil {
		more = s.Object.More(u)
	}
	return pg, more, nil
}

// shape is an object as a PodGroup that says nothing.
func shape(u *unstructured.Unstructured) *sigs.PodGroup {
	return &sigs.PodGroup{TypeMeta: metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}, ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
		CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
		Annotations: u.GetAnnotations(), Labels: u.GetLabels(), OwnerReferences: u.GetOwnerReferences(),
	}}
}

// Ref names the gang that an object of a source declares.
func (s *Source) Ref(object *unstructured.Unstructured) gang.Ref {
	return gang.Ref{Source: s.Space, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Versions are the resources that hold its objects, of which one is read: the first that is
// served.
func (o *Object) Versions() []schema.GroupVersionResource {
	all := []schema.GroupVersionResource{o.Resource}
	for _, version := range o.Others {
		all = append(all, o.Resource.GroupResource().WithVersion(version))
	}
	return all
}

// Gang is all that the cluster says of one gang.
type Gang struct {
	Ref    gang.Ref
	Object *sigs.PodGroup // what declares it, in the shape of a PodGroup; nil if nothing does
	More   More           // what else the object says
	Owner  *Owned         // the object that OwnerOf names; nil if it is not known
	// Expected says that objects of the owner's kind are known, so that it is one that is missing.
	Expected bool
	// Denied are the resources of other projects that may not be read.
	Denied map[schema.GroupVersionResource]bool
	// Pointer says how pods which the owner means for a gang name another one, "" if none does;
	// nil is for none.
	Pointer func(gang.Ref) string
	// Known says whether a gang has members; nil is for not known.
	Known func(gang.Ref) bool
	Pods  map[string]*v1.Pod // its members, by namespace/name
	// Above are the parents of the owner, from the next one up, as far as they are known; no more than
	// MaxLevels, which is what a circle has.
	Above []*Owned
	// Children are the objects through which the owner makes pods, or the Jobs of its members, as far as they are known.
	Children []*Owned
	// Siblings are the gangs whose owners have one root, itself among them, sorted: those that objects
	// declare, if the owner's kind is a family.
	Siblings []Gang
	// Done are those that have finished: they describe the gang where nobody else does.
	Done map[string]*v1.Pod
	// Held says whether a member does not count yet: it has scheduling gates or another scheduler, or waits for
	// claims to be made. nil is for none.
	Held func(*v1.Pod) bool
}

// Defaults hold where nothing is said.
type Defaults struct {
	Wait   time.Duration
	Policy gang.MatchPolicy
	// Aware false makes every gang a gang without topology.
	Aware bool
	// Layers are those of the topology between its root and the nodes, from the top down; nil if
	// there is none.
	Layers []convert.Layer
	// Check says why members cannot be gathered like this; nil means that they always can.
	Check func(*scheduling.GatherSpec) error
}

// any are its members, finished or not.
func (g *Gang) any() map[string]*v1.Pod {
	if len(g.Done) == 0 {
		return g.Pods
	}
	all := maps.Clone(g.Done)
	maps.Copy(all, g.Pods)
	return all
}

// running is how many members have a node and have not finished.
func (g *Gang) running() (n int) {
	for _, pod := range g.Pods {
		if pod.Spec.NodeName != "" && !convert.Finished(pod) {
			n++
		}
	}
	return n
}

// begun says whether some member has a node, or has finished.
func (g *Gang) begun() bool { return g.running() > 0 || len(g.Done) > 0 }

// Note is something that people should know of a gang's objects.
type Note struct{ Reason, Message string }

// The reasons of notes.
const (
	InvalidAnnotation = "InvalidAnnotation" // a bad value, for which a default is used
	TopologyRule      = "TopologyRule"      // where the rule comes from
	LeaderFirst       = "LeaderFirst"       // the first member starts alone
	OwnerNotRead      = "OwnerNotRead"      // what the owner says is not known
	TwoGangs          = "TwoGangs"          // somebody names several
)

// Warns says whether something should be changed.
func (n Note) Warns() bool { return n.Reason != TopologyRule && n.Reason != LeaderFirst }

// Declaration is what is declared of a gang.
type Declaration struct {
	gang.Spec
	Gather *scheduling.GatherSpec // how the members gather; nil if that is not said
	Says   map[string]string      // what describes the gang, by the key of its annotation
	By     string                 // the member that says it where the object does not
	Notes  []Note                 // what people should know of it
	Rule   string                 // where Gather was said, in words; "" if it was not
	// Total is how many members there will be where the first comes before the others are made,
	// and must only go where all of them find room; 0 if members come as they please. Follower is
	// what the others need; nil if it is what the first does.
	Total    int
	Follower *v1.PodTemplateSpec
	// Resources are what the members need in all (minResources): capacity for members that do not exist yet is held; nil if that is not said.
	Resources v1.ResourceList
	// SubGroups are the policies by which members form sub-groups; none where all are one.
	SubGroups []SubGroups
	// Tasks are how many members of each of several tasks must start; nil where none are told apart.
	Tasks map[string]int
	// ReadsLayers says that Gather is another one when the topology has other layers.
	ReadsLayers bool
	// Apart says that what Gather asks of each gang is about this one, whatever others of its group
	// ask for.
	Apart bool
	// Branches are gangs of its group that gather with one another.
	Branches []convert.Own
	// Counts says that another declaration may hold when members come, go or are bound.
	Counts bool
	// Whole says that its members leave together, however many more they are than Min.
	Whole bool
	// Priority is that of all members, whatever these say, and Never says whether no pod is evicted for them; nil if they say it.
	Priority *int32
	Never    *bool

	speakers []speaker
	branches []branch
	rule     rule // of Gather
	// noLeast says that no member has a legal min-available where members describe the gang.
	noLeast bool
}
