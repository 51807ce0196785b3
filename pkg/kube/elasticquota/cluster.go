package elasticquota

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Cluster is what the Manager uses of the rest of the process.
type Cluster interface {
	Places
	Evictions
	Events
	Background
}

// Places returns the node assignments of pods.
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

// Evictions returns which pods are evicted.
type Evictions interface {
	// Leaves returns whether the API server has accepted the eviction of a pod.
	Leaves(pod *v1.Pod) bool
	// Terminates returns whether a terminating pod is gone within the given time.
	Terminates(pod *v1.Pod, within time.Duration) bool
	// Unseen returns pods to be evicted that are gone within the given time and that no informer shows as terminating yet: pods whose eviction
	// the API server has accepted, and other ones.
	Unseen(within time.Duration) (accepted, others []*v1.Pod)
}

// Events receives the reports of the Manager.
type Events interface {
	// Hear receives an event. It is called often, and must return at once.
	Hear(Event)
	// Note publishes a note about an API object as a Kubernetes event.
	Note(cache.Note)
	// Open returns whether notes may be reported and objects written.
	Open() bool
}

// Event is a change that may let waiting gangs and pods start.
type Event struct {
	Kind EventKind
	// Waits has, for MayEvict, one pod of each gang to retry, and the pods without a gang to retry, by GangName.
	Waits map[string]*v1.Pod
	// Members has, for MayNotKeep, one member of each gang whose reservation is no longer allowed.
	Members []*v1.Pod
}

// EventKind is the kind of an event.
type EventKind uint8

const (
	// Begins says that quotas exist from now on, so that the receiver reports node assignments with UpdatePod.
	Begins EventKind = iota
	// MayBeAdmitted says that a gang or pod that was not admitted may be admitted.
	MayBeAdmitted
	// MayBeNext says that a gang or pod that waits for another quota's turn (WaitsForTurn) may be admitted.
	MayBeNext
	// MayEvict says that more pods may be evicted for waiting gangs and pods than before.
	MayEvict
	// MayNotKeep says that a quota no longer allows the reservations of gangs: its limit was lowered, or the quota became invalid.
	MayNotKeep
)

// Background runs work outside of the scheduling cycle.
type Background interface {
	// Do runs work after a delay, once if it is called several times with one key. Idle work waits until nothing is more urgent. yields
	// returns whether idle work should stop and be scheduled again.
	Do(key string, after time.Duration, idle bool, work func(ctx context.Context, yields func() bool) error)
	// Patch patches an API object, or its subresource sub; "" is none.
	Patch(ctx context.Context, of schema.GroupVersionResource, namespace, name string, patch []byte, sub string) error
}

// NewManager returns a Manager without quotas.
func NewManager() *Manager { return &Manager{} }

// Connect sets what the Manager uses of the process. It writes changes into objects after the duration settle, many changes at once.
func (r *Manager) Connect(cluster Cluster, now clock.PassiveClock, settle time.Duration) {
	r.cluster, r.clock, r.settle = cluster, now, settle
}
