package elasticquota

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Cluster is the rest of the process.
type Cluster interface {
	Places
	Evictions
	Events
	Background
}

// Places knows the nodes of pods.
type Places interface {
	// Place returns the node assignment of a pod that is not bound.
	Place(pod *v1.Pod) Place
	// Templates returns values that are equal for pods with equal specs.
	Templates(pods []*v1.Pod) []cache.Template
}

// Place is the node assignment of a pod that is not bound.
type Place struct {
	Assigned bool // a plan assigns a node to the member
	Reserved bool // the node is reserved for it until victims have terminated
	Foreign  bool // another scheduler schedules the pod
}

// Evictions knows the pods that are evicted.
type Evictions interface {
	// Leaves returns whether a pod was asked to terminate.
	Leaves(pod *v1.Pod) bool
	// Terminates returns whether a terminating pod is gone within a time.
	Terminates(pod *v1.Pod, within time.Duration) bool
	// Unseen returns the pods that are to be gone within a time and are not seen terminating: evictions that the API server has
	// accepted, and other ones.
	Unseen(within time.Duration) (accepted, others []*v1.Pod)
}

// Events receives the reports of the Manager.
type Events interface {
	// Hear receives a change. It is called often, and must return at once.
	Hear(Event)
	// Note reports a note about an object.
	Note(cache.Note)
	// Open returns whether notes may be reported and objects written.
	Open() bool
}

// Event is a change that may let waiting gangs and pods start.
type Event struct {
	Kind EventKind
	// Waits are the gangs and pods to retry, by Named: set for MayEvict. One pod stands for its gang.
	Waits map[string]*v1.Pod
	// Members holds one member of each concerned gang: set for MayNotKeep.
	Members []*v1.Pod
}

// EventKind is the kind of an event.
type EventKind uint8

const (
	// Begins says that from now on the caller reports node assignments with Look.
	Begins EventKind = iota
	// MayBeAdmitted says that a gang or pod that was not admitted may be admitted.
	MayBeAdmitted
	// MayBeNext says that a gang or pod that waits for another quota's turn (Later) may be admitted.
	MayBeNext
	// MayEvict says that more pods may be evicted for waiting gangs and pods than before.
	MayEvict
	// MayNotKeep says that a quota no longer allows what gangs have reserved. Its limit fell, or the quota cannot be used.
	MayNotKeep
)

// Background does work later.
type Background interface {
	// Do does work after a delay, once for each key. Idle work waits until nothing is more urgent; yields returns whether it should
	// stop and run later.
	Do(key string, after time.Duration, idle bool, work func(ctx context.Context, yields func() bool) error)
	// Patch writes into an object, or into its subresource unless that is "".
	Patch(ctx context.Context, of schema.GroupVersionResource, namespace, name string, patch []byte, sub string) error
}

// NewManager returns a Manager without quotas.
func NewManager() *Manager { return &Manager{} }

// Connect sets the cluster of a Manager. Changes are gathered for as long as settle before they are written.
func (r *Manager) Connect(cluster Cluster, now clock.PassiveClock, settle time.Duration) {
	r.cluster, r.clock, r.settle = cluster, now, settle
}
