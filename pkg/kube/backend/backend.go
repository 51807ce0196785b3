// Package backend writes gangs as the objects that one scheduler reads: one file a scheduler, each of which only
// computes (Translator), and one writer for all of them. It knows the API server by a client, and no scheduler.
//
//	PodGangInfo --> Translator.Objects --> what should be there
//	                                           |
//	            what is there --> Writer ------'--> server-side apply, then what is too much is deleted
package backend

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Backend is one scheduler as whoever drives it sees it.
type Backend interface {
	// Name is the backend's, by which a configuration names it.
	Name() string
	// Matches says how well it serves pods of a scheduler name.
	Matches(schedulerName string) Match
	// Serves are the scheduler names that it serves, in words.
	Serves() string
	// Sync has the objects of a gang be what they should be: all are written, then what is too much of the same gang is
	// deleted. A second Sync of the same gang writes nothing. What cannot be translated is a *podgang.Error, and then
	// nothing is written.
	Sync(ctx context.Context, info *podgang.PodGangInfo) error
	// Delete deletes what was written for a gang; of info it needs namespace, name and owner.
	Delete(ctx context.Context, info *podgang.PodGangInfo) error
	// CheckGangReady says whether all objects of a gang exist and every group has as many pods as start together: its
	// pods may lose the gate then.
	CheckGangReady(ctx context.Context, info *podgang.PodGangInfo) (ready bool, gang string, err error)
	// GetSchedulingGateName is the gate of pods whose gang is not ready, where this controller owns the pods.
	GetSchedulingGateName() string
	// GetExistingResourceNames lists the objects that were written for an owner, GetExistingGangNames the gangs for
	// which they were. Both are sorted.
	GetExistingResourceNames(ctx context.Context, namespace string, owner podgang.Owner) ([]string, error)
	GetExistingGangNames(ctx context.Context, namespace string, owner podgang.Owner) ([]string, error)
	// PreparePod gives a pod that is created what its scheduler needs to know its gang by. Doing it twice is doing it
	// once; gates are not touched. The pod is as it is served: of a Kubernetes that this program does not know, too. key
	// is its gang and group; none is what its labels say.
	PreparePod(ctx context.Context, pod *unstructured.Unstructured, key podgang.PodKey) error
	// Validate says whether an object can be translated; old is what it was before an update, nil at creation.
	Validate(object, old *unstructured.Unstructured) podgang.Verdict
}

// Match says how well a backend serves a scheduler name; the best one counts.
type Match int

// From the worst to the best.
const (
	None    Match = iota
	Any           // it serves every name
	Default       // the name is empty, or the default scheduler's
	Like          // the name contains what such names contain
	Exact
)

// Translator is what differs from scheduler to scheduler: values in, values out.
type Translator interface {
	Name() string
	Matches(schedulerName string) Match
	// Serves is Backend's.
	Serves() string
	// Gate is GetSchedulingGateName.
	Gate() string
	// Kinds are those of which it may have written objects.
	Kinds(cluster Cluster) []schema.GroupVersionKind
	// Objects are what should be there for a gang, or an *podgang.Error.
	Objects(info *podgang.PodGangInfo, cluster Cluster) ([]Object, []podgang.Note, error)
	// Minima are how many pods start together in the groups of objects that exist, by podgang.GroupName.
	Minima(existing []*unstructured.Unstructured) map[string]int32
	PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, cluster Cluster) error
	Validate(object, old *unstructured.Unstructured) podgang.Verdict
}

// Object is one that should be there.
type Object struct {
	*unstructured.Unstructured
	// Fixed is what of an object can only be set at creation, in words: one that differs there is deleted and made again.
	// nil is nothing.
	Fixed func(*unstructured.Unstructured) []string
	// Rearm says that the scheduler has a group be satisfied once and for all: the object is deleted and made again when
	// all of its pods are, which Pods selects and AnnotationIncarnation tells.
	Rearm bool
	Pods  map[string]string
}

// Cluster is what translation depends on beside the gang.
type Cluster struct {
	Topology podgang.Topology
	// Native is the version of scheduling.k8s.io that is served and that has Workloads, "" if none is.
	Native string
}
