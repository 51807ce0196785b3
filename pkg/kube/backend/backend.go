// Package backend writes gangs as the objects that one scheduler reads. Each scheduler has one file that only computes (Translator);
// one writer serves all. Invariant: a second Sync of the same gang writes nothing.
//
//	PodGangInfo --> Translator.Objects --> desired objects
//	                                          |
//	              existing objects --> writer +--> server-side apply, then surplus objects are deleted
package backend

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Backend writes gangs for one scheduler.
type Backend interface {
	// Name is the backend's name in configurations.
	Name() string
	// Matches returns how well the backend serves pods of a scheduler name.
	Matches(schedulerName string) Match
	// Serves returns the scheduler names that it serves, in words.
	Serves() string
	// Sync writes the objects of a gang, then deletes surplus objects of the same gang. If the gang cannot be translated, Sync
	// returns a *podgang.Error and writes nothing.
	Sync(ctx context.Context, info *podgang.PodGangInfo) error
	// Delete deletes the objects of a gang; of info it needs namespace, name and owner.
	Delete(ctx context.Context, info *podgang.PodGangInfo) error
	// CheckGangReady says whether all objects of a gang exist and every group has its minimum of pods. Then its pods may lose the gate.
	CheckGangReady(ctx context.Context, info *podgang.PodGangInfo) (ready bool, gang string, err error)
	// GetSchedulingGateName returns the gate of pods with a gang that is not ready, if this controller owns the pods.
	GetSchedulingGateName() string
	// GetExistingResourceNames returns the names of the objects written for an owner, GetExistingGangNames the names of their
	// gangs. Both are sorted.
	GetExistingResourceNames(ctx context.Context, namespace string, owner podgang.Owner) ([]string, error)
	GetExistingGangNames(ctx context.Context, namespace string, owner podgang.Owner) ([]string, error)
	// PreparePod adds to a created pod what its scheduler needs to find its gang. It is idempotent, and does not touch gates. The pod is
	// unstructured, since newer Kubernetes versions may have more fields. key is its gang and group; if zero, the labels count.
	PreparePod(ctx context.Context, pod *unstructured.Unstructured, key podgang.PodKey) error
	// Validate says whether an object can be translated; old is its former version, nil at creation.
	Validate(object, old *unstructured.Unstructured) podgang.Verdict
}

// Match is how well a backend serves a scheduler name; the best one wins.
type Match int

// From the worst to the best.
const (
	None    Match = iota
	Any           // the backend serves every name
	Default       // the name is empty, or the default scheduler's
	Like          // the name contains the backend's substring
	Exact
)

// Translator is the part of a backend that differs between schedulers: a pure function of its arguments.
type Translator interface {
	Name() string
	Matches(schedulerName string) Match
	// Serves is Backend.Serves.
	Serves() string
	// Gate is Backend.GetSchedulingGateName.
	Gate() string
	// Kinds returns the kinds of objects that it may have written.
	Kinds(cluster Cluster) []schema.GroupVersionKind
	// Objects returns the desired objects of a gang, or a *podgang.Error.
	Objects(info *podgang.PodGangInfo, cluster Cluster) ([]Object, []podgang.Note, error)
	// Minima returns the minimum of each group from existing objects, by podgang.GroupName.
	Minima(existing []*unstructured.Unstructured) map[string]int32
	PreparePod(pod *unstructured.Unstructured, key podgang.PodKey, cluster Cluster) error
	Validate(object, old *unstructured.Unstructured) podgang.Verdict
}

// Object is a desired object.
type Object struct {
	*unstructured.Unstructured
	// Fixed returns the values that can only be set at creation, as text: if they differ, the object is recreated. It may be nil.
	Fixed func(*unstructured.Unstructured) []string
	// Rearm says that the scheduler treats a satisfied group as satisfied forever. So the object is recreated when all pods of the
	// group are. Pods are the labels of these pods.
	Rearm bool
	Pods  map[string]string
}

// Cluster is the cluster state that translation depends on.
type Cluster struct {
	Topology podgang.Topology
	// Native is the served version of scheduling.k8s.io with Workloads, "" for none.
	Native string
}
